"""Folders in the form of PyTorch's ``distributed.checkpoint``, written by `FileSystemWriter`."""

import importlib
import os
import pickle
import random
import re

import pytest

import flambeau
from flambeau import __main__ as command_line
from flambeau import nn, optim
from flambeau.checkpoint.errors import (
    CheckpointError,
    DamagedFileError,
    LimitExceededError,
    RefusedContentError,
)
from flambeau.checkpoint.limits import Limits
from flambeau.distributed import checkpoint
from flambeau.distributed.checkpoint import FileSystemReader, FileSystemWriter
from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save
from flambeau.distributed.checkpoint.torch_folder import TorchFolder


def trained():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    model(flambeau.ones(4, 2)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def saved(folder, **more):
    model, optimizer = trained()
    state = {"model": model, "optimizer": optimizer, "epoch": 3, **more}
    checkpoint.save(state, storage_writer=FileSystemWriter(folder))
    return model, optimizer


def test_a_model_and_its_optimizer_come_back(tmp_path):
    model, optimizer = saved(tmp_path)
    other, its = trained()
    state = {"model": other, "optimizer": its, "epoch": 0}
    checkpoint.load(state, storage_reader=FileSystemReader(tmp_path))
    assert state["epoch"] == 3
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert flambeau.equal(one, two)
        assert flambeau.equal(optimizer.state[one]["exp_avg"], its.state[two]["exp_avg"])


def test_tied_tensors_are_stored_once_and_stay_tied(tmp_path):
    weight = flambeau.arange(10_000.0)
    saved(tmp_path, one=weight, two=weight)
    assert sum(each.stat().st_size for each in tmp_path.glob("model-*")) < 60_000
    dcp_to_torch_save(tmp_path, tmp_path / "whole.pt")
    found = flambeau.load(tmp_path / "whole.pt")
    assert found["one"].data_ptr() == found["two"].data_ptr()


def test_each_form_replaces_the_other(tmp_path):
    saved(tmp_path)
    first = {*os.listdir(tmp_path)}
    assert ".metadata" in first
    checkpoint.save({"epoch": 4}, checkpoint_id=tmp_path)
    assert not first & {*os.listdir(tmp_path)}
    (tmp_path / "__0_0.distcp").write_bytes(b"PyTorch's")
    saved(tmp_path)
    assert {each.suffix for each in tmp_path.iterdir()} == {".distcp", ""}
    assert not (tmp_path / "__0_0.distcp").exists()
    state = {"epoch": 0}
    checkpoint.load(state, checkpoint_id=tmp_path)
    assert state == {"epoch": 3}


def test_the_writer_of_hugging_face_writes_safetensors(tmp_path):
    hf = importlib.import_module("flambeau.distributed.checkpoint.hf_storage")
    state = {"weight": flambeau.arange(3.0)}
    checkpoint.save(state, storage_writer=hf.HuggingFaceStorageWriter(tmp_path, thread_count=2))
    assert len([*tmp_path.glob("model-*.safetensors")]) == 1
    found = {"weight": flambeau.zeros(3)}
    checkpoint.load(found, storage_reader=hf.HuggingFaceStorageReader(tmp_path))
    assert found["weight"].tolist() == [0, 1, 2]


def test_the_commands_read_it(tmp_path, capsys):
    model, _ = saved(tmp_path / "folder")
    assert command_line.main(["inspect", str(tmp_path / "folder")]) == 0
    shown = capsys.readouterr().out
    assert "folder of PyTorch's distributed.checkpoint" in shown
    assert re.search(r"model\.0\.weight +1 +float32 \[3, 2\]", shown)
    assert "epoch" in shown
    assert command_line.main(["diff", str(tmp_path / "folder"), str(tmp_path / "folder")]) == 0
    one = str(tmp_path / "one.pt")
    assert command_line.main(["convert", str(tmp_path / "folder"), one]) == 0
    assert flambeau.equal(flambeau.load(one)["model.0.weight"], model[0].weight)


def test_values_share_one_limit(tmp_path):
    saved(tmp_path, **{f"v{i}": [i] * 1000 for i in range(50)})
    found = {f"v{i}": None for i in range(50)}
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert found["v7"] == [7] * 1000
    with pytest.raises(LimitExceededError), TorchFolder(tmp_path, Limits(memory=60_000)) as folder:
        folder.values()


def test_a_file_beside_it_does_not_hide_it(tmp_path):
    flambeau.save({"epoch": flambeau.ones(1)}, tmp_path / "model.safetensors")
    saved(tmp_path)
    state = {"epoch": 0}
    checkpoint.load(state, checkpoint_id=tmp_path)
    assert state == {"epoch": 3}


@pytest.mark.parametrize("names", ["model-*", "values-*"])
def test_a_missing_or_damaged_part_is_named(tmp_path, names):
    saved(tmp_path)
    (part,) = tmp_path.glob(names)
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=part.name):
        checkpoint.load({"model": trained()[0], "epoch": 0}, checkpoint_id=tmp_path)
    part.unlink()
    with pytest.raises(CheckpointError, match=f"its part '{part.name}' is missing"):
        checkpoint.load({"model": trained()[0], "epoch": 0}, checkpoint_id=tmp_path)


class Evil:
    def __reduce__(self):
        return os.system, ("exit 1",)


def test_no_code_of_a_folder_is_run(tmp_path):
    saved(tmp_path)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(RefusedContentError, match=r"it needs \w+\.system"):
        checkpoint.load({"epoch": 0}, checkpoint_id=tmp_path)


def described(**changes):
    """A description with one tensor ``x`` of two elements, and its changes."""
    from flambeau.distributed.checkpoint import torch_form as form

    def box(start, part="part.distcp"):
        where = form.Size((start,))
        index = form._Record("MetadataIndex", fqn="x", offset=where, index=0)
        info = {"relative_path": part, "offset": 0, "length": 10}
        size = changes.get("sizes", (1, 1))[start]
        chunk = form._Record("ChunkStorageMetadata", offsets=where, sizes=form.Size((size,)))
        return chunk, (index, form._Record("_StorageInfo", {**info, **changes.get("info", {})}))

    boxes = [box(start, changes.get("part", "part.distcp")) for start in changes.get("at", (0, 1))]
    facts = flambeau.float32, flambeau.strided, False, form._CONTIGUOUS, False
    tensor = form._Record(
        "TensorStorageMetadata",
        properties=form._Record("TensorProperties", facts),
        size=form.Size((sum(changes.get("sizes", (1, 1))),)),
        chunks=[chunk for chunk, _ in boxes],
    )
    stored = dict(info for _, info in boxes[: changes.get("stored", 2)])
    return form._Record("Metadata", state_dict_metadata={"x": tensor}, storage_data=stored)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"at": (0, 0)}, DamagedFileError, "do not make up one tensor of shape"),
        ({"at": (1,)}, DamagedFileError, "do not make up one tensor of shape"),
        ({"stored": 1}, DamagedFileError, "its description is not complete"),
        ({"part": "../part.distcp"}, RefusedContentError, "is not a file beside it"),
        ({"info": {"transform_descriptors": ["zstd"]}}, RefusedContentError, "it is compressed"),
        ({"info": {"length": -1}}, DamagedFileError, "lie beyond"),
        ({"info": {"offset": "0" * 9}}, DamagedFileError, "lie beyond"),
        ({"sizes": (1, 10**12)}, LimitExceededError, "tensor 'x'"),
        ({}, CheckpointError, "part.distcp"),
    ],
)
def test_what_does_not_fit_is_an_error(tmp_path, changes, error, message):
    from flambeau.distributed.checkpoint.torch_form import _Pickler

    with open(tmp_path / ".metadata", "wb") as file:
        _Pickler(file).dump(described(**changes))
    (tmp_path / "part.distcp").write_bytes(b"PK\3\4")
    x = flambeau.ones(2)
    with pytest.raises(error, match=message):
        checkpoint.load({"x": x}, checkpoint_id=tmp_path)
    assert x.tolist() == [1, 1]


def test_an_interrupted_save_leaves_the_former_checkpoint(tmp_path, monkeypatch):
    saved(tmp_path)

    def fail(*args):
        raise KeyboardInterrupt

    from flambeau.distributed.checkpoint import writing

    monkeypatch.setattr(writing, "TORCH", writing.TORCH._replace(write_index=fail))
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save({"epoch": 9}, storage_writer=FileSystemWriter(tmp_path))
    state = {"epoch": 0}
    checkpoint.load(state, checkpoint_id=tmp_path)
    assert state == {"epoch": 3}


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_description_is_read_or_refused(tmp_path, seed):
    saved(tmp_path)
    whole = (tmp_path / ".metadata").read_bytes()
    drawn, refused, (model, _) = random.Random(seed), 0, trained()
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(drawn.randrange(1, 4)):
            place = drawn.randrange(len(damaged))
            if drawn.random() < 0.2:
                del damaged[place : place + drawn.randrange(1, 50)]
            else:
                damaged[place] = drawn.randrange(256)
        (tmp_path / ".metadata").write_bytes(damaged)
        try:
            checkpoint.load({"model": model, "epoch": 0}, checkpoint_id=tmp_path)
        except CheckpointError:
            refused += 1
    assert refused > 50
