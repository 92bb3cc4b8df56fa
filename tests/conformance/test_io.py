"""Files exchanged with PyTorch through safetensors, bit for bit in both directions."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.torch
import torch

from flambeau.checkpoint.io import load, save
from flambeau.core.values.convert import make

BYTES = np.random.default_rng(0).integers(0, 256, 48, dtype=np.uint8)

DTYPES = [
    (torch.uint8, np.uint8),
    (torch.int8, np.int8),
    (torch.int16, np.int16),
    (torch.int32, np.int32),
    (torch.int64, np.int64),
    (torch.float16, np.float16),
    (torch.bfloat16, ml_dtypes.bfloat16),
    (torch.float32, np.float32),
    (torch.float64, np.float64),
    (torch.complex64, np.complex64),
    (torch.float8_e4m3fn, ml_dtypes.float8_e4m3fn),
    (torch.float8_e5m2, ml_dtypes.float8_e5m2),
]
every_dtype = pytest.mark.parametrize(("theirs", "ours"), DTYPES, ids=lambda each: str(each))


@every_dtype
def test_pytorch_reads_what_is_saved(theirs: torch.dtype, ours: type, tmp_path: Path) -> None:
    save({"weight": make(BYTES.view(ours).reshape(2, -1))}, tmp_path / "model.safetensors")
    found = safetensors.torch.load_file(tmp_path / "model.safetensors")["weight"]
    assert found.dtype is theirs
    assert found.shape[0] == 2
    assert found.flatten().view(torch.uint8).tolist() == BYTES.tolist()


@every_dtype
def test_what_pytorch_saves_is_read(theirs: torch.dtype, ours: type, tmp_path: Path) -> None:
    tensor = torch.from_numpy(BYTES.copy()).view(theirs).reshape(2, -1)
    safetensors.torch.save_file({"weight": tensor}, tmp_path / "model.safetensors")
    found = load(tmp_path / "model.safetensors")["weight"]
    assert found.dtype.numpy == np.dtype(ours)
    assert tuple(found.shape) == tuple(tensor.shape)
    assert np.asarray(found.jax()).tobytes() == BYTES.tobytes()


def test_a_state_dict_of_pytorch_keeps_names_and_values(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    safetensors.torch.save_model(model, str(tmp_path / "model.safetensors"))
    loaded = load(tmp_path / "model.safetensors")
    expected = model.state_dict()
    assert set(loaded) == set(expected)
    for name, tensor in expected.items():
        assert loaded[name].tolist() == tensor.tolist(), name
