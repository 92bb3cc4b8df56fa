"""Files from strangers: what they claim is checked against what they hold, in every format."""

from __future__ import annotations

import io
import pickle
import pickletools
import resource
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.checkpoint import (
    CheckpointError,
    DamagedFileError,
    LimitExceededError,
    Limits,
    RefusedContentError,
    UnsupportedDtypeError,
    load,
    read_metadata,
    save,
    source,
)
from flambeau.checkpoint.safetensors_file import write_safetensors
from tests.checkpoint.making import (
    a_storage,
    a_tensor,
    archive,
    body,
    call,
    entry,
    older,
    pickled,
    safetensors,
)

# More than a small file may claim.
MANY = 200 << 20


def doubled(levels: int) -> bytes:
    """A tuple that is small in the file, and whose members are 2 ** levels."""
    return b"K\x01" + b"q\x00h\x00\x86" * levels


DEEP = b"K\x01" + b"\x85" * 1_000_000
LONG = body([None] * 10_000)
BOMB = zipfile.ZIP_DEFLATED

HOSTILE: dict[str, tuple[Callable[[], bytes], type[CheckpointError], str]] = {
    "nested tuples as a key": (
        lambda: pickled(b"}" + DEEP + b"K\x01s"),
        LimitExceededError,
        "nested more than 100 deep",
    ),
    "nested tuples as a size": (
        lambda: pickled(a_tensor(DEEP, (1,))),
        LimitExceededError,
        "nested",
    ),
    "nested tuples as an array": (lambda: pickled(DEEP + b"Q"), LimitExceededError, "nested"),
    "nested frozensets": (
        lambda: archive(b"\x80\x04K\x01" + b"q\x00(h\x00\x91" * 1000 + b"."),
        LimitExceededError,
        "nested",
    ),
    "doubled tuples as a key": (
        lambda: pickled(b"}" + doubled(60) + b"K\x01s"),
        LimitExceededError,
        "more than the",
    ),
    "doubled tuples as an array": (
        lambda: pickled(doubled(60) + b"Q"),
        RefusedContentError,
        "called tuple",
    ),
    "doubled tuples as a flag": (
        lambda: pickled(
            call("torch._utils\n_rebuild_parameter", a_tensor((4,), (1,)), doubled(60), b"N")
        ),
        RefusedContentError,
        "requires_grad=tuple",
    ),
    "keys of one hash": (
        lambda: pickled(
            b"}(" + b"".join(body(n * (2**61 - 1)) + b"K\x01" for n in range(1, 20_000)) + b"u"
        ),
        LimitExceededError,
        "more than the",
    ),
    "an index of 2 ** 27": (
        lambda: pickled(b"K\x01r" + struct.pack("<I", 1 << 27) + b"K\x02" + b"\x86" * 2),
        DamagedFileError,
        "TUPLE2 fails",
    ),
    "10 ** 12 bytes": (
        lambda: pickled(b"\x96" + struct.pack("<Q", 10**12)),
        DamagedFileError,
        "BYTEARRAY8",
    ),
    "text of 4 GB": (
        lambda: pickled(b"X" + struct.pack("<I", 2**32 - 1)),
        DamagedFileError,
        "BINUNICODE",
    ),
    "an integer of 2 GB": (
        lambda: pickled(b"\x8b" + struct.pack("<I", 2**31 - 1)),
        RefusedContentError,
        "LONG4",
    ),
    "a frame of 10 ** 18 bytes": (
        lambda: pickled(b"\x95" + struct.pack("<Q", 10**18)),
        DamagedFileError,
        "STOP",
    ),
    "a set of a range": (
        lambda: pickled(call("builtins\nset", call("builtins\nrange", body(10**9)))),
        DamagedFileError,
        "members are a list, not a range",
    ),
    "bytes by their number": (
        lambda: pickled(call("builtins\nbytearray", body(10**10))),
        DamagedFileError,
        "a int in place of text",
    ),
    "many copies of a list": (
        lambda: pickled(LONG + b"q\xff0(" + b"cbuiltins\nset\nh\xff\x85R" * 50_000 + b"t"),
        LimitExceededError,
        "more than the",
    ),
    "many copies of attributes": (
        lambda: pickled(
            body({str(n): n for n in range(5000)})
            + b"q\xff0("
            + b"ccollections\nOrderedDict\n)Rh\xffb" * 5000
            + b"t"
        ),
        LimitExceededError,
        "more than the",
    ),
    "an inflated pickle": (
        lambda: archive(bytes(MANY), BOMB),
        LimitExceededError,
        "data.pkl' takes",
    ),
    "an inflated array": (
        lambda: archive(b"\x80\x02" + a_tensor((1,), (1,)) + b".", BOMB, **{"0": bytes(MANY)}),
        LimitExceededError,
        "data/0' takes",
    ),
    "windows of 10 GB": (
        lambda: archive(
            b"\x80\x02" + a_tensor((100_000, 25_000), (1, 1)) + b".", **{"0": bytes(500_000)}
        ),
        LimitExceededError,
        "a tensor of sizes",
    ),
    "a tensor larger than any memory": (
        lambda: pickled(a_tensor((2**40, 2**40), (0, 0))),
        RefusedContentError,
        "any memory",
    ),
    "65 dimensions": (
        lambda: pickled(a_tensor((1,) * 65, (1,) * 65)),
        RefusedContentError,
        "65 dimensions",
    ),
    "gradients of integers": (
        lambda: pickled(a_tensor((1,), (1,), kind="IntStorage", grad=True)),
        RefusedContentError,
        "int32 cannot have requires_grad=True",
    ),
    "a flag that is text": (
        lambda: pickled(a_tensor((1,), (1,), grad="yes")),
        RefusedContentError,
        "requires_grad=",
    ),
    "a tensor's cell": (
        lambda: pickled(a_tensor((1,), (1,)) + body({"_cell": 3}) + b"b"),
        RefusedContentError,
        "sets the state of a Tensor",
    ),
    "a tensor's method": (
        lambda: pickled(
            call(
                "torch._tensor\n_rebuild_from_type_v2",
                b"ctorch._utils\n_rebuild_tensor\n",
                b"ctorch\nTensor\n",
                b"(" + a_storage(4) + body(0) + body((1,)) * 2 + b"t",
                body({"sum": 3}),
            )
        ),
        RefusedContentError,
        "it sets 'sum', a member of Tensor",
    ),
    "a dict's method": (
        lambda: pickled(b"ccollections\nOrderedDict\n)R" + body({"items": 3}) + b"b"),
        RefusedContentError,
        "it sets 'items', a member of OrderedDict",
    ),
    "versions of modules that are none": (
        lambda: pickled(b"ccollections\nOrderedDict\n)R" + body({"_metadata": {"": 3}}) + b"b"),
        RefusedContentError,
        "_metadata is not a dict of dicts",
    ),
    "a device that there is not": (
        lambda: pickled(call("torch\ndevice", body("abacus"))),
        RefusedContentError,
        "abacus",
    ),
    "an unknown operation": (lambda: pickled(b"\xfe"), DamagedFileError, r"b'\\xfe'"),
    "an old operation": (lambda: pickled(b"I1\n"), RefusedContentError, "operation INT"),
    "nothing on the stack": (lambda: pickled(b""), DamagedFileError, "STOP fails"),
    "counts in the older format": (
        lambda: older(a_tensor((1,), (1,)), ["0"], struct.pack("<Q", 2**62) + bytes(16)),
        DamagedFileError,
        "ends within array '0'",
    ),
    "arrays without a number in the older format": (
        lambda: older(a_tensor((1,), (1,)), ["0"]),
        DamagedFileError,
        "lie beyond",
    ),
    "other arrays in the older format": (
        lambda: older(a_tensor((1,), (1,)), ["1"], bytes(8)),
        DamagedFileError,
        "does not name",
    ),
    "elements of two sizes in the older format": (
        lambda: older(
            a_tensor((1,), (1,)) + a_tensor((1,), (1,), kind="ByteStorage") + b"\x86",
            ["0"],
            struct.pack("<Q", 4) + bytes(16),
        ),
        RefusedContentError,
        "of two sizes",
    ),
    "nested JSON": (
        lambda: safetensors(b"[" * 100_000),
        DamagedFileError,
        "header is not readable JSON",
    ),
    "a header of 2 ** 60 bytes": (
        lambda: struct.pack("<Q", 2**60) + b"{}",
        DamagedFileError,
        "header cannot have .* bytes",
    ),
    "a name twice in a header": (
        lambda: safetensors(b'{"x":{},"x":{}}'),
        DamagedFileError,
        "twice",
    ),
    "numbers that JSON has not": (lambda: safetensors(b'{"x":NaN}'), DamagedFileError, "NaN"),
    "an integer of many digits": (
        lambda: safetensors(b'{"x":' + b"1" * 5000 + b"}"),
        DamagedFileError,
        "header is not readable JSON",
    ),
    "a header that is no text": (lambda: safetensors(b"{\xff}"), DamagedFileError, "not text"),
    "a header that is a list": (lambda: safetensors([]), DamagedFileError, "not a JSON object"),
    "metadata that is no text": (
        lambda: safetensors({"__metadata__": {"a": 1}}),
        DamagedFileError,
        "does not map text to text",
    ),
    "an entry that is no object": (
        lambda: safetensors({"x": 3}),
        DamagedFileError,
        "'x' of the header",
    ),
    "overlapping elements": (
        lambda: safetensors({"x": entry(), "y": entry()}, bytes(4)),
        DamagedFileError,
        "instead",
    ),
    "elements beyond the file": (
        lambda: safetensors({"x": entry()}, bytes(3)),
        DamagedFileError,
        "outside of the data",
    ),
    "elements before the end of the file": (
        lambda: safetensors({"x": entry()}, bytes(5)),
        DamagedFileError,
        "end at byte",
    ),
    "offsets of 4300 digits": (
        lambda: safetensors({"x": entry(shape=[0], offsets=[10**4300 - 1] * 2)}),
        DamagedFileError,
        "outside of the data",
    ),
    "a tensor as a flag": (
        lambda: pickled(
            call(
                "torch._utils\n_rebuild_tensor_v2",
                *[a_storage(4), body(0), body((1,)), body((1,)), body(False)],
                a_tensor((4,), (1,)),
                a_tensor((4,), (1,)),
            )
        ),
        DamagedFileError,
        "REDUCE fails",
    ),
    "a tensor as an encoding": (
        lambda: pickled(call("_codecs\nencode", body("x"), a_tensor((4,), (1,)))),
        RefusedContentError,
        "encodes text in Tensor",
    ),
    "a tensor as the kind of an array": (
        lambda: pickled(b"(" + a_tensor((4,), (1,)) + b"NNNNtQ"),
        RefusedContentError,
        "called tuple",
    ),
    "a range as arguments": (
        lambda: pickled(
            call(
                "torch._tensor\n_rebuild_from_type_v2",
                b"cbuiltins\nset\n",
                b"N",
                call("builtins\nrange", body(10**9)),
                b"N",
            )
        ),
        DamagedFileError,
        "a function or arguments of the wrong type",
    ),
    "a device of much text": (
        lambda: pickled(call("torch\ndevice", body("x" * 100_000))),
        RefusedContentError,
        "xxx",
    ),
    "a name of much text": (
        lambda: archive(
            b"\x80\x04" + 2 * (b"X" + struct.pack("<I", 90_000) + b"x" * 90_000) + b"\x93."
        ),
        RefusedContentError,
        "any code",
    ),
    "a shape of fractions": (
        lambda: safetensors({"x": entry(shape=[0.5])}, bytes(4)),
        RefusedContentError,
        "whole",
    ),
    "a shape beyond any memory": (
        lambda: safetensors({"x": entry(shape=[2**70, 0], offsets=[0, 0])}),
        RefusedContentError,
        "any memory",
    ),
    "a dtype that no tensor has": (
        lambda: safetensors({"x": entry("F4")}, bytes(4)),
        UnsupportedDtypeError,
        "dtype F4",
    ),
    "our metadata nested": (
        lambda: safetensors({"__metadata__": {"flambeau": "[" * 100_000}}),
        DamagedFileError,
        "metadata under 'flambeau' is not readable JSON",
    ),
    "our metadata of lists": (
        lambda: safetensors(
            {"__metadata__": {"flambeau": '{"names":[[]],"shared":{},"state_dict":null}'}}
        ),
        DamagedFileError,
        "not in the form that save",
    ),
}


@pytest.mark.parametrize(("make", "error", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused_with_its_name_and_the_place(
    make: Callable[[], bytes], error: type[CheckpointError], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(make())
    with pytest.raises(error, match=message) as caught:
        load(path)
    assert caught.value.file == repr(str(path))
    assert str(caught.value).startswith(repr(str(path)))
    assert len(str(caught.value)) < 1000
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_a_tar_archive_is_named(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "model.tar", "w") as file:
        file.addfile(tarfile.TarInfo("pickle"))
    with pytest.raises(RefusedContentError, match=r"tar archive, of PyTorch before"):
        load(tmp_path / "model.tar")


def test_errors_are_those_that_pytorch_raises() -> None:
    assert issubclass(CheckpointError, RuntimeError)
    for each in (RefusedContentError, LimitExceededError, UnsupportedDtypeError):
        assert issubclass(each, pickle.UnpicklingError)
    assert issubclass(UnsupportedDtypeError, TypeError)


def test_an_error_tells_the_byte_of_the_entry() -> None:
    with pytest.raises(RefusedContentError) as caught:
        load(io.BytesIO(pickled(body([1, 2]) + b"cos\nsystem\n")))
    length = 2 + len(body([1, 2])) + len(b"cos\nsystem\n")
    assert caught.value.place == f"byte {length} of entry 'archive/data.pkl'"
    assert "os.system" in caught.value.reason


def test_an_error_of_an_array_tells_the_entry() -> None:
    data = bytearray(pickled(a_tensor((4,), (1,))))
    data[data.index(bytes(16))] ^= 1
    with pytest.raises(DamagedFileError, match="Bad CRC") as caught:
        load(io.BytesIO(bytes(data)))
    assert caught.value.place == "entry 'archive/data/0'"


# Named, since a zip file has the time in it and workers must collect the same tests.
@pytest.mark.parametrize(
    "data", [pickled(a_tensor((4,), (1,))), safetensors({})], ids=["pickle", "safetensors"]
)
def test_too_little_memory_is_no_other_error(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(source.Source, "read", fail)
    with pytest.raises(LimitExceededError, match=r"the open file .* not enough memory"):
        load(io.BytesIO(data))


def test_limits_can_be_raised() -> None:
    deep = pickled(b"}" + b"K\x01" + b"\x85" * 200 + b"K\x01s")
    with pytest.raises(LimitExceededError):
        load(io.BytesIO(deep))
    assert len(load(io.BytesIO(deep), limits=Limits(depth=200))) == 1
    stream = io.BytesIO()
    save(flambeau.zeros(3000), stream)
    with pytest.raises(LimitExceededError, match=r"sizes .3000,. takes 12,000 bytes"):
        load(io.BytesIO(stream.getvalue()), limits=Limits(memory=12_000))
    found = load(io.BytesIO(stream.getvalue()), limits=Limits(memory=20_000))
    assert tuple(found.shape) == (3000,)
    with pytest.raises(TypeError, match=r"flambeau\.checkpoint\.Limits, but got 3"):
        load(io.BytesIO(deep), limits=3)  # type: ignore[arg-type]


def test_tensors_without_elements_take_memory_too() -> None:
    names = {str(i): flambeau.zeros(0) for i in range(20)}
    stream = io.BytesIO()
    write_safetensors(names, {}, stream)
    with pytest.raises(
        LimitExceededError, match="all of 20 tensors but their elements takes 61,440"
    ):
        load(io.BytesIO(stream.getvalue()), limits=Limits(memory=70_000))
    assert len(load(io.BytesIO(stream.getvalue()), limits=Limits(memory=200_000))) == 20


def test_a_compressed_archive_is_read() -> None:
    pushed = b"\x80\x02" + a_tensor((4,), (1,)) + b"."
    data = archive(pushed, BOMB, **{"0": np.arange(4, dtype=np.float32).tobytes()})
    assert load(io.BytesIO(data)).tolist() == [0, 1, 2, 3]
    with pytest.raises(RefusedContentError, match="compression method 12"):
        load(io.BytesIO(archive(pushed, zipfile.ZIP_BZIP2, **{"0": bytes(16)})))


@pytest.mark.parametrize("name", ["archive/data.pkl", "other/data.pkl", "archive/data/0"])
def test_two_entries_that_could_be_meant_are_refused(name: str) -> None:
    stream = io.BytesIO(pickled(a_tensor((4,), (1,))))
    with zipfile.ZipFile(stream, "a") as file:
        if name in file.namelist():
            with pytest.warns(UserWarning, match="Duplicate"):
                file.writestr(name, b"\x80\x02K\x01.")
        else:
            file.writestr(name, b"\x80\x02K\x01.")
    with pytest.raises(RefusedContentError, match=r"have the name|more than one data\.pkl"):
        load(io.BytesIO(stream.getvalue()))


def test_an_entry_that_the_list_places_elsewhere_is_refused() -> None:
    data = bytearray(pickled(a_tensor((4,), (1,))))
    data[data.index(b"archive/data/0")] ^= 1
    with pytest.raises(DamagedFileError, match="entry 'archive/data/0'"):
        load(io.BytesIO(bytes(data)))


def test_bytes_other_than_0_and_1_are_true() -> None:
    content = bytes([0, 1, 2, 255])
    expected = [False, True, True, True]
    pushed = b"\x80\x02" + a_tensor((4,), (1,), kind="BoolStorage") + b"."
    stored = entry("BOOL", [4], [0, 4])
    for data in (archive(pushed, **{"0": content}), safetensors({"x": stored}, content)):
        found = load(io.BytesIO(data))
        found = found["x"] if isinstance(found, dict) else found
        assert found.tolist() == expected
        assert found.sum().item() == 3
        assert found.view(flambeau.uint8).tolist() == [0, 1, 1, 1]


# Valid files


def test_an_expanded_tensor_costs_nothing() -> None:
    found = load(io.BytesIO(pickled(a_tensor((10**11, 2), (0, 1), offset=1))))
    assert tuple(found.shape) == (10**11, 2)
    assert found[7].tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="expanded"):
        found[:, 0] = 1
    stream = io.BytesIO()
    save(found, stream)
    assert len(stream.getvalue()) < 2000
    assert tuple(load(io.BytesIO(stream.getvalue())).shape) == (10**11, 2)


def test_expanded_tensors_are_saved_as_such() -> None:
    base = flambeau.arange(3.0)
    tensors = [
        base.expand(2, 3), base[1:].unsqueeze(1).expand(4, 2, 5), base[:0].expand(2, 0),
        base.reshape(3, 1).expand(3, 2).expand(2, 3, 2), base[0].expand(2), base.expand(2, 3).t(),
    ]  # fmt: skip
    stream = io.BytesIO()
    save(tensors, stream)
    for mine, theirs in zip(load(io.BytesIO(stream.getvalue())), tensors, strict=True):
        assert mine.tolist() == theirs.tolist()


def test_every_operation_of_protocols_2_to_5_is_read() -> None:
    rows: list[Any] = [1, -1, 300, 70_000, 2**40, -(2**70), 0.5, True, None, "é" * 300, b"x" * 300]
    value = [
        rows, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {}, {"a": (rows, rows)}, [], set(), {1, 2},
        frozenset([("a", 1)]), 1j, bytearray(b"abc"), slice(1, None, 2), range(3), b"", "x\udcff",
    ]  # fmt: skip
    for protocol in range(2, 6):
        found = load(io.BytesIO(archive(pickle.dumps(value, protocol))))
        assert found == value
        assert found[0] is found[7]["a"][1]
        smaller = pickletools.optimize(pickle.dumps(value, protocol))
        assert load(io.BytesIO(archive(smaller))) == value


def test_a_list_and_a_tuple_may_hold_themselves() -> None:
    held: tuple[list[Any]] = ([],)
    held[0].append(held)
    found = load(io.BytesIO(archive(pickle.dumps(held, 2))))
    assert found[0][0] is found


@pytest.mark.parametrize("read", [load, read_metadata])
def test_what_is_no_file_is_refused(read: Callable[..., Any]) -> None:
    with pytest.raises(AttributeError, match="path or open for reading bytes, but got a int"):
        read(3)
    with pytest.raises(TypeError, match="'rb'"):
        read(io.StringIO("text"))


def test_the_user_function_for_devices_is_called_once_for_each_array() -> None:
    asked: list[str] = []
    data = older(a_tensor((4,), (1,)), ["0"], struct.pack("<Q", 4) + bytes(16))
    load(io.BytesIO(data), lambda elements, location: asked.append(location))
    assert asked == ["cpu"]


def test_errors_of_the_user_function_pass() -> None:
    def fail(elements: Any, location: str) -> Any:
        raise KeyError(location)

    with pytest.raises(KeyError, match="cpu"):
        load(io.BytesIO(pickled(a_tensor((4,), (1,)))), fail)


# Writing


class ShortWrites(io.RawIOBase):
    """A file that takes at most 7 bytes at once."""

    def __init__(self) -> None:
        self.content = bytearray()

    def write(self, data: Any) -> int:  # type: ignore[override]
        self.content += bytes(data[:7])
        return min(len(data), 7)


class Blocked(io.RawIOBase):
    """A file that takes nothing now."""

    def write(self, data: Any) -> None:  # type: ignore[override]
        return None


@pytest.mark.parametrize("metadata", [None, {}], ids=["archive", "safetensors"])
def test_short_writes_lose_nothing(metadata: Any) -> None:
    file = ShortWrites()
    save({"x": flambeau.arange(9.0)}, file, metadata=metadata)  # type: ignore[arg-type]
    found = load(io.BytesIO(bytes(file.content)))
    assert found["x"].tolist() == list(range(9))
    with pytest.raises(BlockingIOError, match="takes no more"):
        save({"x": flambeau.ones(2)}, Blocked(), metadata=metadata)  # type: ignore[arg-type]


def test_an_unbuffered_file_on_the_disk_is_whole(tmp_path: Path) -> None:
    with open(tmp_path / "x.pt", "wb", buffering=0) as file:
        save(flambeau.arange(9.0), file)
    assert load(tmp_path / "x.pt").tolist() == list(range(9))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("metadata", [None, {}], ids=["archive", "safetensors"])
def test_a_full_disk_is_an_oserror_for_an_open_file(metadata: Any) -> None:
    class Unnamed(io.RawIOBase):
        def write(self, data: Any) -> int:  # type: ignore[override]
            return full.write(data)

    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError, match="No space"):
        save({"x": flambeau.ones(2)}, Unnamed(), metadata=metadata)  # type: ignore[arg-type]


FILL = """
import os, resource, signal, sys
import flambeau
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for name in ("model.pt", "model.safetensors"):
    path = os.path.join(sys.argv[1], name)
    flambeau.save({"x": flambeau.ones(2)}, path)
    try:
        flambeau.save({"x": flambeau.zeros(10_000)}, path)
    except OSError as error:
        print(type(error) is OSError, flambeau.load(path)["x"].tolist())
print(sorted(os.listdir(sys.argv[1])))
"""


def test_a_full_disk_leaves_the_old_file_in_both_formats() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FILL, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = ["True [1.0, 1.0]"] * 2 + ["['model.pt', 'model.safetensors']"]
    assert done.stdout.splitlines() == expected
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 20_000
