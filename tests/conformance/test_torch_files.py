"""Files of `torch.save` read here, and files written here read by `torch.load`."""

from __future__ import annotations

import argparse
import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from flambeau.checkpoint.io import load, save
from flambeau.core.support.dtype import ALL_DTYPES

DTYPES = [each.name for each in ALL_DTYPES]
BYTES = np.random.default_rng(0).integers(0, 2, 48, dtype=np.uint8)
formats = pytest.mark.parametrize("zipped", [True, False], ids=["archive", "older"])


def theirs_read_here(obj: Any, zipped: bool = True, **options: Any) -> Any:
    stream = io.BytesIO()
    torch.save(obj, stream, _use_new_zipfile_serialization=zipped)
    return load(io.BytesIO(stream.getvalue()), **options)


def ours_read_there(obj: Any, **options: Any) -> Any:
    stream = io.BytesIO()
    save(obj, stream)
    return torch.load(io.BytesIO(stream.getvalue()), **options)


def bits(tensor: Any) -> tuple[str, tuple[int, ...], bytes]:
    if isinstance(tensor, torch.Tensor):
        whole = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        data = whole.view(torch.uint8).numpy().tobytes()
    else:
        data = np.asarray(tensor.jax()).tobytes()
    return str(tensor.dtype).split(".")[1], tuple(tensor.shape), data


@formats
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_read(name: str, zipped: bool) -> None:
    tensor = torch.from_numpy(BYTES.copy()).view(getattr(torch, name))
    shaped = tensor.reshape(3, -1)
    for each in (shaped, shaped.t(), tensor[1:2], tensor[0], tensor[:0]):
        assert bits(theirs_read_here(each, zipped)) == bits(each)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_read_there(name: str) -> None:
    tensor = torch.from_numpy(BYTES.copy()).view(getattr(torch, name)).reshape(3, -1)
    ours = theirs_read_here(tensor)
    for each in (ours, ours.t(), ours[0], ours[:0]):
        found = ours_read_there(each)
        assert found.is_contiguous()
        assert bits(found) == bits(each)


VIEWS = {
    "steps": lambda x: x[::2],
    "window": lambda x: x.as_strided((3, 2), (2, 1), 1),
    "expanded": lambda x: x[:1].expand(4),
    "transposed": lambda x: x.reshape(2, 4).t(),
    "conjugate": lambda x: torch.complex(x, -x).conj(),
    "negative": lambda x: torch.complex(x, x).conj().imag,
    "no elements": lambda x: x.reshape(0, 8) if not x.numel() else x[:0].reshape(0, 3),
    "none": lambda x: x[3],
}


@formats
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_views_are_read(view: Any, zipped: bool) -> None:
    tensor = view(torch.arange(8.0))
    assert bits(theirs_read_here(tensor, zipped)) == bits(tensor)


@formats
def test_an_expanded_tensor_stays_one_both_ways(zipped: bool) -> None:
    for tensor in (torch.zeros(1).expand(10**11), torch.arange(3.0).expand(10**9, 3)):
        found = theirs_read_here(tensor, zipped)
        assert tuple(found.shape) == tuple(tensor.shape)
        back = ours_read_there(found)
        assert back.shape == tensor.shape
        assert back.stride()[0] == 0
        assert back[7].tolist() == tensor[7].tolist()


@formats
def test_a_storage_without_a_tensor_is_refused(zipped: bool) -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"storage without a tensor.*save the tensor"):
        theirs_read_here({"it": torch.ones(2).untyped_storage()}, zipped)


def a_checkpoint(lib: Any) -> dict[str, Any]:
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.LSTM(4, 2))
    optimizer = lib.optim.AdamW(model.parameters(), lr=0.25)
    scheduler = lib.optim.lr_scheduler.StepLR(optimizer, 2)
    model(lib.ones(5, 3))[0].sum().backward()
    optimizer.step()
    scheduler.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": 3,
        "history": [0.5, (1, None), {"a": b"bytes"}, {1, 2}, 1 + 2j, True],
        "dtype": lib.float16,
        "device": lib.device("cuda", 1),
        "size": lib.Size([2, 3]),
    }


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        ours, theirs = np.asarray(ours.detach()), theirs.detach().numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key])
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert str(ours).replace("flambeau.", "torch.") == str(theirs)


@formats
def test_a_checkpoint_of_pytorch_trains_on_here(zipped: bool) -> None:
    theirs = a_checkpoint(torch)
    found = theirs_read_here(theirs, zipped)
    same(found, theirs)
    assert type(found["model"]) is OrderedDict
    assert found["model"]._metadata == theirs["model"]._metadata
    model = flambeau.nn.Sequential(
        flambeau.nn.Linear(3, 4), flambeau.nn.BatchNorm1d(4), flambeau.nn.LSTM(4, 2)
    )
    model.load_state_dict(found["model"])
    optimizer = flambeau.optim.AdamW(model.parameters())
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.25


@pytest.mark.parametrize("options", [{}, {"weights_only": True}, {"weights_only": False}], ids=str)
def test_a_checkpoint_from_here_trains_on_there(options: dict[str, Any]) -> None:
    ours = a_checkpoint(flambeau)
    found = ours_read_there(ours, **options)
    same(ours, found)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.LSTM(4, 2))
    model.load_state_dict(found["model"])
    assert found["model"]._metadata == ours["model"]._metadata
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_pytorch_maps_a_file_into_memory(tmp_path: Path) -> None:
    save({"weight": flambeau.arange(6.0), "more": flambeau.ones(3)}, tmp_path / "model.pt")
    found = torch.load(tmp_path / "model.pt", mmap=True)
    assert found["weight"].tolist() == [0, 1, 2, 3, 4, 5]
    assert found["more"].tolist() == [1, 1, 1]


@formats
def test_kinds_of_tensors_are_kept(zipped: bool) -> None:
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    tagged = torch.nn.Parameter(torch.ones(1))
    tagged.tag = "x"
    buffer = torch.nn.Buffer(torch.ones(1), persistent=False)
    leaf = torch.ones(1, requires_grad=True)
    found = theirs_read_here([parameter, tagged, buffer, leaf, leaf], zipped)
    kinds = [type(each).__name__ for each in found]
    assert kinds == ["Parameter", "Parameter", "Tensor", "Tensor", "Tensor"]
    assert [each.requires_grad for each in found] == [False, True, False, True, True]
    assert found[1].tag == "x"
    assert isinstance(found[2], flambeau.nn.Buffer)
    assert not found[2].persistent
    assert found[3] is found[4]
    back = ours_read_there(found, weights_only=False)
    assert [type(each).__name__ for each in back] == kinds
    assert [each.requires_grad for each in back] == [False, True, False, True, True]
    assert back[1].tag == "x"
    assert isinstance(back[2], torch.nn.Buffer)


def test_tied_weights_are_tied_again_both_ways() -> None:
    tied = torch.ones(3)
    found = theirs_read_here({"a": tied, "b": tied.detach(), "part": tied[:2]})
    assert found["a"] is found["b"]
    back = ours_read_there(found)
    assert back["a"].data_ptr() == back["b"].data_ptr()


def test_meta_tensors_go_both_ways() -> None:
    found = theirs_read_here(torch.empty(2, 3, device="meta"))
    assert found.is_meta
    assert tuple(found.shape) == (2, 3)
    back = ours_read_there(found)
    assert back.is_meta
    assert tuple(back.shape) == (2, 3)


@formats
def test_what_only_pytorch_has_is_refused(zipped: bool) -> None:
    refused = {
        "Linear": torch.nn.Linear(1, 1),
        "Namespace": argparse.Namespace(lr=1),
    }
    for message, obj in refused.items():
        with pytest.raises(pickle.UnpicklingError, match=message):
            theirs_read_here({"it": obj}, zipped)
    found = theirs_read_here({"it": argparse.Namespace(lr=1)}, zipped, weights_only=False)
    assert found["it"].lr == 1


@formats
def test_sparse_tensors_are_read(zipped: bool) -> None:
    found = theirs_read_here({"it": torch.eye(2).to_sparse()}, zipped)
    assert found["it"].is_sparse
    assert found["it"].to_dense().tolist() == torch.eye(2).tolist()


def test_a_program_of_torchscript_is_refused() -> None:
    stream = io.BytesIO()
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), stream)
    with pytest.raises(pickle.UnpicklingError, match="TorchScript"):
        load(io.BytesIO(stream.getvalue()))


SPARSE = {
    "coalesced": lambda lib: lib.eye(3).to_sparse(),
    "repeated": lambda lib: lib.sparse_coo_tensor(lib.tensor([[0, 0]]), lib.ones(2, 2), (4, 2)),
    "rows": lambda lib: lib.eye(3)[:2].to_sparse_csr(),
    "columns": lambda lib: lib.eye(3)[:2].to_sparse_csc(),
    "empty": lambda lib: lib.zeros(2, 2).to_sparse(),
}


@formats
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("case", SPARSE)
def test_sparse_tensors_are_read_on_both_sides(case: str, zipped: bool) -> None:
    ours, theirs = SPARSE[case](flambeau), SPARSE[case](torch)
    for found in (theirs_read_here(theirs, zipped), ours_read_there(ours)):
        assert str(found.layout).split(".")[1] == str(theirs.layout).split(".")[1]
        assert found.to_dense().tolist() == theirs.to_dense().tolist()
        if case in ("coalesced", "repeated", "empty"):
            assert found.is_coalesced() == theirs.is_coalesced()


@formats
@pytest.mark.parametrize("name", ["strided", "sparse_coo", "sparse_bsr", "jagged", "complex32"])
def test_layouts_and_dtypes_are_read_on_both_sides(name: str, zipped: bool) -> None:
    theirs, ours = getattr(torch, name), getattr(flambeau, name)
    assert theirs_read_here({"constant": theirs}, zipped)["constant"] is ours
    assert ours_read_there({"constant": ours})["constant"] is theirs
