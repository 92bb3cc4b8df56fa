"""The parts of a file of `save`."""

import io

import pytest

import flambeau
from flambeau.checkpoint.errors import CheckpointError


def test_records_are_those_that_were_written(tmp_path):
    path = tmp_path / "model.pt"
    flambeau.save({"weight": flambeau.arange(3, dtype=flambeau.int32)}, path)
    reader = flambeau.PyTorchFileReader(path)
    assert {"data.pkl", "data/0", "version"} <= set(reader.get_all_records())
    assert reader.get_record("data/0") == bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0])
    assert reader.has_record("data.pkl")
    assert not reader.has_record("data/1")
    with pytest.raises(RuntimeError, match="no record 'data/1'"):
        reader.get_record("data/1")


def test_what_is_no_archive_is_refused():
    with pytest.raises(CheckpointError):
        flambeau.PyTorchFileReader(io.BytesIO(b"not an archive"))
