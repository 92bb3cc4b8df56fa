"""Exported programs: they equal the model for every size, and files are read without its code."""

import hashlib
import io
import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.checkpoint import (
    CheckpointError,
    DamagedFileError,
    LimitExceededError,
    Limits,
    RefusedContentError,
)
from flambeau.core.devices import compiler
from flambeau.export import Dim, ExportedProgram, dims, export, load, save
from flambeau.nn import functional as F
from flambeau.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Attention(nn.Module):
    def forward(self, x):
        heads = x.view(x.shape[0], x.shape[1], 4, 4).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)


class Loss(nn.Module):
    def forward(self, scores):
        return F.cross_entropy(scores, scores.argmax(1)), {"probabilities": scores.softmax(1)}


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.norm(self.second(F.relu(self.first(x)))))


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip


class GPT(nn.Module):
    """The scores of the next of 11 characters; the first and the last matrix are one parameter."""

    def __init__(self):
        super().__init__()
        self.characters, self.positions = nn.Embedding(11, 16), nn.Embedding(32, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.scores = nn.Linear(16, 11, bias=False)
        self.scores.weight = self.characters.weight
        self.register_buffer("scale", flambeau.tensor(2.0), persistent=False)

    def forward(self, characters):
        length = characters.shape[1]
        x = self.characters(characters) + self.positions(flambeau.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.scores(self.layers(x, mask=mask, is_causal=True)[:, -1]) * self.scale


# A model, and the shape of its input; names are open sizes. Integers go to embeddings.
MODELS = {
    "linear": (lambda: nn.Linear(512, 512), "b 512"),
    "convolution": (lambda: nn.Conv2d(2, 4, 3, padding=1), "b 2 h w"),
    "depthwise": (lambda: nn.Conv1d(4, 4, 3, groups=4), "b 4 h"),
    "transposed": (lambda: nn.ConvTranspose2d(2, 4, 3, stride=2), "b 2 5 5"),
    "attention": (Attention, "b n 16"),
    "multi-head": (SelfAttention, "b n 16"),
    "layer norm": (lambda: nn.LayerNorm(16), "b n 16"),
    "batch norm": (lambda: nn.BatchNorm2d(4), "b 4 h w"),
    "embedding": (lambda: nn.Embedding(10, 4), "b n"),
    "gelu": (nn.GELU, "b n"),
    "softmax": (lambda: nn.Softmax(-1), "b n"),
    "lstm": (lambda: nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), "b n 4"),
    "lstm cell": (lambda: nn.LSTMCell(4, 6), "b 4"),
    "gru": (lambda: nn.GRU(4, 6), "n b 4"),
    "max pool": (lambda: nn.MaxPool2d(3, 2, 1), "b 3 h w"),
    "dilated max pool": (lambda: nn.MaxPool2d(2, 1, dilation=2), "b 3 h w"),
    "max pool by ceil": (lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), "b 3 h w"),
    "average pool": (lambda: nn.AvgPool2d(2), "b 3 h w"),
    "average pool by ceil": (lambda: nn.AvgPool2d(3, 2, 1, True, False), "b 3 h w"),
    "nearest": (lambda: nn.Upsample(scale_factor=(2, 0.5)), "b 3 h w"),
    "nearest of a size": (lambda: nn.Upsample((5, 7), mode="nearest-exact"), "b 3 h w"),
    "linear of a size": (lambda: nn.Upsample(9, mode="linear"), "b 3 h"),
    "linear corners": (lambda: nn.Upsample(None, 2, "bilinear", align_corners=True), "b 3 h w"),
    "cubic": (lambda: nn.Upsample(None, (1.5, 2), "bicubic"), "b 3 h w"),
    "loss": (Loss, "b 5"),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32), 2), "n b 16"),
    "resnet": (resnet, "b 3 16 16"),
    "gpt": (GPT, "b n"),
}
LEAST = {"b": 1, "n": 1, "h": 3, "w": 3}


def made(name):
    """The model, and a function from a size to an input."""
    flambeau.manual_seed(0)
    build, shape = MODELS[name]
    model = build().eval()
    for each in model.buffers():
        if each.is_floating_point() and each.ndim:
            each.uniform_(0.5, 1.5)

    def sample(size):
        sizes = {"b": size, "n": size + 1, "h": size + 4, "w": size + 3}
        rng = np.random.default_rng(size)
        concrete = [sizes.get(each) or int(each) for each in shape.split()]
        if name in ("embedding", "gpt"):
            return flambeau.tensor(rng.integers(0, 10, concrete))
        return flambeau.tensor(rng.standard_normal(concrete, np.float32))

    open_sizes = [Dim(e, min=LEAST[e]) if e in LEAST else None for e in shape.split()]
    return model, sample, (open_sizes,)


def reloaded(program, **options):
    return load(io.BytesIO(saved(program)), **options)


def saved(program):
    file = io.BytesIO()
    save(program, file)
    return file.getvalue()


def assert_close(found, expected):
    """Nested results are equal, up to rounding."""
    if isinstance(expected, flambeau.Tensor):
        assert found.dtype == expected.dtype
        assert not found.requires_grad
        np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), atol=3e-5)
        return
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = found.values(), expected.values()
    if isinstance(expected, tuple | list | type({}.values())):
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_program_equals_the_model_for_every_size(name):
    model, sample, shapes = made(name)
    program = export(model, (sample(3),), dynamic_shapes=shapes, platforms=("cpu", "cuda", "tpu"))
    restored = reloaded(program)
    assert repr(restored) == repr(program)
    assert restored.platforms == ("cpu", "cuda", "tpu")
    for size in (1, 3, 6):
        x = sample(size)
        with flambeau.no_grad():
            assert_close(restored(x), model(x))


RUNS_ALONE = """
import sys, numpy as np, flambeau
for module in ("test_export", "tests.test_export"):
    assert module not in sys.modules
program = flambeau.export.load(sys.argv[1])
inputs = np.load(sys.argv[2])
np.savez(sys.argv[3], **{name: program(inputs[name]).numpy() for name in inputs})
counts = flambeau.compiler.stats()["by_name"]["program of GPT"]
print(counts["compiled"], counts["loaded"])
"""


def test_a_program_runs_in_another_process_and_is_compiled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE", str(tmp_path / "cache"))
    model, sample, shapes = made("gpt")
    save(export(model, (sample(3),), dynamic_shapes=shapes), tmp_path / "gpt.safetensors")
    inputs = {str(size): sample(size).numpy() for size in (1, 2, 5)}
    np.savez(tmp_path / "inputs.npz", **inputs)
    del model
    printed = []
    for _ in range(2):
        names = [str(tmp_path / each) for each in ("gpt.safetensors", "inputs.npz", "found.npz")]
        done = subprocess.run(
            [sys.executable, "-c", RUNS_ALONE, *names],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    model = made("gpt")[0]
    with np.load(tmp_path / "found.npz") as found, flambeau.no_grad():
        for name, x in inputs.items():
            np.testing.assert_allclose(found[name], model(flambeau.tensor(x)), atol=3e-5)
    assert printed == ["3 0\n", "0 3\n"]


@pytest.mark.parametrize("name", ["linear", "convolution", "depthwise", "attention", "resnet"])
def test_a_program_does_not_depend_on_the_machine_that_exports_it(name, monkeypatch):
    """Also for fixed sizes, and after calls that use the machine's own forms."""
    model, sample, _ = made(name)
    texts = []
    for takes in (True, False):
        monkeypatch.setattr(compiler, "_takes_cpu_forms", lambda takes=takes: takes)
        flambeau.compile(model)(sample(3))
        texts.append(export(model, (sample(3),), platforms=["cuda"]).stablehlo())
    assert texts[0] == texts[1]
    assert "custom_call" not in texts[0]


def test_the_state_travels_by_name_and_is_no_constant():
    model, sample, shapes = made("gpt")
    program = export(model, (sample(3),), dynamic_shapes=shapes)
    file = saved(program)
    assert len(file) < 4 * program.exported.nr_devices * 100_000
    state = flambeau.load(io.BytesIO(file))
    assert {*state} - {".program"} == {*model.state_dict(), "scale"}
    restored = reloaded(program)
    signature = restored.graph_signature
    assert signature.buffers == ("scale",)
    assert signature.user_inputs == ("characters",)
    assert "scores.weight" not in signature.parameters
    assert restored.state_dict["scores.weight"] is restored.state_dict["characters.weight"]
    before = restored(sample(2))
    restored.state_dict["scale"].mul_(3)
    assert_close(restored(sample(2)), before * 3)
    assert model.scale == 2


def test_the_module_of_a_program_loads_state_dicts():
    model, sample, shapes = made("resnet")
    module = reloaded(export(model, (sample(3),), dynamic_shapes=shapes)).module().eval()
    assert list(module.state_dict()) == list(model.state_dict())
    with flambeau.no_grad():
        for each in model.parameters():
            each.mul_(0.5)
        module.load_state_dict(model.state_dict())
        assert_close(module(sample(2)), model(sample(2)))
    with pytest.raises(NotImplementedError, match="train"):
        module.train()


def test_arguments_have_the_structure_of_the_example():
    def function(pair, *others, scale=1.0, options=None):
        return {"sum": pair[0] + pair[1]["b"] * scale, "rest": [*others, None, "text", scale]}

    (n,) = dims("n")
    ones = flambeau.ones(2)
    program = reloaded(
        export(
            function, ((ones, {"b": ones}), ones), {"scale": 2.0, "options": {"deep": True}},
            dynamic_shapes={"pair": ({0: n}, {"b": {0: n}}), "others": ({0: Dim.DYNAMIC},)},
        )
    )  # fmt: skip
    threes = np.ones(3, np.float32)
    found = program((threes, {"b": threes}), ones, options={"deep": True}, scale=2.0)
    assert found["sum"].tolist() == [3, 3, 3]
    assert_close(found["rest"], [ones, None, "text", 2.0])
    good = {"scale": 2.0, "options": {"deep": True}}
    for args, kwargs, message in [
        (((ones, {"b": ones}),), good, r"takes \(pair, others\[0\], scale=, options=\)"),
        (((ones,), ones), good, "pair must be a tuple of 2, got a tuple of 1"),
        (((ones, {"c": ones}), ones), good, r"pair\[1\] must be a dict with the keys \['b'\]"),
        (((ones, {"b": ones}), 1.0), good, r"others\[0\] must be a tensor, got 1.0"),
        (((ones, {"b": ones}), ones), good | {"scale": 3.0}, "constant of the program, 2.0, got 3"),
    ]:
        with pytest.raises(TypeError, match=message):
            program(*args, **kwargs)
    with pytest.raises(ValueError, match="'n' is 2 in an earlier dimension, but 3"):
        program((ones, {"b": threes}), ones, **good)


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((2, 4), "float32", r"input x: float32\[b, 3\]: expected 3 in dimension 1, got .*\[2, 4\]"),
        ((3,), "float32", "expected 2 dimensions"),
        ((9, 3), "float32", "'b' must be from 2 to 8"),
        ((1, 3), "float32", "'b' must be from 2 to 8"),
        ((2, 3), "float64", r"expected float32, got float64\[2, 3\]"),
    ],
)
def test_wrong_inputs_name_the_input_and_both_shapes(shape, dtype, message):
    b = Dim("b", min=2, max=8)
    program = export(lambda x: x + 1, (flambeau.ones(2, 3),), dynamic_shapes=({0: b},))
    with pytest.raises((TypeError, ValueError), match=message):
        program(np.ones(shape, dtype))


@pytest.mark.parametrize(
    "function",
    [
        lambda n, t: (t + n, n + t, t - n, n - t, t * n, t // n, n // t, t % n, n % t),
        lambda n, t: (t / n, n / t, t.int() + n, t.half() * n, flambeau.arange(n) / n),
        lambda n, t: (t < n, n > t, t <= n, t >= n, t == n, n == t, t != n, n != t),
        lambda n, t: (flambeau.add(t, n), t.clamp(1, n - 1), flambeau.where(t > 2, t, n)),
        lambda n, t: (flambeau.full((n,), n), t.new_full((2,), n), flambeau.full_like(t, n)),
        lambda n, t: (flambeau.tensor(n), flambeau.as_tensor(n, dtype=flambeau.float32)),
    ],
    ids=["arithmetic", "dtypes", "comparisons", "functions", "factories", "tensor"],
)  # fmt: skip
def test_tensors_compute_with_open_sizes_as_with_numbers(function):
    def forward(x, t):
        return function(x.shape[1], t)

    def example(n):
        return flambeau.ones(2, n), flambeau.tensor([1, 2, 3, 4, 7])

    program = export(forward, example(4), dynamic_shapes=({1: Dim("n", min=2)}, None))
    for n in (2, 3, 7):
        assert_close(program(*example(n)), forward(*example(n)))


def test_packed_sequences_have_an_open_length():
    lstm = nn.LSTM(3, 2, batch_first=True)

    def forward(x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs, (last, _) = lstm(packed)
        return pad_packed_sequence(outputs, True, total_length=x.shape[1])[0], last

    def example(batch, length):
        lengths = flambeau.arange(batch) % length + 1
        return flambeau.ones(batch, length, 3).cumsum(1), lengths

    b, n = dims("b", "n")
    program = export(forward, example(2, 4), dynamic_shapes=({0: b, 1: n}, {0: b}))
    for sizes in ((1, 1), (3, 2), (4, 9)):
        assert_close(program(*example(*sizes)), forward(*example(*sizes)))


def branching(x):
    if x.shape[0] == 1:
        return x
    return x * 2


class Remembering(nn.Module):
    def forward(self, x):
        self.last = x * 2
        return self.last


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (branching, r"the open size 'b' .*\n.*in branching: if x.shape\[0\] == 1"),
        (lambda x: x if x.shape[0] in (3, 4) else -x, "the open size 'b'"),
        (lambda x: x * 2 if x.size(0) > 4 else x, "the open size 'b'"),
        (lambda x: [x for _ in range(x.shape[0])], "the open size 'b'"),
        (lambda x: x.squeeze(), "the open size 'b'"),
        (lambda x: x.chunk(2), "the open size 'b'"),
        (lambda x: x if x.sum() > 0 else -x, "asks in Python for the value of a tensor"),
        (lambda x: x.numpy(), "asks in Python for the value of a tensor"),
        (lambda x: x[x > 0], "asks in Python for the value of a tensor"),
        (F.dropout, r"draws random numbers. Call eval\(\)"),
        (nn.Sequential(nn.Flatten(), nn.BatchNorm1d(3)), r"changes .*running_mean.*eval\(\)"),
        (Remembering(), r"assigns \['last'\]"),
        (lambda x: object(), "result is a object"),
    ],
)
def test_what_a_program_cannot_do_is_named(model, message):
    least = 2 if isinstance(model, nn.Sequential) else 1
    example = (flambeau.ones(4, 3),)
    with pytest.raises((RuntimeError, TypeError), match=message):
        export(model, example, dynamic_shapes=({0: Dim("b", min=least)},))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": None}, r"dynamic_shapes has \['y'\], but the arguments are \['x', 'z'\]"),
        (({0: Dim("b")},), r"1 entries for the arguments \['x', 'z'\]"),
        ({"x": {2: Dim("b")}}, r"x has the dimensions 0 to 1, got \[2\]"),
        ({"x": [Dim("b")]}, "x has 2 dimensions, got 1 entries"),
        ({"x": {0: Dim("b")}, "z": {0: Dim("b")}}, "got 4 in dimension 0 of x and 5 in dimension"),
        ({"x": {0: Dim("b")}, "z": {0: Dim("b", max=9)}}, "two Dims 'b' with different bounds"),
        ({"x": {0: Dim("b", max=3)}}, "'b' is from 1 to 3, but 4 in the example"),
        ({"x": {0: 5}}, "dimension 0 of x is 5, but 4 in the example"),
        ({"x": {0: Dim.AUTO}}, "give a Dim or Dim.DYNAMIC"),
        ({"x": 3}, "the entry of x must be a dict, tuple or list"),
    ],
)
def test_open_sizes_fit_the_example(shapes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        export(
            lambda x, z: (x, z), (flambeau.ones(4, 3), flambeau.ones(5, 3)), dynamic_shapes=shapes
        )


def test_other_errors_of_a_call():
    for wrong in ({"name": "1"}, {"name": "max"}, {"name": "a", "min": 4, "max": 3}):
        with pytest.raises(ValueError, match="Dim"):
            Dim(**wrong)
    ones = flambeau.ones(2)
    with pytest.raises(ValueError, match="platforms are some of cpu, cuda"):
        export(lambda x: x, (ones,), platforms="gpu")
    with pytest.raises(TypeError, match="to be a tuple"):
        export(lambda x: x, ones)
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        export(lambda x, y: x, (ones,))
    with pytest.raises(RuntimeError, match=r"\['weight', 'bias'\] have no elements"):
        export(nn.Linear(2, 2, device="meta"), (ones,))
    elsewhere = export(lambda x: x + 1, (ones,), platforms="tpu")
    with pytest.raises(RuntimeError, match="exported for tpu, and tensors are on cpu"):
        elsewhere(ones)
    with pytest.raises(TypeError, match="must be an ExportedProgram"):
        save(nn.Linear(2, 2), io.BytesIO())


def test_a_program_runs_inside_compiled_and_grad_mode_code_and_on_threads():
    model, sample, shapes = made("linear")
    program = export(model, (sample(3),), dynamic_shapes=shapes)
    x = sample(3)
    expected = model(x).detach()
    step = flambeau.compile(lambda x: program(x) + 1, fullgraph=True)
    assert_close(step(x), expected + 1)
    assert not program(x.requires_grad_()).requires_grad
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: program(sample(n))}))
        for n in range(1, 6)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == [1, 2, 3, 4, 5]
    for n, each in found.items():
        assert_close(each, model(sample(n)).detach())


# Files


def small():
    b = Dim("b", max=8)
    return export(nn.Linear(3, 2), (flambeau.ones(2, 3),), dynamic_shapes=({0: b},))


def with_header(content, change):
    """A file with other entries in the header of its program."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    facts = json.loads(header["__metadata__"]["flambeau.export"])
    change(facts)
    header["__metadata__"]["flambeau.export"] = json.dumps(facts)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def test_truncated_files_are_refused():
    content = saved(small())
    for length in [*range(0, len(content), max(1, len(content) // 60)), len(content) - 1]:
        with pytest.raises(CheckpointError):
            load(io.BytesIO(content[:length]))


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [[]], [3], {"tensor": 0}, {"a": [1, 2]}])
def test_headers_with_other_entries_are_refused(value):
    content = saved(small())
    header = {}
    with_header(content, header.update)
    for name, kept in header.items():
        if kept != value and not (name in ("name", "jax") and isinstance(value, str)):
            changed = with_header(content, lambda facts, name=name: facts.update({name: value}))
            with pytest.raises(CheckpointError):
                load(io.BytesIO(changed))
        with pytest.raises(CheckpointError):
            load(io.BytesIO(with_header(content, lambda facts, name=name: facts.pop(name))))


def nest(facts):
    for _ in range(300):
        facts["result"] = {"tuple": [facts["result"]]}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda facts: facts.update(version=2), RefusedContentError, "version 2 of the format"),
        (
            lambda facts: facts.update(convention=99, jax="9.9.9"), RefusedContentError,
            "JAX 9.9.9 has written one of convention 99",
        ),
        (lambda facts: facts.update(digest="0"), DamagedFileError, "digest"),
        (lambda facts: facts["inputs"][0].__setitem__(2, [4, 3]), DamagedFileError, "no bounds"),
        (lambda facts: facts["inputs"][0].__setitem__(1, "int8"), DamagedFileError, "other inputs"),
        (lambda facts: facts.update(platforms=["tpu", "cpu"]), DamagedFileError, "other inputs"),
        (lambda facts: facts.update(platforms=["vax"]), DamagedFileError, "no platforms"),
        (lambda facts: facts.update(parameters=["weight"]), DamagedFileError, "than it holds"),
        (lambda facts: facts.update(tied={"bias": "x"}), DamagedFileError, "than it holds"),
        (nest, DamagedFileError, "nested too deeply"),
    ],
)  # fmt: skip
def test_headers_that_do_not_fit_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        load(io.BytesIO(with_header(saved(small()), change)))


def test_a_program_that_this_jax_cannot_read_names_both_versions():
    program = small()
    text = program.stablehlo().encode()
    newer = text.replace(b"stablehlo.add", b"stablehlo.xyz")
    facts = {"digest": hashlib.sha256(newer).hexdigest(), "jax": "9.9.9"}
    content = with_header(saved(program).replace(text, newer), lambda found: found.update(facts))
    with pytest.raises(CheckpointError, match=r"JAX [\d.]+ cannot read .* which JAX 9\.9\.9 has"):
        load(io.BytesIO(content))


def test_other_files_are_refused():
    weights = io.BytesIO()
    flambeau.save({"a": flambeau.ones(2)}, weights, metadata={"a": "b"})
    with pytest.raises(RefusedContentError, match="tensors without a program"):
        load(io.BytesIO(weights.getvalue()))
    with pytest.raises(RefusedContentError, match="zip archive"):
        load(io.BytesIO(b"PK\x03\x04 and more"))
    with pytest.raises(DamagedFileError, match="file of an exported program"):
        load(io.BytesIO(b"text that is no program"))
    with pytest.raises(LimitExceededError):
        reloaded(small(), limits=Limits(memory=1000))


def test_a_program_that_calls_functions_outside_of_xla_is_refused():
    import jax
    from jax.export import DisabledSafetyCheck
    from jax.export import export as jax_export

    def calls(x):
        kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return (jax.ffi.ffi_call("xla_ffi_python_cpu_callback", kind)(x),)

    plain = export(lambda x: x + 1, (flambeau.ones(2),))
    allowed = [DisabledSafetyCheck.custom_call("xla_ffi_python_cpu_callback")]
    exported = jax_export(jax.jit(calls), disabled_checks=allowed)(plain.exported.in_avals[0])
    hostile = ExportedProgram(exported, plain._facts, {})
    with pytest.raises(RefusedContentError, match="calls xla_ffi_python_cpu_callback"):
        reloaded(hostile)


def test_scaling_an_open_size_by_another_number_is_refused():
    x = flambeau.ones(1, 1, 4)
    with pytest.raises(RuntimeError, match=r"by a fraction such as 2, 0\.5 or 1\.25, got 0\.7"):
        export(nn.Upsample(scale_factor=0.7), (x,), dynamic_shapes=({2: Dim("n")},))


def onnx_of(program):
    """The program in ONNX, with its state as constants."""
    import jax
    from jax.extend.core import jaxpr_as_fun

    jax2onnx = pytest.importorskip("jax2onnx", reason="jax2onnx is not installed")
    function = jaxpr_as_fun(program.jaxpr)
    state = [each.numpy() for each in program.state_dict.values()]
    inputs = [jax.ShapeDtypeStruct(e.shape, e.dtype) for e in program.jaxpr.in_avals[len(state) :]]
    return jax2onnx.to_onnx(lambda *arrays: function(*state, *arrays), inputs)


IN_ONNX = [
    "linear", "convolution", "transposed", "attention", "multi-head", "layer norm", "batch norm",
    "softmax", "gru", "lstm cell", "encoder",
]  # fmt: skip


@pytest.mark.parametrize("name", IN_ONNX)
def test_a_converter_makes_onnx_of_a_program(name):
    onnx = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model, sample, (sizes,) = made(name)
    batch = [each if getattr(each, "__name__", "") == "b" else None for each in sizes]
    program = export(model, (sample(3),), dynamic_shapes=(batch,))
    session = onnx.InferenceSession(
        onnx_of(program).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x, (given,) = sample(3), session.get_inputs()
    expected = flambeau.utils._pytree.tree_leaves(model(x))
    for found, wanted in zip(session.run(None, {given.name: x.numpy()}), expected, strict=True):
        np.testing.assert_allclose(found, wanted.detach().numpy(), atol=3e-5)


def test_a_loaded_program_has_no_jaxpr():
    assert str(small().jaxpr).startswith("{ lambda")
    assert reloaded(small()).jaxpr is None
