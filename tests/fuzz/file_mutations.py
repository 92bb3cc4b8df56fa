"""Changes to files: to their parts, to the structures that hold the parts, and to their bytes."""

from __future__ import annotations

import copy
import json
import struct
import zlib
from random import Random
from typing import Any

from tests.checkpoint.making import a_tensor
from tests.fuzz.file_corpus import Parts, corpus

NUMBERS = (
    0, 1, 2, 3, 4, 7, 8, 16, 63, 64, 65, 127, 128, 255, 256, 1000, 4096, 65535, 65536, 1 << 20,
    1 << 27, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 10**11, 1 << 40, (1 << 61) - 1,
    1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 70,
)  # fmt: skip
NAMES = (
    "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v3", "torch._utils _rebuild_meta_tensor_no_storage",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_parameter_with_state", "torch._tensor _rebuild_from_type_v2",
    "torch Size", "torch device", "torch float32", "torch bool", "torch float8_e5m2",
    "torch FloatStorage", "torch BoolStorage", "torch.storage UntypedStorage", "torch Tensor",
    "torch.nn.parameter Parameter", "collections OrderedDict", "collections Counter",
    "builtins set", "builtins frozenset", "builtins complex", "builtins bytearray",
    "builtins slice", "builtins range", "builtins bytes", "_codecs encode", "numpy dtype",
    "numpy._core.multiarray scalar", "os system", "builtins eval", "torch.nn Linear", "x y.z",
)  # fmt: skip
TEXTS = ("", "0", "1", "cpu", "cuda:7", "meta", "abacus", "latin1", "f8", "O8", "_cell", "sum", "é")
# Operations without an argument, for protocols 0 to 5.
BARE = [
    bytes([each]) for each in b"()0.12NQRabdelosut]}\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x93\x94"
]
HOSTILE = (
    b"\x85" * 2000, b"q\x00h\x00\x86" * 40, b"\x96" + struct.pack("<Q", 10**12),
    b"r" + struct.pack("<I", 1 << 27), b"2" * 2000, b"(" * 500, b"]" * 1000, b"\x8f" * 1000,
    b"cbuiltins\nset\ncbuiltins\nrange\nJ\xff\xff\xff\x7f\x85R\x85R", b"c" + b"a" * 3000,
    b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R", b"\x8e" + struct.pack("<Q", (1 << 64) - 1),
    b"\x8b\xff\xff\xff\x7f", b"X\xff\xff\xff\xff", b"\x95" + bytes(7) + b"\x7f", b"\x8a\xff" * 3,
)  # fmt: skip
# Values where others are expected.
VALUES = (
    b"cbuiltins\nrange\nJ\xff\xff\xff\x7f\x85R", b"(K\x01K\x02t", b"](K\x01K\x02e",
    b"}X\x01\0\0\0aK\x01s", a_tensor((2,), (1,)), a_tensor((4,), (0,)),
    b"ctorch\nSize\n(K\x01K\x02t\x85R", b"ctorch\nfloat16\n", b"G\x7f\xf8" + bytes(6),
    b"cbuiltins\nset\n](K\x01K\x02e\x85R", b"cbuiltins\ncomplex\nK\x01K\x02\x86R",
    b"cnumpy\ndtype\nX\x02\0\0\0f8\x89\x88\x87R", b"ctorch\ndevice\nX\x03\0\0\0cpu\x85R",
    b"B\2\0\0\0ab", b"(" * 3, b"t" * 3,
)  # fmt: skip
JSON = (
    None, True, 0, -1, 0.5, 1e400, "", "F32", "F8_E8M0", "BOOL", [], [0], [1, 2, 3], [-1, 4], {},
    [[[[]]]], [1] * 70, [0, 0], [16, 0], [0, 16.0], [False, 16],
    {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, *NUMBERS,
)  # fmt: skip


def mutated(random: Random) -> bytes:
    """A file of the corpus with one to four changes."""
    parts = random.choice(corpus()).copied()
    rounds = random.choice((1, 1, 1, 2, 3, 4))
    structural = random.random() < 0.8
    if structural:
        for _ in range(rounds):
            _PART_CHANGES[parts.format](parts, random)
    data = assembled(parts, random if structural else None)
    if not structural or random.random() < 0.08:
        for _ in range(rounds):
            data = _changed_bytes(data, random)
    return data


# Parts


def _change_pickles(parts: Parts, random: Random) -> None:
    operations = random.choice(parts.pickles)
    at = random.randrange(len(operations) + 1)
    choice = random.random()
    if choice < 0.3 and at < len(operations):
        operations[at] = _changed_operation(operations[at], random)
    elif choice < 0.4:
        del operations[at : at + random.choice((1, 1, 2, 5))]
    elif choice < 0.5:
        length = random.choice((1, 2, 5, 20))
        copied = operations[random.randrange(len(operations) + 1) :][:length]
        operations[at:at] = copied * random.choice((1, 1, 2, 50))
    elif choice < 0.6 and len(operations) > 1:
        other = random.randrange(len(operations))
        at = min(at, len(operations) - 1)
        operations[at], operations[other] = operations[other], operations[at]
    elif choice < 0.7:
        source = random.choice([each for each in corpus() if each.pickles])
        taken = random.choice(source.pickles)
        begin = random.randrange(len(taken))
        operations[at:at] = taken[begin : begin + random.choice((1, 3, 10))]
    elif choice < 0.73:
        operations.insert(at, random.choice(HOSTILE))
    else:
        operations[at:at] = [_new_operation(random) for _ in range(random.choice((1, 2, 3)))]


def _changed_operation(operation: bytes, random: Random) -> bytes:
    code, argument = operation[:1], operation[1:]
    if code == b"c" and random.random() < 0.8:
        return _global(random)
    if code in b"XU\x8c" and random.random() < 0.5:
        return _text(random.choice(TEXTS))
    if len(argument) in (1, 2, 4, 8) and random.random() < 0.7:
        return code + _packed(random.choice(NUMBERS), len(argument))
    if not argument or random.random() < 0.2:
        return _new_operation(random)
    return code + _changed_bytes(argument, random)


def _new_operation(random: Random) -> bytes:
    choice = random.random()
    if choice < 0.25:
        return random.choice(BARE)
    if choice < 0.4:
        return random.choice(VALUES)
    if choice < 0.55:
        return _global(random)
    if choice < 0.65:
        return _text(random.choice(TEXTS))
    if choice < 0.8:
        return random.choice((b"h", b"q", b"K")) + bytes([random.randrange(32)])
    if choice < 0.9:
        return b"\x8a\x0a" + _packed(random.choice(NUMBERS), 10)
    return bytes([random.randrange(256)]) + random.randbytes(random.choice((0, 1, 2, 4, 8)))


def _global(random: Random) -> bytes:
    return b"c" + random.choice(NAMES).replace(" ", "\n").encode() + b"\n"


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def _packed(number: int, size: int) -> bytes:
    return (number % (1 << 8 * size)).to_bytes(size, "little")


def _change_archive(parts: Parts, random: Random) -> None:
    choice = random.random()
    if choice < 0.7 or not parts.entries:
        _change_pickles(parts, random)
        return
    at = random.randrange(len(parts.entries))
    name, content = parts.entries[at]
    if choice < 0.75:
        del parts.entries[at]
    elif choice < 0.8:
        others = ("archive/data.pkl", "data.pkl", "archive/constants.pkl", "../x", "x" * 300, "")
        parts.entries.append((random.choice((name, *others)), content))
    elif choice < 0.85:
        parts.entries[at] = (random.choice(parts.entries)[0], content)
    else:
        parts.entries[at] = (name, _changed_bytes(content, random))


def _change_older(parts: Parts, random: Random) -> None:
    if random.random() < 0.7:
        _change_pickles(parts, random)
    else:
        at = random.randrange(len(parts.arrays))
        array = parts.arrays[at]
        count = _packed(random.choice(NUMBERS), 8) if random.random() < 0.5 else array[:8]
        parts.arrays[at] = count + _changed_bytes(array[8:], random)


def _change_header(parts: Parts, random: Random) -> None:
    root: dict[str, Any] = {"": parts.header}
    holder: Any = root
    key: Any = ""
    while random.random() < 0.8:
        value: Any = holder[key]
        if isinstance(value, dict) and value:
            holder, key = value, random.choice(list(value))
        elif isinstance(value, list) and value:
            holder, key = value, random.randrange(len(value))
        else:
            break
    if random.random() < 0.2:
        del holder[key]
    elif random.random() < 0.2 and isinstance(holder, dict):
        holder[random.choice((*TEXTS, "__metadata__", "dtype"))] = copy.deepcopy(holder[key])
    else:
        holder[key] = copy.deepcopy(random.choice(JSON))
    parts.header = root.get("")


def _change_data(parts: Parts, random: Random) -> None:
    parts.data = _changed_bytes(parts.data, random)


_PART_CHANGES = {
    "archive": _change_archive,
    "older": _change_older,
    "safetensors": _change_header,
    "bytes": _change_data,
}


# Structures


def assembled(parts: Parts, random: Random | None = None) -> bytes:
    """The bytes of a file, whose structure is changed too if ``random`` is given."""
    if parts.format == "archive":
        pickled = b"".join(parts.pickles[0])
        return _zipped([("archive/data.pkl", pickled), *parts.entries], random)
    if parts.format == "older":
        return b"".join([*map(b"".join, parts.pickles), *parts.arrays])
    if parts.format == "safetensors":
        text = json.dumps(parts.header).encode()
        if random is not None and random.random() < 0.1:
            text = _changed_bytes(text, random)
        length = len(text)
        if random is not None and random.random() < 0.1:
            length = random.choice(NUMBERS) % (1 << 64)
        return length.to_bytes(8, "little") + text + parts.data
    return parts.data


_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), "<4s4H2IH"


def _zipped(entries: list[tuple[str, bytes]], random: Random | None) -> bytes:
    """An archive; with ``random``, one in eight has fields that do not fit."""
    spoilt = random if random is not None and random.random() < 0.12 else None
    body, listed = b"", b""
    for name, content in entries:
        start, encoded, method = len(body), name.encode(), 0
        stored = content
        if random is not None and random.random() < 0.1:
            method, stored = 8, zlib.compress(content, wbits=-15)
        facts = [0, method, 0, 33, zlib.crc32(content), len(stored), len(content)]
        first = _spoilt(facts, spoilt)
        body += _LOCAL.pack(b"PK\3\4", 20, *first, len(encoded), 0) + encoded + stored
        second = _spoilt(facts, spoilt)
        place = _spoilt([start], spoilt)[0]
        more = [len(encoded), 0, 0, 0, 0, 0, place]
        listed += _CENTRAL.pack(b"PK\1\2", 20, 20, *second, *more) + encoded
    count = len(entries)
    end = [0, 0, count, count, len(listed), len(body), 0]
    return body + listed + struct.pack(_END, b"PK\5\6", *_spoilt(end, spoilt))


def _spoilt(facts: list[int], random: Random | None) -> list[int]:
    if random is None or random.random() < 0.7:
        return facts
    # The first numbers of each structure have two bytes, the last four; both hold 16 bits.
    facts = list(facts)
    at = random.randrange(len(facts))
    facts[at] = random.choice((facts[at] ^ 1, random.choice(NUMBERS))) % (1 << 16)
    return facts


# Bytes


def _changed_bytes(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    choice = random.randrange(8)
    if choice == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    if choice == 1:
        return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    if choice == 2:
        return data[:at] + random.randbytes(random.choice((1, 2, 4, 16))) + data[at:]
    if choice == 3:
        return data[:at] + data[at + random.choice((1, 2, 4, 16, 64)) :]
    if choice == 4:
        return data[:at]
    if choice == 5:
        other = random.randrange(len(data) + 1)
        return data[:at] + data[other : other + random.choice((1, 8, 64, 512))] + data[at:]
    size = random.choice((1, 2, 4, 8))
    return data[:at] + _packed(random.choice(NUMBERS), size) + data[at + size :]
