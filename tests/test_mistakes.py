"""Beginners' mistakes, eager and compiled: few frames in a script, and few lines in a notebook."""

from __future__ import annotations

import re
import textwrap
import traceback
import warnings

import pytest

import flambeau
from flambeau.core.support import tracebacks

BEFORE = """
import flambeau
from flambeau import nn, ones
from flambeau.optim import lr_scheduler
from flambeau.utils.data import DataLoader, Dataset, RandomSampler

F = nn.functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.fc = nn.Linear(100, 10)

    def forward(self, x):
        x = self.conv(x).relu()
        x = x.flatten(1)
        return self.fc(x)


class Misspelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 10)

    def forward(self, x):
        return self.fc2(x)


class Samples(Dataset):
    def __init__(self, get):
        self.get = get

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.get(index)


def step(x, y):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


def fail(*args):
    raise ValueError("mine")


net, images, labels = Net(), ones(2, 3, 8, 8), flambeau.tensor([0, 1])
optimizer = flambeau.optim.SGD(net.parameters(), 0.1)
x = ones(2, requires_grad=True)
"""

# Each has the type of its error, a part of the message, and the code.
MISTAKES = [
    ("RuntimeError", "cannot be multiplied", "ones(2, 3) @ ones(2, 3)"),
    ("RuntimeError", "broadcast", "ones(2) + ones(3)"),
    ("RuntimeError", "one dtype", "ones(2) @ ones(2).double()"),
    ("RuntimeError", "invalid for an input", "ones(2, 3).view(5)"),
    ("RuntimeError", "stack()", "flambeau.stack([ones(2), ones(3)])"),
    ("RuntimeError", "cat()", "flambeau.cat([ones(2, 3), ones(3)])"),
    ("IndexError", "out of bounds", "ones(2, 3)[5]"),
    ("IndexError", "0-d", "ones(())[0]"),
    ("IndexError", "out of range", "ones(2, 3).sum(5)"),
    ("RuntimeError", "broadcast", "y = ones(2, 3)\ny[0] = ones(4)"),
    ("RuntimeError", "out of bounds", "ones(2, 3).gather(0, flambeau.tensor([[7]]))"),
    ("RuntimeError", "use tolist()", "ones(2).item()"),
    ("RuntimeError", "ambiguous", "if ones(2) > 0:\n    pass"),
    ("RuntimeError", "detach().numpy()", "x.numpy()"),
    ("ValueError", "at dim 1", "flambeau.tensor([[1], [2, 3]])"),
    ("RuntimeError", "not available", "ones(2).to('cuda:7')"),
    ("TypeError", "3.5", "net.to(3.5)"),
    ("RuntimeError", "from=5", "flambeau.randint(5, 2, (3,))"),
    ("LinAlgError", "singular", "flambeau.linalg.inv(ones(2, 2))"),
    ("LinAlgError", "positive definite", "flambeau.linalg.cholesky(-ones(2, 2))"),
    ("RuntimeError", "second time", "y = (x * x).sum()\ny.backward()\ny.backward()"),
    ("RuntimeError", "scalar", "(x * 2).backward()"),
    ("RuntimeError", "does not require grad", "ones(()).backward()"),
    ("RuntimeError", "leaf", "x.add_(1)"),
    ("ValueError", "mine", "y = x * 2\ny.register_hook(fail)\ny.sum().backward()"),
    ("RuntimeError", "in fc (Linear)", "net(images)"),
    ("RuntimeError", "in fc (Linear)", "step(images, labels)"),
    ("TypeError", "in Net", "net()"),
    ("AttributeError", "no attribute 'fc2'", "Misspelled()(ones(2, 3))"),
    ("TypeError", "cannot assign a int", "net.fc = 3"),
    ("RuntimeError", "in Linear", "nn.Linear(3, 2)(ones(2))"),
    ("RuntimeError", "in 0 (Linear)", "nn.Sequential(nn.Linear(3, 2), nn.ReLU())(ones(2))"),
    ("RuntimeError", "in Conv2d", "nn.Conv2d(3, 4, 3)(ones(2, 4, 8, 8))"),
    ("RuntimeError", "in Conv2d", "nn.Conv2d(3, 4, 3)(ones(2, 3, 2, 2))"),
    ("ValueError", "in BatchNorm1d", "nn.BatchNorm1d(3)(ones(1, 3))"),
    ("IndexError", "in Embedding", "nn.Embedding(3, 4)(flambeau.tensor([5]))"),
    ("RuntimeError", "in Embedding", "nn.Embedding(3, 4)(ones(2))"),
    ("RuntimeError", "in LSTM", "nn.LSTM(3, 4)(ones(2, 3, 4))"),
    ("AssertionError", "divide", "nn.MultiheadAttention(6, 4)"),
    (
        "AssertionError", "in layers.0.self_attn (MultiheadAttention)",
        "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)(ones(2, 3, 7))",
    ),
    ("RuntimeError", "query", "F.scaled_dot_product_attention(ones(2, 3), ones(2, 4), ones(2, 3))"),
    ("IndexError", "out of bounds", "F.cross_entropy(ones(2, 3), flambeau.tensor([0, 3]))"),
    ("IndexError", "out of bounds", "nn.CrossEntropyLoss()(ones(2, 3), flambeau.tensor([0, 3]))"),
    ("ValueError", "batch size", "F.cross_entropy(ones(2, 3), flambeau.tensor([0, 1, 2]))"),
    ("RuntimeError", "class indices", "F.nll_loss(ones(2, 3), ones(2))"),
    ("RuntimeError", "broadcast", "F.mse_loss(ones(3), ones(4))"),
    ("RuntimeError", "from 0 to 1", "F.binary_cross_entropy(ones(3) * 2, ones(3))"),
    ("RuntimeError", "Missing key(s)", "net.load_state_dict({})"),
    ("KeyError", "weight", "net.state_dict()['weight']"),
    ("FileNotFoundError", "nothing.pt", "flambeau.load('nothing.pt')"),
    ("PicklingError", "pickle", "flambeau.save(lambda: 1, 'never.pt')"),
    ("ValueError", "empty", "flambeau.optim.Adam(nn.ReLU().parameters())"),
    ("ValueError", "total_steps", "lr_scheduler.OneCycleLR(optimizer, 0.1)"),
    (
        "ValueError", "Tried to step",
        "plan = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=1)\nplan.step()\nplan.step()",
    ),
    ("TypeError", "not iterable", "nn.utils.clip_grad_norm_(3, 1.0)"),
    (
        "RuntimeError", "stack()",
        "for batch in DataLoader(Samples(lambda i: ones(i + 1)), batch_size=2):\n    pass",
    ),
    ("ValueError", "mine", "for batch in DataLoader(Samples(fail), batch_size=2):\n    pass"),
    ("TypeError", "replacement", "RandomSampler([], replacement=3)"),
    ("ValueError", "sizes", "flambeau.vmap(lambda x, y: x)(ones(2), ones(3))"),
    ("RuntimeError", "scalar", "flambeau.func.grad(lambda x: x * 2)(ones(2))"),
    ("RuntimeError", "cannot be multiplied", "flambeau.func.vjp(lambda x: x @ x, ones(2, 3))"),
    ("ValueError", "scale", "flambeau.distributions.Normal(0.0, -1.0)"),
    ("ValueError", "no parameter", (
        "nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), 'x', nn.ReLU())"
    )),
    ("RuntimeError", "cannot be multiplied", (
        "from flambeau.utils.checkpoint import checkpoint\n"
        "checkpoint(lambda x: x @ x, ones(2, 3), use_reentrant=False)"
    )),
    ("RuntimeError", "in Linear", "flambeau.summary(nn.Linear(3, 2), ones(2))"),
    ("RuntimeError", "in Linear", "flambeau.export.export(nn.Linear(3, 2), (ones(2),))"),
    ("CompileError", "`if tensor:`", (
        "@flambeau.compile(fullgraph=True)\ndef choose(x):\n"
        "    if x.sum() > 0:\n        return x\n    return -x\n\n\nchoose(ones(2))"
    )),
]  # fmt: skip

# Values of which programs compute NaN instead of an error; see docs/differences.md.
VALUES = {"singular", "positive definite", "from 0 to 1", "scale"}
CASES = [
    pytest.param(*each, is_compiled, id=f"{each[2]}-{'compiled' if is_compiled else 'eager'}")
    for each in MISTAKES
    for is_compiled in (False, True)
    if not (is_compiled and each[1] in VALUES)
]

# The number of frames of flambeau's: a Python function, as PyTorch shows one in these places.
OWN_FRAMES = 1
LINES = 25
# The lines of the function around a mistake in a compiled function.
AROUND = 5


def code_of(mistake: str, is_compiled: bool) -> str:
    """The code as a user would write it."""
    if not is_compiled:
        return mistake
    indented = textwrap.indent(mistake, "    ")
    return f"@flambeau.compile\ndef compute():\n{indented}\n\n\ncompute()"


@pytest.fixture(autouse=True)
def _as_for_users(monkeypatch, tmp_path):
    monkeypatch.setattr(tracebacks, "is_full", False)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(), flambeau.compiler.checks(indices=True):
        # A warning comes before some of the errors; compiled functions that run eagerly warn too.
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("kind", "phrase", "mistake", "is_compiled"), CASES)
def test_a_script_shows_few_frames(kind, phrase, mistake, is_compiled):
    names = {"__name__": "__main__"}
    exec(BEFORE, names)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the types are compared below)
        exec(compile(code_of(mistake, is_compiled), "cell", "exec"), names)
    error = caught.value
    assert kind in [each.__name__ for each in type(error).__mro__]
    assert phrase in "\n".join([str(error), *getattr(error, "__notes__", [])])
    files = [each.filename for each in traceback.extract_tb(error.__traceback__)]
    assert sum(each.startswith(tracebacks.OWN_FOLDERS) for each in files) <= OWN_FRAMES
    shown = traceback.format_exception(error)
    assert phrase in "".join(shown[-3:])


@pytest.mark.parametrize(("kind", "phrase", "mistake", "is_compiled"), CASES)
def test_a_notebook_shows_few_lines(kind, phrase, mistake, is_compiled, monkeypatch):
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    shown = []
    shell = shells.InteractiveShell(history_manager=None)
    monkeypatch.setattr(shell, "_showtraceback", lambda kind, error, lines: shown.extend(lines))
    shell.run_cell(BEFORE)
    shell.run_cell(code_of(mistake, is_compiled))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(shown)).splitlines()
    assert 0 < len(lines) <= LINES + AROUND * is_compiled, "\n".join(lines)
    assert phrase in "\n".join(lines)


def look_up():
    return {}["x"]


def refuse():
    raise KeyError("x")


@pytest.mark.parametrize(("function", "is_kept"), [(look_up, True), (refuse, False)])
def test_frames_stay_unless_a_statement_raised_the_error(function, is_kept, monkeypatch):
    monkeypatch.setattr(tracebacks, "OWN_FOLDERS", (__file__,))
    with pytest.raises(KeyError) as caught:
        tracebacks.trimmed(tracebacks.trimmed(function))()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(each.name == function.__name__ for each in frames) == is_kept
