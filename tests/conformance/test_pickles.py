"""Pickles, and files of whole objects, from PyTorch to flambeau under the name torch, and back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written by one library and read by the other; what is read says what it is.
WRITE = """
import io, pickle, sys, warnings
import torch
from torch import nn
import torch.nn.functional as F

warnings.simplefilter("ignore")
torch.manual_seed(0)
linear = nn.Linear(2, 2)
optimizer = torch.optim.Adam(linear.parameters(), lr=0.1)
linear(torch.ones(1, 2)).sum().backward()
optimizer.step()
optimizer.zero_grad()
generator = torch.Generator()
generator.manual_seed(3)
w = torch.arange(3.0)
objects = {
    "tensor": torch.arange(4.0).reshape(2, 2),
    "transposed": torch.arange(6).reshape(2, 3).t(),
    "half": torch.ones(2, dtype=torch.float16),
    "bfloat16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "complex": torch.tensor([1j]),
    "bools": torch.tensor([True, False]),
    "scalar": torch.tensor(3.0, dtype=torch.float64),
    "leaf": torch.ones(2, requires_grad=True),
    "meta": torch.empty(2, 3, device="meta"),
    "sparse": torch.eye(2).to_sparse(),
    "parameter": nn.Parameter(torch.ones(2)),
    "size": torch.Size([1, 2]),
    "dtype": torch.float32,
    "device": torch.device("cpu"),
    "layout": torch.strided,
    "generator": generator,
    "classes": [nn.Linear, torch.Tensor, torch.optim.Adam, nn.Module, nn.CrossEntropyLoss],
    "functions": [F.relu, F.cross_entropy, F.gelu, nn.init.zeros_],
    "maxima": torch.tensor([[1.0, 3.0]]).max(1),
    "linear": linear,
    "conv": nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU()).eval(),
    "lstm": nn.LSTM(2, 3, num_layers=2, bidirectional=True),
    "gru cell": nn.GRUCell(2, 3),
    "encoder": nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    "attention": nn.MultiheadAttention(4, 2),
    "containers": nn.ModuleDict({"a": nn.ModuleList([nn.Embedding(2, 2)])}),
    "parameters": nn.ParameterList([nn.Parameter(torch.ones(1))]),
    "loss": nn.BCEWithLogitsLoss(pos_weight=torch.ones(2)),
    "state": linear.state_dict(),
    "optimizer": optimizer,
    "optimizer state": optimizer.state_dict(),
    "normal": torch.distributions.Normal(torch.zeros(2), torch.ones(2)),
    "packed": nn.utils.rnn.pack_sequence([torch.ones(2), torch.ones(1)]),
    "average": torch.optim.swa_utils.AveragedModel(linear),
    "data": torch.utils.data.TensorDataset(torch.ones(2)),
}
written = {}
for name, each in objects.items():
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        written[f"{name} {protocol}"] = pickle.dumps(each, protocol)
    if not (isinstance(each, torch.Tensor) and each.is_sparse):
        file = io.BytesIO()
        torch.save(each, file)
        written[f"{name} file"] = file.getvalue()
"""

SHOW = """
INPUTS = {
    "linear": torch.ones(1, 2), "conv": torch.ones(1, 1, 4, 4), "lstm": torch.ones(2, 1, 2),
    "gru cell": torch.ones(1, 2), "encoder": torch.ones(1, 2, 4), "average": torch.ones(1, 2),
}

def show(name, x):
    if isinstance(x, nn.Module):
        numbers = [round(float(each.detach().sum()), 5) for each in x.parameters()]
        found = x(INPUTS[name]) if name in INPUTS else 0
        found = found[0] if isinstance(found, tuple) else found
        # A sum that is zero but for rounding may have either sign.
        total = round(float(found.sum()), 4) + 0.0 if name in INPUTS else 0
        return type(x), str(x), x.training, numbers, total
    if isinstance(x, torch.Tensor):
        shown = None if x.is_meta else (x.to_dense() if x.is_sparse else x).tolist()
        return x.is_sparse or type(x).__name__, x.dtype, tuple(x.shape), x.requires_grad, shown
    if isinstance(x, torch.Generator):
        return x.initial_seed(), torch.rand(2, generator=x).tolist()
    if isinstance(x, torch.optim.Optimizer):
        parameters = x.param_groups[0]["params"]
        for each in parameters:
            each.grad = torch.ones_like(each)
        x.step()
        after = [[round(float(y), 5) for y in each.reshape(-1)] for each in parameters]
        return type(x), str(x), after
    if isinstance(x, list):
        return [str(each) if isinstance(each, type) else each.__name__ for each in x]
    if isinstance(x, torch.utils.data.TensorDataset):
        return type(x), x[0]
    return type(x), str(x)

def shown(written):
    lines = []
    for name, content in sorted(written.items()):
        what = name.rpartition(" ")[0]
        if name.endswith("file"):
            found = torch.load(io.BytesIO(content), weights_only=False)
        else:
            found = pickle.loads(content)
        lines.append(f"{name}: {show(what, found)}")
    return lines
"""

MAIN = """
if sys.argv[1] == "write":
    with open(sys.argv[2], "wb") as file:
        pickle.dump(written, file)
else:
    with open(sys.argv[2], "rb") as file:
        print("\\n".join(shown(pickle.load(file))))
"""


def run(library: str, script: Path, *arguments: str) -> list[str]:
    through = ["-m", "flambeau"] if library == "flambeau" else []
    left_out = ("PYTHONPATH", "FLAMBEAU_AS_TORCH")
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    if library == "flambeau":
        variables["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *through, str(script), *arguments],
        env=variables, cwd=script.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pickles") / "pickled.py"
    path.write_text(WRITE + SHOW + MAIN)
    return path


@pytest.mark.parametrize(("writer", "reader"), [("torch", "flambeau"), ("flambeau", "torch")])
def test_what_one_library_pickles_the_other_reads(script: Path, writer: str, reader: str) -> None:
    kept = str(script.with_name(f"{writer}.bin"))
    run(writer, script, "write", kept)
    expected, found = run(writer, script, "read", kept), run(reader, script, "read", kept)
    assert len(expected) > 100
    assert found == expected


def test_what_flambeau_pickles_under_the_name_torch_names_nothing_of_flambeau(script: Path) -> None:
    kept = script.with_name("flambeau.bin")
    if not kept.exists():
        run("flambeau", script, "write", str(kept))
    assert b"flambeau" not in kept.read_bytes()
