"""Checkpoints of several safetensors files with an index, as other programs write them."""

import json
from collections import OrderedDict

import numpy as np
import pytest

import flambeau
from flambeau.checkpoint import (
    CheckpointError,
    DamagedFileError,
    LimitExceededError,
    Limits,
    RefusedContentError,
    parts,
)
from flambeau.checkpoint.parts import INDEX, Parts
from flambeau.distributed import checkpoint


@pytest.fixture
def folder(tmp_path):
    """Three tensors in two files, and their index."""
    flambeau.save({"a": flambeau.arange(6.0).reshape(2, 3)}, tmp_path / "one.safetensors")
    tensors = {"b": flambeau.tensor([True, False]), "c": flambeau.tensor(5)}
    flambeau.save(tensors, tmp_path / "two.safetensors")
    write(tmp_path, {"c": "two", "a": "one", "b": "two"})
    return tmp_path


def write(folder, weights, **metadata):
    weights = {name: f"{part}.safetensors" for name, part in weights.items()}
    index = {"metadata": metadata, "weight_map": weights}
    (folder / INDEX).write_text(json.dumps(index))


def test_an_index_is_loaded_as_one_state_dict(folder):
    found = flambeau.load(folder / INDEX)
    assert type(found) is OrderedDict
    assert list(found) == ["c", "a", "b"]
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"].tolist() == [True, False]
    assert found["c"].item() == 5
    on_meta = flambeau.load(folder / INDEX, map_location="meta")
    assert on_meta["a"].is_meta
    assert on_meta["a"].shape == (2, 3)


def test_parts_are_read_one_tensor_after_another(folder, monkeypatch):
    largest = []

    def counting(read):
        def counted(self, start, count):
            largest.append(count)
            return read(self, start, count)

        return counted

    flambeau.save({"x": flambeau.zeros(1000), "y": flambeau.ones(1000)}, folder / "1.safetensors")
    write(folder, {"x": "1", "y": "1"})
    for name in ("read", "elements"):
        monkeypatch.setattr(parts.Source, name, counting(getattr(parts.Source, name)))
    flambeau.load(folder / INDEX)
    assert max(largest) == 4000


@pytest.mark.parametrize("cut", range(4))
def test_any_region_is_read(tmp_path, cut, monkeypatch):
    if cut == 3:
        monkeypatch.setattr(parts, "_PAGE", 0)
    elements = np.arange(5 * 4 * 6, dtype=np.int16).reshape(5, 4, 6)
    flambeau.save({"x": flambeau.from_numpy(elements)}, tmp_path / "x.safetensors")
    rng = np.random.default_rng(cut)
    with Parts(tmp_path / "x.safetensors") as found:
        stored = found.stored("x")
        assert np.array_equal(found.read(stored), elements)
        for _ in range(60):
            region = []
            for size in elements.shape:
                low, high = sorted(rng.integers(0, size + 1, 2).tolist())
                region.append(slice(low, high) if rng.random() < 0.6 else slice(None))
            assert np.array_equal(found.read(stored, region), elements[tuple(region)])


def test_tied_tensors_come_back_as_one(folder):
    write(folder, {"a": "one"}, flambeau={"tied": {"z": "a"}})
    found = flambeau.load(folder / INDEX)
    assert found["z"] is found["a"]


class TestDamage:
    def test_a_missing_part_is_named(self, folder):
        (folder / "two.safetensors").unlink()
        with pytest.raises(CheckpointError, match=r"its part 'two\.safetensors' is missing"):
            flambeau.load(folder / INDEX)

    def test_a_damaged_part_is_named(self, folder):
        whole = (folder / "two.safetensors").read_bytes()
        (folder / "two.safetensors").write_bytes(whole[:-1])
        with pytest.raises(DamagedFileError, match=r"two\.safetensors"):
            flambeau.load(folder / INDEX)

    def test_a_part_without_its_tensor_is_named(self, folder):
        write(folder, {"d": "one"})
        with pytest.raises(CheckpointError, match=r"'one\.safetensors' does not hold 'd'"):
            flambeau.load(folder / INDEX)

    def test_parts_elsewhere_are_refused(self, folder):
        for name in ("../one", "/etc/one", "deep/one", ".."):
            index = {"weight_map": {"a": name}}
            (folder / INDEX).write_text(json.dumps(index))
            with pytest.raises(RefusedContentError, match="not a file beside it"):
                flambeau.load(folder / INDEX)

    @pytest.mark.parametrize(
        "text",
        [
            "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "b"',
            '{"weight_map": {}, "metadata": {"flambeau": {"divided": 3}}}',
            '{"weight_map": {}, "metadata": {"flambeau": {"divided": {"a": [[1], {"b": [0]}]}}}}',
            '{"weight_map": {}, "metadata": {"flambeau": {"tied": ["a"]}}}',
        ],
    )  # fmt: skip
    def test_a_damaged_index_is_an_error_of_its_own(self, folder, text):
        (folder / INDEX).write_text(text)
        with pytest.raises(DamagedFileError, match=INDEX):
            flambeau.load(folder / INDEX)

    @pytest.mark.parametrize("pieces", [{"a": [0, 0]}, {"a": [1, 0]}, {"a": [-1, 0]}, {"a": [0]}])
    def test_pieces_that_do_not_make_up_their_tensor_are_refused(self, folder, pieces):
        shape = [2, 4] if pieces == {"a": [0, 0]} else [2, 3]
        write(folder, {"a": "one"}, flambeau={"divided": {"whole": [shape, pieces]}})
        with pytest.raises(CheckpointError, match="the pieces of 'whole'"):
            flambeau.load(folder / INDEX)

    @pytest.mark.parametrize(
        ("shape", "starts"),
        [([4, 3], [[0, 0], [0, 0]]), ([4, 3], [[0, 0], [1, 0]]), ([6, 3], [[0, 0], [4, 0]])],
    )
    def test_pieces_that_overlap_or_leave_elements_out_are_refused(self, folder, shape, starts):
        flambeau.save(
            {"p": flambeau.ones(2, 3), "q": flambeau.ones(2, 3)}, folder / "one.safetensors"
        )
        pieces = dict(zip("pq", starts, strict=True))
        divided = {"divided": {"whole": [shape, pieces]}}
        write(folder, {"p": "one", "q": "one"}, flambeau=divided)
        with pytest.raises(
            CheckpointError, match="the pieces of 'whole' do not make up one tensor"
        ):
            flambeau.load(folder / INDEX)

    def test_a_piece_belongs_to_one_tensor(self, folder):
        for name in ("v", "a"):
            divided = {"w": [[2, 3], {"a": [0, 0]}], name: [[2, 3], {"a": [0, 0]}]}
            write(folder, {"a": "one"}, flambeau={"divided": divided})
            with pytest.raises(DamagedFileError, match="contradict each other"):
                flambeau.load(folder / INDEX)

    @pytest.mark.parametrize("name", ["a\0b", "\ud800", "a\nb"])
    def test_a_name_that_no_file_can_have_is_refused(self, folder, name):
        write(folder, {"a": name})
        with pytest.raises(RefusedContentError, match="not a file beside it"):
            flambeau.load(folder / INDEX)
        values = {"values": name}
        write(folder, {"a": "one"}, flambeau=values)
        with pytest.raises(CheckpointError, match="not a file beside it"):
            checkpoint.load({"a": flambeau.ones(2, 3)}, checkpoint_id=folder)

    def test_the_limits_hold_for_all_parts_together(self, folder):
        assert len(flambeau.load(folder / INDEX, limits=Limits(memory=40_000))) == 3
        with pytest.raises(LimitExceededError, match=r"all of 3 tensors but their elements"):
            flambeau.load(folder / INDEX, limits=Limits(memory=10_000))

    def test_an_open_index_has_no_parts_beside_it(self, folder):
        with open(folder / INDEX, "rb") as file, pytest.raises(RefusedContentError, match="path"):
            flambeau.load(file)
