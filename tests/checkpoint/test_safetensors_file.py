"""Safetensors files: what comes back, what other programs read, and what is refused."""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import flambeau
from flambeau.checkpoint import safetensors_file
from flambeau.checkpoint.io import load, save
from flambeau.checkpoint.safetensors_file import read_metadata
from flambeau.core.operators.viewing import make_view
from flambeau.core.support.dtype import ALL_DTYPES, dtype
from flambeau.core.values.cell import abstract
from flambeau.core.values.convert import make
from flambeau.core.values.steps import Cut, Slice
from flambeau.core.values.tensor import Tensor

SAVED = [each for each in ALL_DTYPES if each.name != "complex128"]


class StateDict(OrderedDict[str, Tensor]):
    """What a module's state_dict() gives."""

    _metadata: Any


def ones(*shape: int, dtype: Any = np.float32) -> Tensor:
    return make(np.ones(shape, dtype))


def meta(*shape: int) -> Tensor:
    return Tensor._wrap(abstract(shape, np.dtype(np.float32)))


def bits(tensor: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    return tensor.dtype.name, tuple(tensor.shape), np.asarray(tensor.jax()).tobytes()


def by_path(state: Mapping[str, Tensor], folder: Path, **options: Any) -> OrderedDict[str, Tensor]:
    save(state, folder / "model.safetensors", **options)
    return load(folder / "model.safetensors")


def by_stream(
    state: Mapping[str, Tensor], folder: Path, **options: Any
) -> OrderedDict[str, Tensor]:
    stream = io.BytesIO()
    save(state, stream, **{"metadata": {}, **options})
    stream.seek(0)
    return load(stream)


ways = pytest.mark.parametrize("there_and_back", [by_path, by_stream])
Way = Callable[..., "OrderedDict[str, Tensor]"]


@ways
@pytest.mark.parametrize("of", SAVED, ids=str)
def test_every_dtype_and_shape_comes_back_bit_for_bit(
    there_and_back: Way, of: dtype, tmp_path: Path
) -> None:
    values = np.random.default_rng(0).integers(0, 2, 24)
    arrays = {
        "scalar": values[0],
        "vector": values[:5],
        "cube": values.reshape(2, 3, 4),
        "transposed": values.reshape(4, 6).T,
        "empty": values[:0].reshape(0, 3),
    }
    state = {name: make(np.asarray(array).astype(of.numpy)) for name, array in arrays.items()}
    loaded = there_and_back(state, tmp_path)
    assert {name: bits(tensor) for name, tensor in loaded.items()} == {
        name: bits(tensor) for name, tensor in state.items()
    }


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        numpy_strategies.arrays(
            st.sampled_from([np.float32, np.int64, np.bool_]),
            numpy_strategies.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
        ),
        max_size=4,
    ),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text('aé\n"\\')),
)
def test_load_after_save_is_identity(
    arrays: dict[str, np.ndarray], metadata: dict[str, str]
) -> None:
    state = {name: make(array) for name, array in arrays.items()}
    metadata.pop("flambeau", None)
    stream = io.BytesIO()
    save(state, stream, metadata=metadata)
    loaded = load(io.BytesIO(stream.getvalue()))
    assert [(name, bits(tensor)) for name, tensor in loaded.items()] == [
        (name, bits(tensor)) for name, tensor in state.items()
    ]
    assert read_metadata(io.BytesIO(stream.getvalue())) == metadata


@ways
def test_numbers_that_are_not_numbers_and_negative_zero_survive(
    there_and_back: Way, tmp_path: Path
) -> None:
    pattern = np.array([0x7FC1, 0xFF80, 0x8000, 0x0001], dtype=np.uint16)
    tensor = make(pattern.view(ml_dtypes.bfloat16))
    assert bits(there_and_back({"x": tensor}, tmp_path)["x"]) == bits(tensor)


@ways
def test_names_come_back_in_their_order(there_and_back: Way, tmp_path: Path) -> None:
    names = ["z.weight", "a.weight", "m.bias", ""]
    state = {name: ones(index, dtype=np.int8) for index, name in enumerate(names)}
    assert list(there_and_back(state, tmp_path)) == names


def test_loaded_tensors_are_leaves_without_grad_that_can_be_written_to(tmp_path: Path) -> None:
    weight = ones(2)
    weight.requires_grad = True
    loaded = by_path({"weight": weight}, tmp_path)["weight"]
    assert loaded.is_leaf
    assert not loaded.requires_grad
    loaded._store(ones(2).jax() * 5)
    assert loaded.tolist() == [5, 5]
    assert load(tmp_path / "model.safetensors")["weight"].tolist() == [1, 1]


@ways
def test_names_of_one_tensor_are_one_tensor_again(there_and_back: Way, tmp_path: Path) -> None:
    tied = ones(2, 3)
    state = {"decoder": tied.detach(), "other": ones(2, 3), "encoder": tied}
    loaded = there_and_back(state, tmp_path)
    assert list(loaded) == ["decoder", "other", "encoder"]
    assert loaded["decoder"] is loaded["encoder"]
    assert loaded["other"] is not loaded["encoder"]


def test_names_of_one_tensor_are_written_once(tmp_path: Path) -> None:
    tied = ones(2, 3)
    save({"decoder": tied, "encoder": tied.detach()}, tmp_path / "model.safetensors")
    assert list(safetensors.numpy.load_file(tmp_path / "model.safetensors")) == ["decoder"]


@ways
def test_parts_of_one_tensor_are_saved_each_as_its_own(there_and_back: Way, tmp_path: Path) -> None:
    whole = make(np.arange(6, dtype=np.float32))
    pair = Slice((Cut(dim=0, size=2, stride=1, squeeze=False),))
    state = {"whole": whole}
    for name, start in {"first": 0, "second": 2, "again": 2}.items():
        state[name] = make_view(whole, pair, "slice", (start,))
    loaded = there_and_back(state, tmp_path)
    assert loaded["whole"].tolist() == [0, 1, 2, 3, 4, 5]
    assert loaded["first"].tolist() == [0, 1]
    assert loaded["second"].tolist() == [2, 3]
    assert loaded["again"] is loaded["second"]


@ways
def test_the_versions_of_a_state_dict_come_back(there_and_back: Way, tmp_path: Path) -> None:
    state = StateDict(weight=ones(2))
    versions = OrderedDict({"": {"version": 1}, "norm": {"version": 2}})
    state._metadata = versions
    assert vars(there_and_back(state, tmp_path)) == {"_metadata": versions}


def test_a_dict_without_versions_comes_back_without(tmp_path: Path) -> None:
    assert not hasattr(by_path({"weight": ones(2)}, tmp_path), "_metadata")


@ways
def test_an_empty_dict_comes_back(there_and_back: Way, tmp_path: Path) -> None:
    assert there_and_back({}, tmp_path) == {}
    assert there_and_back({}, tmp_path, metadata={"epoch": "7"}) == {}


def test_metadata_is_kept_for_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save({"weight": ones(2)}, path, metadata={"epoch": "7", "format": "pt"})
    assert read_metadata(path) == {"epoch": "7", "format": "pt"}
    with safetensors.safe_open(path, framework="np") as file:
        assert file.metadata()["epoch"] == "7"


def test_other_programs_read_what_is_saved(tmp_path: Path) -> None:
    save({"weight": make(np.arange(6.0).reshape(2, 3))}, tmp_path / "model.safetensors")
    found = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(found["weight"], np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("metadata", [None, {"format": "np"}])
def test_what_other_programs_save_is_read(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    arrays = {"b": np.arange(3, dtype=np.float32), "a": np.ones((2, 2), ml_dtypes.bfloat16)}
    safetensors.numpy.save_file(arrays, tmp_path / "model.safetensors", metadata)
    loaded = load(tmp_path / "model.safetensors")
    assert {name: bits(tensor) for name, tensor in loaded.items()} == {
        name: bits(make(array)) for name, array in arrays.items()
    }
    assert read_metadata(tmp_path / "model.safetensors") == (metadata or {})


def test_a_file_that_another_program_has_changed_gives_the_names_that_it_has(
    tmp_path: Path,
) -> None:
    tied = ones(2)
    path = tmp_path / "model.safetensors"
    save({"z": ones(1), "gone": tied, "also gone": tied, "a": ones(3)}, path)
    with safetensors.safe_open(path, framework="np") as file:
        texts = file.metadata()
    arrays = safetensors.numpy.load_file(path)
    del arrays["gone"]
    safetensors.numpy.save_file({**arrays, "new": np.ones(4)}, path, texts)
    assert list(load(path)) == ["z", "a", "new"]


def test_load_puts_tensors_on_the_device(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save({"weight": ones(2, 3)}, path)
    assert load(path, map_location="cpu")["weight"].is_cpu
    on_meta = load(path, "meta", weights_only=True)["weight"]
    assert on_meta.is_meta
    assert tuple(on_meta.shape) == (2, 3)


def test_load_refuses_a_device_that_does_not_exist(tmp_path: Path) -> None:
    save({"weight": ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(RuntimeError, match="abacus"):
        load(tmp_path / "model.safetensors", map_location="abacus")


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a tensor": (ones(1), TypeError, "dict of tensors by name, .* Tensor;.*state_dict"),
    "a list": ([ones(1)], TypeError, "dict of tensors by name, .* list;.*[.]pt"),
    "a nested dict": (
        {"model": {"weight": ones(1)}, "epoch": 3},
        TypeError,
        r"'model' is a dict.*'model\.weight'",
    ),
    "an empty nested dict": ({"model": {}}, TypeError, "'model' is a dict"),
    "a number": ({"weight": ones(1), "epoch": 3}, TypeError, "'epoch'.* int.*metadata="),
    "an array": ({"weight": np.ones(1)}, TypeError, "'weight'.* ndarray"),
    "None": ({"weight": None}, TypeError, "'weight'.* NoneType"),
    "a name that is no text": ({3: ones(1)}, TypeError, "3 of type int"),
    "the format's own name": ({"__metadata__": ones(1)}, ValueError, "'__metadata__'"),
    "complex128": (
        {"spectrum": ones(1, dtype=np.complex128)},
        TypeError,
        "'spectrum'.*complex128.*real and imaginary",
    ),
    "meta": ({"weight": meta(2)}, NotImplementedError, "'weight'.* meta "),
}


@pytest.mark.parametrize(("state", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_saved_is_refused_by_name_before_anything_is_written(
    state: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(error, match=message):
        save(state, path)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"epoch": 3}, TypeError, "'epoch': 3"),
        ({3: "epoch"}, TypeError, "3: 'epoch'"),
        ({"flambeau": "x"}, ValueError, "'flambeau'"),
    ],
)
def test_metadata_other_than_text_is_refused(
    metadata: Any, error: type[Exception], message: str
) -> None:
    stream = io.BytesIO()
    with pytest.raises(error, match=message):
        save({"weight": ones(1)}, stream, metadata=metadata)
    assert stream.getvalue() == b""


def test_versions_that_no_file_can_hold_are_refused() -> None:
    state = StateDict(weight=ones(1))
    state._metadata = {"": {"version": object()}}
    with pytest.raises(TypeError, match="_metadata cannot be written as JSON"):
        save(state, io.BytesIO(), metadata={})


def whole_file() -> bytes:
    stream = io.BytesIO()
    save({"weight": ones(5)}, stream, metadata={})
    return stream.getvalue()


DAMAGED = {
    "empty": b"",
    "another format": b"GIF89a" * 100,
    "cut header": whole_file()[:30],
    "cut data": whole_file()[:-1],
    "added data": whole_file() + b"x",
    "our metadata spoilt": safetensors.numpy.save({"x": np.ones(1)}, {"flambeau": "{"}),
    "our metadata missing a part": safetensors.numpy.save({"x": np.ones(1)}, {"flambeau": "{}"}),
    "our metadata of another kind": safetensors.numpy.save(
        {"x": np.ones(1)}, {"flambeau": json.dumps({"names": 3, "shared": {}, "state_dict": None})}
    ),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=r"model\.safetensors.* is a damaged safetensors file"):
        load(path)
    with pytest.raises(
        RuntimeError, match="the open file is a damaged safetensors file, or not one"
    ):
        load(io.BytesIO(content))


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    for read in (load, read_metadata):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "nowhere.safetensors")


def test_a_dtype_that_no_tensor_has_is_refused_by_name(tmp_path: Path) -> None:
    arrays = {"scale": np.ones(2, ml_dtypes.float8_e8m0fnu)}
    safetensors.numpy.save_file(arrays, tmp_path / "model.safetensors")
    with pytest.raises(TypeError, match=r"'scale'.*F8_E8M0.*bfloat16"):
        load(tmp_path / "model.safetensors")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save({"weight": ones(2)}, tmp_path / "model.safetensors")

    def fail(*arguments: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(safetensors_file, "bytes_of", fail)
    with pytest.raises(OSError, match="no space left"):
        save({"weight": ones(3)}, tmp_path / "model.safetensors")
    assert tuple(load(tmp_path / "model.safetensors")["weight"].shape) == (2,)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_loaded_weights_are_trained_in_place(tmp_path, compiled):
    flambeau.manual_seed(0)
    layer, other = flambeau.nn.Linear(64, 64), flambeau.nn.Linear(64, 64)
    flambeau.save(layer.state_dict(), tmp_path / "layer.safetensors")
    other.load_state_dict(flambeau.load(tmp_path / "layer.safetensors"), assign=True)
    for each in (layer, other):
        optimizer = flambeau.optim.SGD(each.parameters(), lr=0.1)

        def step(net=each, optimizer=optimizer):
            optimizer.zero_grad()
            net(flambeau.ones(2, 64)).square().mean().backward()
            optimizer.step()

        run = flambeau.compile(step) if compiled else step
        for _ in range(4):
            run()
    assert flambeau.allclose(layer.weight, other.weight)
    again = flambeau.load(tmp_path / "layer.safetensors")
    assert not flambeau.equal(again["weight"], layer.weight)
