"""`save` and `load` on PyTorch's archives: what comes back, and what is refused."""

from __future__ import annotations

import argparse
import collections
import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.checkpoint.errors import RefusedContentError
from flambeau.checkpoint.io import load, save
from flambeau.core.support.dtype import ALL_DTYPES, dtype


def written(obj: Any) -> bytes:
    stream = io.BytesIO()
    save(obj, stream)
    return stream.getvalue()


def there_and_back(obj: Any, **options: Any) -> Any:
    return load(io.BytesIO(written(obj)), **options)


def with_pickle(pickled: bytes, **arrays: bytes) -> bytes:
    """An archive with this pickle."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key, data in arrays.items():
            archive.writestr(f"archive/data/{key}", data)
    return stream.getvalue()


@pytest.mark.parametrize("of", ALL_DTYPES, ids=str)
def test_every_dtype_comes_back_bit_for_bit(of: dtype) -> None:
    values = np.random.default_rng(0).integers(0, 2, 24)
    for array in (values[0], values.reshape(2, 3, 4), values.reshape(4, 6).T, values[:0]):
        tensor = flambeau.from_numpy(np.array(array)).to(of)
        found = there_and_back(tensor)
        assert (found.dtype, found.shape) == (of, tensor.shape)
        assert np.asarray(found.jax()).tobytes() == np.asarray(tensor.jax()).tobytes()


def test_a_whole_checkpoint_comes_back() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = flambeau.optim.Adam(model.parameters(), lr=0.5)
    model(flambeau.ones(4, 2)).sum().backward()
    optimizer.step()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "losses": [1.5, float("inf")],
        "best": (None, True, 1 + 2j, b"bytes", {"a", 1}, 2**70),
        "kind": (flambeau.float16, flambeau.device("cpu"), flambeau.Size([2, 3])),
        "random": flambeau.get_rng_state(),
    }
    found = there_and_back(checkpoint)
    assert list(found) == list(checkpoint)
    assert (found["epoch"], found["losses"], found["best"]) == (
        checkpoint["epoch"], checkpoint["losses"], checkpoint["best"],
    )  # fmt: skip
    assert found["kind"] == checkpoint["kind"]
    assert found["random"].tolist() == checkpoint["random"].tolist()
    assert found["model"]._metadata == checkpoint["model"]._metadata
    again = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    again.load_state_dict(found["model"])
    other = flambeau.optim.Adam(again.parameters(), lr=0.1)
    other.load_state_dict(found["optimizer"])
    assert other.param_groups[0]["lr"] == 0.5
    for mine, theirs in zip(again.parameters(), model.parameters(), strict=True):
        assert mine.tolist() == theirs.tolist()
        assert other.state[mine]["exp_avg"].tolist() == optimizer.state[theirs]["exp_avg"].tolist()


def test_parameters_and_buffers_stay_what_they_are() -> None:
    parameter = nn.Parameter(flambeau.ones(2), requires_grad=False)
    parameter.tag = "first"  # type: ignore[attr-defined]
    needs_grad = flambeau.ones(2, requires_grad=True)
    buffer = nn.Buffer(flambeau.ones(2), persistent=False)
    found = there_and_back([parameter, nn.Parameter(flambeau.ones(1)), needs_grad, buffer])
    assert [type(each) for each in found] == [
        nn.Parameter, nn.Parameter, flambeau.Tensor, flambeau.Tensor,
    ]  # fmt: skip
    assert [each.requires_grad for each in found] == [False, True, True, False]
    assert found[0].tag == "first"
    assert isinstance(found[3], nn.Buffer)
    assert not found[3].persistent


def test_names_of_one_tensor_are_written_once_and_are_one_again() -> None:
    tied = flambeau.ones(1000)
    data = written({"decoder": tied, "encoder": tied.detach(), "part": tied[:2]})
    assert len(data) < 1.5 * tied.nbytes
    found = load(io.BytesIO(data))
    assert found["decoder"] is found["encoder"]
    found["decoder"].zero_()
    assert found["part"].tolist() == [1, 1]


def test_loaded_tensors_can_be_written_to_and_the_file_stays(tmp_path: Path) -> None:
    save([flambeau.ones(2)], tmp_path / "list.pt")
    load(tmp_path / "list.pt")[0].zero_()
    assert load(tmp_path / "list.pt")[0].tolist() == [1, 1]


def test_bytes_begin_at_multiples_of_64() -> None:
    data = written([flambeau.ones(3), flambeau.ones(5)])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            start = entry.header_offset
            lengths = np.frombuffer(data[start + 26 : start + 30], "<u2")
            assert (start + 30 + int(lengths.sum())) % 64 == 0, entry.filename


def test_the_meta_device_goes_both_ways() -> None:
    with flambeau.device("meta"):
        state = nn.Linear(2, 3).state_dict()
    found = there_and_back(state)
    assert found["weight"].is_meta
    assert tuple(found["weight"].shape) == (3, 2)
    placed = there_and_back({"weight": flambeau.ones(3)}, map_location="meta")["weight"]
    assert placed.is_meta
    assert tuple(placed.shape) == (3,)


def test_a_device_can_be_chosen_by_the_one_that_was_saved_from() -> None:
    state = {"weight": flambeau.ones(2)}
    assert there_and_back(state, map_location={"cpu": "meta"})["weight"].is_meta
    assert there_and_back(state, map_location={"cuda:0": "meta"})["weight"].is_cpu
    assert there_and_back(state, map_location=flambeau.device("cpu"))["weight"].is_cpu
    asked = []

    def as_given(elements: Any, location: str) -> Any:
        asked.append(location)
        return elements

    assert there_and_back(state, map_location=as_given)["weight"].is_cpu
    assert there_and_back(state, map_location=lambda elements, _: elements.cpu())["weight"].is_cpu
    assert there_and_back(state, map_location=lambda *_: None)["weight"].is_cpu
    assert asked == ["cpu"]
    with pytest.raises(TypeError, match=r"cpu.* or cuda.*but it gave str"):
        there_and_back(state, map_location=lambda *_: "cpu")
    with pytest.raises(RuntimeError, match="cuda"):
        there_and_back(state, map_location=lambda elements, _: elements.cuda(0))
    with pytest.raises(RuntimeError, match="abacus"):
        there_and_back(state, map_location="abacus")


class Settings:
    """Something of the user's."""

    def __init__(self) -> None:
        self.rate = 0.5


def test_other_classes_are_read_only_where_that_is_asked_for() -> None:
    for obj in (argparse.Namespace(lr=1), Settings(), collections.deque([1]), Path("x")):
        data = written({"args": obj, "weight": flambeau.ones(1)})
        name = rf"needs .*{type(obj).__name__}, which may run any code; .*weights_only=False"
        with pytest.raises(pickle.UnpicklingError, match=name):
            load(io.BytesIO(data))
        found = load(io.BytesIO(data), weights_only=False)
        assert type(found["args"]) is type(obj)
        assert found["weight"].tolist() == [1]
    assert there_and_back(Settings(), weights_only=False).rate == 0.5


def test_a_whole_module_comes_back_where_that_is_asked_for() -> None:
    model = nn.Linear(2, 3)
    found = there_and_back(model, weights_only=False)
    assert type(found) is nn.Linear
    assert found.weight.tolist() == model.weight.tolist()
    assert isinstance(found.weight, nn.Parameter)


def test_numbers_and_arrays_of_numpy() -> None:
    assert there_and_back({"best": np.float64(0.25)}) == {"best": 0.25}
    big_endian = np.dtype(">i4").type(7)
    assert there_and_back([np.int32(7), big_endian, np.bool_(True)]) == [7, 7, True]
    for weights_only in (True, False):
        assert there_and_back(np.ones(3), weights_only=weights_only).tolist() == [1, 1, 1]


def test_metadata_needs_a_safetensors_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"safetensors files only.*model\.pt"):
        save({"weight": flambeau.ones(1)}, tmp_path / "model.pt", metadata={"epoch": "7"})
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_pickled_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"old")
    with pytest.raises((pickle.PicklingError, AttributeError)):
        save({"loss": lambda x: x}, path)
    assert path.read_bytes() == b"old"
    stream = io.BytesIO()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        save({"loss": lambda x: x}, stream)
    assert stream.getvalue() == b""
    assert [each.name for each in tmp_path.iterdir()] == ["model.pt"]


def call(module: str, name: str, *args: Any) -> bytes:
    """The pickle of a call."""
    body = pickle.dumps(args, 2)[2:-1]
    return b"\x80\x02" + f"c{module}\n{name}\n".encode() + body + b"R."


REFUSED = {
    "code": (call("os", "system", "true"), "os.system.*any code"),
    "a builtin": (call("builtins", "eval", "1"), "builtins.eval"),
    "a part of torch": (
        call("torch.nn.modules.linear", "Linear", 1, 2),
        "linear.Linear.*PyTorch's",
    ),
    "nested": (call("torch._utils", "_rebuild_nested_tensor", 1), "_rebuild_nested_tensor.*dense"),
    "text in another encoding": (call("_codecs", "encode", "x", "rot13"), "rot13"),
    "objects in NumPy": (call("numpy", "dtype", "O8", False, True), "not numeric"),
    "something outside": (b"\x80\x02X\x01\x00\x00\x00xQ.", "outside the pickle, called 'x'"),
}


@pytest.mark.parametrize(("pickled", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_read_is_named(pickled: bytes, message: str) -> None:
    with pytest.raises(pickle.UnpicklingError, match=f"the open file cannot be read: .*{message}"):
        load(io.BytesIO(with_pickle(pickled)))


def rebuilt(kind: str, offset: Any, size: Any, stride: Any) -> bytes:
    """The pickle of a tensor on array "0"."""

    def push(value: Any) -> bytes:
        return pickle.dumps(value, 2)[2:-1]

    storage = b"(" + push("storage") + f"ctorch\n{kind}\n".encode() + push("0") + push("cpu")
    storage += push(4) + b"tQ"
    args = b"(" + storage + push(offset) + push(size) + push(stride) + push(False) + b"}t"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + args + b"R."


FALSE_TENSORS = {
    "too long": (("FloatStorage", 0, (5,), (1,)), "reaches beyond array '0' of 4 elements"),
    "too far": (("FloatStorage", 3, (2,), (1,)), "reaches beyond"),
    "steps too large": (("FloatStorage", 0, (2, 2), (3, 1)), "reaches beyond"),
    "before the start": (("FloatStorage", -1, (2,), (1,)), "whole numbers"),
    "backwards": (("FloatStorage", 3, (2,), (-1,)), "whole numbers"),
    "too few steps": (("FloatStorage", 0, (2, 2), (1,)), "cannot have sizes"),
    "no whole elements": (("ComplexDoubleStorage", 0, (1,), (1,)), None),
    "quantized": (("QInt8Storage", 0, (1,), (1,)), "QInt8Storage.*convert it in PyTorch"),
}


@pytest.mark.parametrize(("facts", "message"), FALSE_TENSORS.values(), ids=FALSE_TENSORS.keys())
def test_tensors_that_cannot_be_are_refused(facts: tuple[Any, ...], message: str | None) -> None:
    data = with_pickle(rebuilt(*facts), **{"0": bytes(16)})
    if message is None:
        assert load(io.BytesIO(data)).tolist() == [0]
        data = with_pickle(rebuilt(*facts), **{"0": bytes(15)})
        message = "whole elements of complex128"
    with pytest.raises(pickle.UnpicklingError, match=message):
        load(io.BytesIO(data))


def test_a_missing_array_is_named() -> None:
    with pytest.raises(pickle.UnpicklingError, match="no array '0'"):
        load(io.BytesIO(with_pickle(rebuilt("FloatStorage", 0, (4,), (1,)))))


@pytest.mark.parametrize(
    "target", ["torch._utils\n_rebuild_parameter", "torch\nfloat32", "builtins\nset"]
)
def test_a_pickle_sets_nothing_on_functions_and_dtypes(target: str) -> None:
    state = pickle.dumps((None, {"itemsize": 1}), 2)[2:-1]
    pickled = b"\x80\x02c" + target.encode() + b"\n" + state + b"b."
    with pytest.raises(RefusedContentError, match="sets the state of"):
        load(io.BytesIO(with_pickle(pickled)))
    assert flambeau.float32.itemsize == 4


def damaged() -> dict[str, bytes]:
    whole = written({"weight": flambeau.ones(5)})
    spoilt = bytearray(whole)
    spoilt[whole.index(np.ones(5, np.float32).tobytes())] ^= 255
    return {
        "cut": whole[:-10],
        "only its start": whole[:40],
        "a number spoilt": bytes(spoilt),
        "no pickle": with_pickle(b"").replace(b"data.pkl", b"data.pk_"),
        "an empty pickle": with_pickle(b""),
        "a cut pickle": with_pickle(pickle.dumps({"epoch": 3}, 2)[:-4]),
    }


@pytest.mark.parametrize("content", damaged().values(), ids=damaged().keys())
def test_a_damaged_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=r"model\.pt"):
        load(path)
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="the open file"):
        load(io.BytesIO(content))


def test_a_torchscript_program_is_named() -> None:
    stream = io.BytesIO(with_pickle(pickle.dumps({}, 2)))
    with zipfile.ZipFile(stream, "a") as archive:
        archive.writestr("archive/constants.pkl", b"")
    with pytest.raises(pickle.UnpicklingError, match=r"TorchScript program; save the state_dict"):
        load(io.BytesIO(stream.getvalue()))


def test_an_attribute_of_a_dict_comes_back() -> None:
    state: Any = OrderedDict(weight=flambeau.ones(1))
    state.note = "kept"
    assert there_and_back(state).note == "kept"


def test_an_interrupt_while_an_entry_is_begun_is_raised_as_it_is(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    flambeau.save(flambeau.ones(3), path)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    # The archive counts the entry as open by then.
    monkeypatch.setattr(zipfile._ZipWriteFile, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        flambeau.save(flambeau.zeros(3), path)
    monkeypatch.undo()
    assert flambeau.load(path).tolist() == [1, 1, 1]
    assert list(tmp_path.iterdir()) == [path]
