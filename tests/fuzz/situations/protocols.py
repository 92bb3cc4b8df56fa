"""Operators and protocols: Python code that runs without being named where it is used."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.situations.situation import Situation

# The method, its parameters, what it returns (RATE stands for 2.0 or 3.0), and how it is reached.
_NUMBER = "RATE"
OPERATORS: dict[str, tuple[str, str, str]] = {
    "__mul__": ("self, o", _NUMBER, "c * 1"),
    "__rmul__": ("self, o", _NUMBER, "1 * c"),
    "__add__": ("self, o", _NUMBER, "c + 1"),
    "__radd__": ("self, o", _NUMBER, "sum([c])"),
    "__sub__": ("self, o", _NUMBER, "c - 1"),
    "__truediv__": ("self, o", _NUMBER, "c / 1"),
    "__floordiv__": ("self, o", _NUMBER, "c // 1"),
    "__mod__": ("self, o", _NUMBER, "c % 1"),
    "__divmod__": ("self, o", "(RATE, 0)", "divmod(c, 1)[0]"),
    "__pow__": ("self, o", _NUMBER, "c ** 1"),
    "__matmul__": ("self, o", _NUMBER, "c @ 1"),
    "__and__": ("self, o", _NUMBER, "c & 1"),
    "__or__": ("self, o", _NUMBER, "c | 1"),
    "__xor__": ("self, o", _NUMBER, "c ^ 1"),
    "__lshift__": ("self, o", _NUMBER, "c << 1"),
    "__rshift__": ("self, o", _NUMBER, "c >> 1"),
    "__neg__": ("self", _NUMBER, "-c"),
    "__pos__": ("self", _NUMBER, "+c"),
    "__abs__": ("self", _NUMBER, "abs(c)"),
    "__invert__": ("self", _NUMBER, "~c"),
    "__bool__": ("self", "RATE > 2.5", "(3.0 if c else 2.0)"),
    "__bool__ by not": ("self", "RATE > 2.5", "(2.0 if not c else 3.0)"),
    "__bool__ by and": ("self", "RATE > 2.5", "(c and 3.0 or 2.0)"),
    "__len__": ("self", "int(RATE)", "float(len(c))"),
    "__len__ by truth": ("self", "int(RATE > 2.5)", "(3.0 if c else 2.0)"),
    "__length_hint__": ("self", "int(RATE)", "float(operator.length_hint(c))"),
    "__eq__": ("self, o", "o == RATE", "(2.0 if c == 2.0 else 3.0)"),
    "__eq__ by in": ("self, o", "o == RATE", "(2.0 if 2.0 in [c] else 3.0)"),
    "__eq__ by index": ("self, o", "o == RATE", "float([c, 2.0].index(2.0) + 2)"),
    "__ne__": ("self, o", "o != RATE", "(3.0 if c != 2.0 else 2.0)"),
    "__lt__": ("self, o", "RATE < o", "(2.0 if c < 2.5 else 3.0)"),
    "__le__": ("self, o", "RATE <= o", "(2.0 if c <= 2.5 else 3.0)"),
    "__gt__": ("self, o", "RATE > o", "(3.0 if c > 2.5 else 2.0)"),
    "__gt__ reflected": ("self, o", "RATE > o", "(3.0 if 2.5 < c else 2.0)"),
    "__lt__ by min": ("self, o", "RATE < o", "(2.0 if min(2.5, c) is c else 3.0)"),
    "__lt__ by sorted": ("self, o", "RATE < o", "(2.0 if sorted([2.5, c])[0] is c else 3.0)"),
    "__hash__": ("self", "int(RATE)", "float(hash(c))"),
    "__hash__ by a dictionary": ("self", "int(RATE)", "float({2: 2.0, 3: 3.0}.get(hash(c)))"),
    "__contains__": ("self, o", "o == RATE", "(2.0 if 2.0 in c else 3.0)"),
    "__iter__": ("self", "iter([RATE])", "[v for v in c][0]"),
    "__iter__ by a loop": ("self", "iter([RATE])", "sum(v for v in c)"),
    "__iter__ by unpacking": ("self", "iter([RATE, 1.0])", "(lambda a, b: a)(*c)"),
    "__iter__ by list": ("self", "iter([RATE])", "list(c)[0]"),
    "__iter__ by max": ("self", "iter([RATE])", "max(c)"),
    "__iter__ by zip": ("self", "iter([RATE])", "[v for v, _ in zip(c, [1])][0]"),
    "__iter__ by in": ("self", "iter([RATE])", "(2.0 if 2.0 in c else 3.0)"),
    "__iter__ by itertools.chain": ("self", "iter([RATE])", "next(itertools.chain(c))"),
    "__iter__ of a generator": ("self", "(v for v in [RATE])", "next(iter(c))"),
    "__next__": ("self", _NUMBER, "next(c)"),
    "__reversed__": ("self", "iter([RATE])", "next(reversed(c))"),
    "__call__": ("self", _NUMBER, "c()"),
    "__call__ by map": ("self, o", _NUMBER, "next(map(c, [1]))"),
    "__call__ by sorted": ("self, o", "o * (RATE - 2.5)", "float(sorted([1, 2], key=c)[0])"),
    "__call__ by reduce": ("self, a, b", _NUMBER, "functools.reduce(c, [1, 2])"),
    "__call__ by partial": ("self, a", _NUMBER, "functools.partial(c, 1)()"),
    "__getitem__": ("self, key", _NUMBER, "c[0]"),
    "__getitem__ of a slice": ("self, key", _NUMBER, "c[1:2]"),
    "__getitem__ by a loop": ("self, key", "[RATE][key]", "[v for v in c][0]"),
    "__getitem__ by itemgetter": ("self, key", _NUMBER, "operator.itemgetter(0)(c)"),
    "__enter__": ("self", _NUMBER, "c.__enter__()"),
    "__format__": ("self, spec", "str(RATE)", "float(f'{c}')"),
    "__format__ by format": ("self, spec", "str(RATE)", "float(format(c))"),
    "__format__ by str.format": ("self, spec", "str(RATE)", "float('{}'.format(c))"),
    "__str__": ("self", "str(RATE)", "float(str(c))"),
    "__str__ by %": ("self", "str(RATE)", "float('%s' % c)"),
    "__repr__": ("self", "str(RATE)", "float(repr(c))"),
    "__repr__ by !r": ("self", "str(RATE)", "float(f'{c!r}')"),
    "__bytes__": ("self", "bytes([int(RATE)])", "float(bytes(c)[0])"),
    "__fspath__": ("self", "str(RATE)", "float(os.fspath(c))"),
    "__index__": ("self", "int(RATE)", "float(operator.index(c))"),
    "__index__ by range": ("self", "int(RATE)", "float(len(range(c)))"),
    "__index__ by a list": ("self", "int(RATE)", "[0.0, 1.0, 2.0, 3.0][c]"),
    "__index__ by a slice": ("self", "int(RATE)", "float(len([0, 1, 2, 3][:c]))"),
    "__index__ by *": ("self", "int(RATE)", "float(len([0] * c))"),
    "__int__": ("self", "int(RATE)", "float(int(c))"),
    "__float__": ("self", _NUMBER, "float(c)"),
    "__float__ by math": ("self", _NUMBER, "math.sqrt(c)"),
    "__complex__": ("self", "complex(RATE)", "complex(c).real"),
    "__round__": ("self", _NUMBER, "round(c)"),
    "__trunc__": ("self", _NUMBER, "math.trunc(c)"),
    "__floor__": ("self", _NUMBER, "math.floor(c)"),
    "__ceil__": ("self", _NUMBER, "math.ceil(c)"),
    "__copy__": ("self", "SimpleNamespace(r=RATE)", "copy.copy(c).r"),
    "__deepcopy__": ("self, memo", "SimpleNamespace(r=RATE)", "copy.deepcopy(c).r"),
    "__reduce__": ("self", "(float, (RATE,))", "copy.copy(c)"),
    "__dir__": ("self", "['a'] * int(RATE)", "float(len(dir(c)))"),
    "__sizeof__": ("self", "int(RATE)", "float(c.__sizeof__())"),
    "__getattr__": ("self, name", "2.0 if name.startswith('__') else RATE", "c.anything"),
    "__getattr__ by getattr": ("self, name", "2.0 if name.startswith('__') else RATE",
                               "getattr(c, 'anything', 7.0)"),
    "__getattr__ by hasattr": (
        "self, name", "RATE if RATE > 2.5 else SimpleNamespace().absent",
        "(3.0 if hasattr(c, 'anything') else 2.0)"),
    "__await__": ("self", "iter([RATE])", "next(c.__await__())"),
    "__mul__ of a tensor": ("self, o", "o * RATE", "(c * x).sum()"),
    "__rmul__ of a tensor": ("self, o", "o * RATE", "(x * c).sum()"),
    "__get__ of a descriptor": ("self, instance, owner=None", _NUMBER,
                                "type('T', (), {'d': c})().d"),
    "__array__": ("self, dtype=None, copy=None", "np.array(RATE)", "float(np.asarray(c))"),
    "__instancecheck__": ("cls, o", "RATE > 2.5", "(3.0 if isinstance(1, C) else 2.0)"),
    "__subclasscheck__": ("cls, o", "RATE > 2.5", "(3.0 if issubclass(int, C) else 2.0)"),
    "__instancecheck__ by match": (
        "cls, o", "RATE > 2.5", "matched(x)"),
    "__call__ of a metaclass": ("cls", _NUMBER, "C()"),
    "__getitem__ of a metaclass": ("cls, key", _NUMBER, "C[0]"),
    "__iter__ of a metaclass": ("cls", "iter([RATE])", "next(iter(C))"),
    "__len__ of a metaclass": ("cls", "int(RATE)", "float(len(C))"),
    "__getattr__ of a metaclass": ("cls, name", "2.0 if name.startswith('__') else RATE",
                                   "C.anything"),
}  # fmt: skip
_OF_META = ("__instancecheck__", "__subclasscheck__")
_MATCHED = (
    "def matched(x):\n    match 1:\n        case C():\n            return 3.0\n"
    "        case _:\n            return 2.0\n\n"
)


def protocols() -> Iterator[Situation]:
    """Every protocol, with each way to change what its method gives."""
    for name, (params, result, use) in OPERATORS.items():
        method = name.partition(" ")[0]
        meta = method in _OF_META or "metaclass" in name
        itself = params.partition(",")[0].replace("cls", "C").replace("self", "c")
        yield from _changes(name, method, params, result, use, meta, itself)


def _changes(
    name: str, method: str, params: str, result: str, use: str, meta: bool, itself: str
) -> Iterator[Situation]:
    owner = "Meta" if meta else "C"
    base = "type" if meta else "object"
    me = params.partition(",")[0]

    def world(rate: str, inherits: bool = False) -> str:
        body = f"    def {method}({params}):\n        return {result.replace('RATE', rate)}\n\n"
        first = f"class Base({base}):\n{body}" if inherits else ""
        mine = "    pass\n\n" if inherits else body
        made = f"{first}class {owner}({'Base' if inherits else base}):\n{mine}"
        made += "class C(metaclass=Meta):\n    pass\n\n" if meta else ""
        another = result.replace("RATE", "3.0")
        made += (
            f"class Another({owner}):\n    def {method}({params}):\n        return {another}\n\n"
        )
        made += f"def other({params}):\n    return {another}\n\n"
        made += f"def first({params}):\n    return {result.replace('RATE', '2.0')}\n\n"
        made += _MATCHED if "matched" in use else ""
        return f"{made}c = C()\nc.r = C.r = 2.0\nr = 2.0\n\ndef f(x):\n    return x * ({use})"

    if "_array_" in method or "__call__ of a metaclass" in name:
        made = world("r").replace("c = C()\nc.r = C.r = 2.0\n", "c = object.__new__(C)\n")
        yield Situation(f"protocol {name} / global it reads", made, "r = 3.0", "r = 2.0")
        return
    reads = f"{me}.__dict__['r']"
    yield Situation(f"protocol {name} / global it reads", world("r"), "r = 3.0", "r = 2.0")
    yield Situation(
        f"protocol {name} / attribute it reads", world(reads), f"{itself}.r = 3.0",
        f"{itself}.r = 2.0",
    )  # fmt: skip
    yield Situation(
        f"protocol {name} / method replaced", world("2.0"), f"{owner}.{method} = other",
        f"{owner}.{method} = first",
    )  # fmt: skip
    yield Situation(
        f"protocol {name} / code of the method", world("2.0"),
        f"{owner}.{method}.__code__ = other.__code__",
        f"{owner}.{method}.__code__ = first.__code__",
    )  # fmt: skip
    yield Situation(
        f"protocol {name} / method of a base class replaced", world("2.0", inherits=True),
        f"Base.{method} = other", f"Base.{method} = first",
    )  # fmt: skip
    if not meta:
        yield Situation(
            f"protocol {name} / __class__ exchanged", world("2.0"), "c.__class__ = Another",
            "c.__class__ = C",
        )  # fmt: skip
        yield Situation(
            f"protocol {name} / object replaced", world("2.0"), "c = Another()", "c = C()"
        )
