"""Capsules go from PyTorch to flambeau and back."""

from __future__ import annotations

import pytest
import torch
import torch.utils.dlpack

import flambeau
import flambeau.utils.dlpack

DTYPES = ["float32", "float64", "bfloat16", "float16", "complex64", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_capsules_of_pytorch_are_read(dtype: str) -> None:
    theirs = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, dtype)).t()
    ours = flambeau.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(theirs))
    assert ours.dtype is getattr(flambeau, dtype)
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_reads_capsules(dtype: str) -> None:
    ours = flambeau.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(flambeau, dtype))
    theirs = torch.utils.dlpack.from_dlpack(flambeau.utils.dlpack.to_dlpack(ours))
    assert theirs.dtype is getattr(torch, dtype)
    assert theirs.tolist() == ours.tolist()


def test_a_capsule_is_read_once_by_both() -> None:
    for lib in (torch, flambeau):
        capsule = lib.utils.dlpack.to_dlpack(lib.arange(3))
        lib.utils.dlpack.from_dlpack(capsule)
        with pytest.raises(RuntimeError, match=r"once|read"):
            lib.utils.dlpack.from_dlpack(capsule)
