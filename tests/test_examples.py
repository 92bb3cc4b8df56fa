"""The examples do what they say, in miniature; whoever starts here copies them."""

import json
import math
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import flambeau
from examples import gpt, sequence, serve
from flambeau import nn

TINY = {"context": 16, "width": 16, "layers": 1}


@pytest.fixture
def drawn(monkeypatch):
    """What the examples would draw. Drawing needs matplotlib, which running them does not."""
    calls = []
    for example in (gpt, sequence):
        monkeypatch.setattr(example, "draw", lambda *args: calls.append(args))
    return calls


def options(**values):
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def programs(printed):
    return re.search(r"programs compiled for .* steps: (\d+)", printed)[1]


class TestGPT:
    def test_learns_writes_and_saves(self, drawn, tmp_path, capsys):
        gpt.main(options(**TINY, batch=8, steps=100, rate=0.02, length=20, output=tmp_path / "new"))
        [(history, picture)] = drawn
        characters, losses, test_losses = zip(*history, strict=True)
        assert characters[-1] == 100 * 8 * 16
        assert losses[-1] < losses[0]
        # Knowing how frequent each character is, and nothing else, is worth about 3.0.
        assert test_losses[-1] < min(test_losses[0], 2.9)
        assert picture.parent == tmp_path / "new"

        printed = capsys.readouterr().out
        assert programs(printed) == "1"
        assert "It is a truth universally" in printed

        text = gpt.Text(gpt.TEXT.read_text())
        restored = gpt.GPT(len(text.vocabulary), **TINY)
        restored.load_state_dict(flambeau.load(tmp_path / "new" / "model.safetensors"))
        assert restored.scores.weight is restored.embedding.weight
        starts = flambeau.linspace(0, len(text.test) - 17, 128).long()
        with flambeau.no_grad():
            loss = gpt.prediction_loss(restored, text.test, starts)
        assert math.isclose(loss.item(), test_losses[-1], rel_tol=1e-5)

    def test_a_character_is_predicted_from_those_before_it_only(self):
        flambeau.manual_seed(0)
        model = gpt.GPT(10, **TINY)
        characters = flambeau.randint(0, 10, (2, 16))
        changed = characters.clone()
        changed[:, 9:] = (changed[:, 9:] + 1) % 10
        with flambeau.no_grad():
            before, after = model(characters), model(changed)
        assert flambeau.allclose(before[:, :9], after[:, :9])
        assert not flambeau.allclose(before[:, 9:], after[:, 9:])

    def test_rotation_makes_scores_depend_on_distances(self):
        attention = gpt.Attention(16, heads=4, context=16)
        query, key = (attention.rotate(flambeau.ones(16, 4)) for _ in range(2))
        scores = query @ key.T
        assert flambeau.allclose(scores[1:, 1:], scores[:-1, :-1], atol=1e-5)
        assert not flambeau.allclose(scores[1:], scores[:-1], atol=0.1)

    @pytest.mark.parametrize("prompt", ["t", "the quick", "the quick brown fox jumps"])
    def test_writes_the_likeliest_characters_when_cold(self, prompt):
        flambeau.manual_seed(0)
        text = gpt.Text("the quick brown fox jumps over the lazy dog. " * 4)
        model = gpt.GPT(len(text.vocabulary), **TINY)
        nn.init.normal_(model.embedding.weight)
        written = gpt.write(model, text, prompt, 23, temperature=1e-4)
        assert written.startswith(prompt)
        assert len(written) == len(prompt) + 23

        # Without a cache: the whole context is computed for each character.
        characters, start = text.encode(written), 0
        for end in range(1, len(characters)):
            if end - start > 16:
                start = end - 8
            if end >= len(prompt):
                with flambeau.no_grad():
                    scores = model(characters[None, start:end])[0, -1]
                assert scores.argmax() == characters[end]

    def test_scores_with_caches_are_those_of_the_whole_text(self):
        flambeau.manual_seed(0)
        model = gpt.GPT(10, **TINY)
        characters = flambeau.randint(0, 10, (2, 16))
        caches = model.make_caches(2)
        with flambeau.no_grad():
            pieces = [model(piece, caches) for piece in characters.split([5, 1, 1, 9], dim=1)]
            whole = model(characters)
        assert flambeau.allclose(flambeau.cat(pieces, dim=1), whole, atol=1e-5)
        assert [cache.length.item() for cache in caches] == [16]

    def test_a_prompt_with_unknown_characters_says_which(self):
        with pytest.raises(ValueError, match=r"never seen \['é'\]"):
            gpt.main(["--prompt", "café"])
        with pytest.raises(SystemExit):
            gpt.main(["--prompt", ""])

    def test_the_rate_rises_and_falls(self):
        model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
        optimizer, schedule = gpt.make_optimizer(model, steps=100, rate=1.0, warm_up=20)
        assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
        rates = []
        for _ in range(100):
            rates.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        assert rates.index(max(rates)) == 20
        assert rates[0] == pytest.approx(0.02)
        assert max(rates) == pytest.approx(1.0)
        assert rates[-1] == pytest.approx(0.05, abs=1e-3)
        assert rates[20:] == sorted(rates[20:], reverse=True)


class TestSequence:
    def test_learns_to_forecast(self, drawn, tmp_path, capsys):
        sequence.main(options(width=8, steps=100, rate=0.01, output=tmp_path / "new"))
        [(truth, forecasts, errors, picture)] = drawn
        assert forecasts.shape == truth.shape == (228 - 5, 6)
        np.testing.assert_allclose(abs(forecasts - truth).mean(0), errors["LSTM"])
        means = {name: error.mean() for name, error in errors.items()}
        assert means["LSTM"] < means["the last temperature"]
        assert means["LSTM"] < means["the same month a year before"]
        assert picture.parent == tmp_path / "new"
        assert programs(capsys.readouterr().out) == "1"
        restored = sequence.Forecaster(8)
        restored.load_state_dict(flambeau.load(tmp_path / "new" / "model.safetensors"))

    def test_forecasts_are_made_before_their_months(self):
        class Repeat(nn.Module):
            def forward(self, months):
                return months[:, :, :1].expand(-1, -1, sequence.HORIZON)

        temperatures = np.random.default_rng(0).normal(20, 3, 120).astype(np.float32)
        scale = sequence.Scale(temperatures)
        months = sequence.features(temperatures, scale)
        forecasts = sequence.forecast(Repeat(), months, 60, scale)
        naive = sequence.naive_forecasts(temperatures, 60)
        np.testing.assert_allclose(forecasts, naive["the last temperature"], rtol=1e-5)

    def test_naive_forecasts(self):
        temperatures = np.tile(np.arange(12.0), 10)
        temperatures[[3, 15]] += 1, -1
        temperatures[60] += 5  # a deviation that is gone a month later
        truth = np.lib.stride_tricks.sliding_window_view(temperatures[48:], 6)
        naive = sequence.naive_forecasts(temperatures, 48)
        errors = {name: np.abs(each - truth) for name, each in naive.items()}
        assert errors["the last temperature"][0].tolist() == [11, 10, 9, 8, 7, 6]
        # The month itself, and its repetition a year later.
        assert errors["the same month a year before"][:, 0].nonzero()[0].tolist() == [12, 24]
        assert errors["the month's usual temperature"][:, 0].nonzero()[0].tolist() == [12]
        after = errors["the usual one + the last deviation"][13]
        assert after.tolist() == [5, 5, 5, 5, 5, 5]

    def test_a_part_of_a_deviation_is_kept(self):
        month = np.arange(240)
        usual = 20 + 3 * np.sin(month * np.pi / 6)
        rng = np.random.default_rng(0)
        deviation = np.zeros(240)
        for i in range(1, 240):
            deviation[i] = 0.8 * deviation[i - 1] + 0.1 * rng.normal()
        naive = sequence.naive_forecasts(usual + deviation, 180)
        plain = naive["the month's usual temperature"]
        whole = naive["the usual one + the last deviation"] - plain
        part = naive["the usual one + a part by regression"] - plain
        kept = (part / whole)[0]
        assert 0.5 < kept[0] < 0.9
        assert all(kept[:-1] > kept[1:])


def test_many_devices_trains_on_eight_and_goes_on_on_four(tmp_path):
    script = Path(__file__).parent.parent / "examples" / "many_devices.py"
    sizes = {"context": 16, "width": 16, "layers": 1, "experts": 4}
    words = options(**sizes, steps=16, batch=8, output=tmp_path / "new")
    command = [sys.executable, str(script), *words]
    environment = {**os.environ, "PYTHONPATH": str(script.parent.parent)}
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert found.returncode == 0, found.stderr
    printed = found.stdout
    # The same matrix in two parts, and then in four.
    assert re.findall(r"hidden\.weight .* (\(\d+, 16\))   model cuts dimension 0", printed) == [
        "(32, 16)",
        "(16, 16)",
    ]
    # Two experts on each device, and then one.
    assert re.findall(r"experts\.up .* (\(\d+, 16, 32\))   model cuts dimension 0", printed) == [
        "(2, 16, 32)",
        "(1, 16, 32)",
    ]
    assert "going on after step 16, with a rate of 0.003" in printed
    assert printed.count("1 program\n") == 2
    before, after = re.search(r"the loss went on from ([\d.]+) to ([\d.]+)", printed).groups()
    assert float(after) < float(before) + 0.2 < 4.3
    assert (tmp_path / "new" / "model.safetensors.index.json").exists()


def served(url, content=None):
    """The status and the JSON of a server's answer."""
    body = None if content is None else json.dumps(content).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_serve_answers_many_clients_in_batches(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    batch = flambeau.export.Dim("batch", max=8)
    program = flambeau.export.export(model, (flambeau.ones(2, 4),), dynamic_shapes=({0: batch},))
    flambeau.export.save(program, tmp_path / "model.safetensors")
    script = Path(__file__).parent.parent / "examples" / "serve.py"
    words = [str(tmp_path / "model.safetensors"), *options(port=0, batch=8, wait=0.1)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, str(script), *words], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            url = next(line.split()[-1] for line in server.stdout if "listening" in line)
            samples = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)
            with ThreadPoolExecutor(12) as clients:
                contents = [{"input": sample.tolist()} for sample in samples]
                answers = list(clients.map(lambda each: served(url, each), contents))
            expected = model(flambeau.tensor(samples)).detach().numpy()
            assert {status for status, _ in answers} == {200}
            found = [content["output"] for _, content in answers]
            np.testing.assert_allclose(found, expected, atol=1e-5)
            counts = served(url)[1]
            assert counts["samples"] == 24
            assert counts["batches"] < 24
            for wrong, reason in [
                ({"input": [1.0, 2.0]}, r"shape \[4\], got \[2\]"),
                ({"input": "text"}, "could not convert"),
                ({"other": 1}, 'a request is an object {"input": sample}'),
                ([], 'a request is an object {"input": sample}'),
            ]:
                status, content = served(url, wrong)
                assert status == 400
                assert re.search(reason, content["error"])
        finally:
            server.terminate()


def test_serve_names_the_programs_that_it_takes():
    two = flambeau.export.export(lambda x: (x, x), (flambeau.ones(2, 4),))
    with pytest.raises(ValueError, match=r"of one input and one output, got \(1, 2\)"):
        serve.Batcher(two)


def test_serve_shows_itself(capsys):
    serve.main([])
    assert re.match(r"64 samples in \d+ batches, within \de[-+]\d+", capsys.readouterr().out)


def test_digits_learns_saves_and_draws(tmp_path, capsys):
    for module in ("matplotlib", "sklearn", "tqdm"):
        pytest.importorskip(module, reason="needs the packages of `make demo`")
    from examples import digits

    digits.main(options(epochs=4, batch=128, output=tmp_path / "new"))
    printed = capsys.readouterr().out
    assert float(re.search(r"test accuracy: ([\d.]+)%", printed)[1]) > 80
    assert "predictions are the same to the bit" in printed
    assert is_picture(tmp_path / "new" / "digits.png")


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib", reason="needs the packages of `make demo`")
    gpt.draw([(512, 3.0, 2.9), (1024, 2.5, 2.6)], tmp_path / "gpt.png")
    assert is_picture(tmp_path / "gpt.png")

    forecasts = np.zeros((60, 6))
    sequence.draw(forecasts, forecasts, {"LSTM": np.ones(6)}, tmp_path / "sequence.png")
    assert is_picture(tmp_path / "sequence.png")


def is_picture(path):
    return path.read_bytes().startswith(b"\x89PNG")
