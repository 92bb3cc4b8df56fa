"""Functions that change: what is called, how the code calls it, and what is done to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.fuzz.situations.situation import Situation


@dataclass(frozen=True)
class Callee:
    """Something that gives 2.0 when it is called.

    Attributes:
        name: What it is.
        source: Defines it.
        value: The expression for it.
        changes: What makes it give 3.0, and what undoes that, by name.
    """

    name: str
    source: str
    value: str
    changes: dict[str, tuple[str, str]]


_OTHER = (
    "def other(*args, **given):\n    return 3.0\n\ndef first(*args, **given):\n    return 2.0\n\n"
)


def _class_changes(cls: str, name: str = "h") -> dict[str, tuple[str, str]]:
    return {
        "method replaced in the class": (f"{cls}.{name} = other", f"{cls}.{name} = first"),
        "code of the method": (
            f"{cls}.{name}.__code__ = other.__code__",
            f"{cls}.{name}.__code__ = first.__code__",
        ),
    }


_ON_INSTANCE = ("box.h = other", "del box.h")
_SWAP = ("box.__class__ = Another", "box.__class__ = Box")
_ANOTHER = "class Another(Box):\n    def h(self, *args, **given):\n        return 3.0\n\n"

CALLEES = (
    Callee("function", "def h(*args, **given):\n    return 2.0", "h", {
        "rebound": ("h = other", "h = first"),
        "__code__": ("h.__code__ = other.__code__", "h.__code__ = first.__code__"),
        "rebound to a lambda": ("h = lambda *args, **given: 3.0", "h = first"),
        "rebound to a class": (("h = type('Three', (float,), "
                               "{'__new__': lambda cls, *a, **k: 3.0})"), "h = first"),
        "rebound to a partial function": ("h = functools.partial(other)", "h = first"),
        "rebound to a builtin function": ("h = itertools.repeat(3.0).__next__", "h = first"),
    }),
    Callee("lambda", "h = lambda *args, v=2.0, **given: v", "h", {
        "rebound": ("h = lambda *args, v=3.0, **given: v", "h = first"),
        "__kwdefaults__": ("h.__kwdefaults__ = {'v': 3.0}", "h.__kwdefaults__ = {'v': 2.0}"),
    }),
    Callee("function with a default",
           "def h(*args, v=2.0, **given):\n    return v", "h", {
               "item of __kwdefaults__": ("h.__kwdefaults__['v'] = 3.0",
                                          "h.__kwdefaults__['v'] = 2.0"),
           }),
    Callee("function in a closure",
           "def make():\n    def inner():\n        return 2.0\n"
           "    def h(*args, **given):\n        return inner()\n    return h\n\nh = make()", "h", {
               "cell's content": ("h.__closure__[0].cell_contents = other",
                                  "h.__closure__[0].cell_contents = first"),
           }),
    Callee("method", "class Box:\n    def h(self, *args, **given):\n        return 2.0\n\n"
           f"{_ANOTHER}box = Box()", "box.h", {
               **_class_changes("Box"),
               "method put on the instance": _ON_INSTANCE,
               "__class__ exchanged": _SWAP,
               "object replaced": ("box = Another()", "box = Box()"),
               "method put on the instance's __dict__": ("vars(box)['h'] = other",
                                                         "del vars(box)['h']"),
           }),
    Callee("method of a slots object",
           "class Box:\n    __slots__ = ()\n\n    def h(self, *args, **given):\n"
           "        return 2.0\n\nbox = Box()", "box.h", _class_changes("Box")),
    Callee("inherited method",
           "class Base:\n    def h(self, *args, **given):\n        return 2.0\n\n"
           f"class Box(Base):\n    pass\n\n{_ANOTHER}box = Box()", "box.h", {
               **_class_changes("Base"),
               "method put into the class between": ("Box.h = other", "del Box.h"),
               "method put on the instance": _ON_INSTANCE,
               "__class__ exchanged": _SWAP,
           }),
    Callee("overriding method",
           "class Base:\n    def h(self, *args, **given):\n        return 3.0\n\n"
           "class Box(Base):\n    def h(self, *args, **given):\n        return 2.0\n\nbox = Box()",
           "box.h", {"method deleted from the class": ("del Box.h", "Box.h = first")}),
    Callee("method of a base class by super()",
           "class Base:\n    def h(self, *args, **given):\n        return 2.0\n\n"
           "class Box(Base):\n    def h(self, *args, **given):\n        return super().h()\n\n"
           "box = Box()", "box.h", {
               **_class_changes("Base"),
               "bases exchanged": (("class _Plain:\n    pass\n\nclass _New(_Plain):\n"
                                   "    h = other\n\nkept = Box.__bases__\n"
                                   "class Middle(Base):\n    h = other\n\n"
                                   "Box.__bases__ = (Middle,)"), "Box.__bases__ = (Base,)"),
           }),
    Callee("static method", "class Box:\n    @staticmethod\n    def h(*args, **given):\n"
           "        return 2.0\n\nbox = Box()", "Box.h", {
               "replaced in the class": ("Box.h = staticmethod(other)",
                                         "Box.h = staticmethod(first)"),
               "code": ("Box.h.__code__ = other.__code__", "Box.h.__code__ = first.__code__"),
           }),
    Callee("class method", "class Box:\n    @classmethod\n    def h(cls, *args, **given):\n"
           "        return 2.0\n\nbox = Box()", "Box.h", {
               "replaced in the class": ("Box.h = classmethod(other)",
                                         "Box.h = classmethod(first)"),
               "code": ("Box.h.__func__.__code__ = other.__code__",
                        "Box.h.__func__.__code__ = first.__code__"),
           }),
    Callee("class", "class Box(float):\n    def __new__(cls, *args, **given):\n"
           "        return float.__new__(cls, cls.v)\n\n    v = 2.0", "Box", {
               "__new__ replaced": ("Box.__new__ = other", "Box.__new__ = first"),
               "attribute of the class": ("Box.v = 3.0", "Box.v = 2.0"),
               "rebound": ("Box = other", "Box = first"),
           }),
    Callee("callable object", "class Box:\n    def __call__(self, *args, **given):\n"
           "        return 2.0\n\nclass Another(Box):\n    __call__ = other\n\nbox = Box()",
           "box", {
               **_class_changes("Box", "__call__"),
               "__class__ exchanged": _SWAP,
               "object replaced": ("box = Another()", "box = Box()"),
           }),
    Callee("partial function", "def inner(v, *args, **given):\n    return v\n\n"
           "h = functools.partial(inner, 2.0)", "h", {
               "rebound": ("h = functools.partial(inner, 3.0)",
                           "h = functools.partial(inner, 2.0)"),
               "code of its function": ("inner.__code__ = other.__code__",
                                        "inner.__code__ = first.__code__"),
               "state": ("h.__setstate__((inner, (3.0,), {}, {}))",
                         "h.__setstate__((inner, (2.0,), {}, {}))"),
           }),
    Callee("partial method", "class Box:\n    def inner(self, v, *args, **given):\n"
           "        return v\n\n    h = functools.partialmethod(inner, 2.0)\n\nbox = Box()",
           "box.h", {
               "replaced in the class": (
                   "Box.h = functools.partialmethod(Box.inner, 3.0)",
                   "Box.h = functools.partialmethod(Box.inner, 2.0)"),
               "code": ("Box.inner.__code__ = other.__code__",
                        "Box.inner.__code__ = first.__code__"),
           }),
    Callee("bound method kept outside", "class Box:\n    def __init__(self):\n"
           "        self.v = 2.0\n\n    def get(self, *args, **given):\n        return self.v\n\n"
           "box = Box()\nh = box.get", "h", {
               "attribute of its object": ("box.v = 3.0", "box.v = 2.0"),
               "code": ("Box.get.__code__ = other.__code__", "Box.get.__code__ = first.__code__"),
           }),
    Callee("decorated function", "def same(g):\n    @functools.wraps(g)\n"
           "    def around(*args, **given):\n        return g(*args, **given)\n"
           "    return around\n\n"
           "@same\ndef h(*args, **given):\n    return 2.0", "h", {
               "code of what it wraps": ("h.__wrapped__.__code__ = other.__code__",
                                         "h.__wrapped__.__code__ = first.__code__"),
               "rebound": ("h = other", "h = first"),
           }),
    Callee("function of singledispatch", "@functools.singledispatch\n"
           "def h(*args, **given):\n    return 2.0\n\n"
           "def h_of_one(*args, **given):\n    return h(1)", "h_of_one", {
               "registered for object": ("h.register(object, other)", "h.register(object, first)"),
           }),
    Callee("what a property gives", "class Box:\n    @property\n    def h(self):\n"
           "        return self.inner\n\nbox = Box()\nbox.inner = first", "box.h", {
               "attribute behind it": ("box.inner = other", "box.inner = first"),
               "property replaced": ("Box.h = property(lambda self: other)",
                                     "Box.h = property(lambda self: first)"),
           }),
    Callee("what a descriptor gives", "class Bound:\n    def __get__(self, instance, owner=None):\n"
           "        return first\n\nclass Box:\n    h = Bound()\n\nbox = Box()", "box.h", {
               "__get__ replaced": ("Bound.__get__ = lambda *args: other",
                                    "Bound.__get__ = lambda *args: first"),
               "descriptor replaced": ("Box.h = staticmethod(other)", "Box.h = Bound()"),
           }),
    Callee("what __getattr__ gives", "class Box:\n    def __getattr__(self, name):\n"
           "        if name.startswith('_'):\n            raise AttributeError(name)\n"
           "        return first\n\nbox = Box()", "box.h", {
               "__getattr__ replaced": ("Box.__getattr__ = lambda self, name: other",
                                        "Box.__getattr__ = lambda self, name: first"),
               "found before it": ("Box.h = staticmethod(other)", "del Box.h"),
           }),
    Callee("function in a dictionary", "table = {'h': first}", "table['h']", {
        "item replaced": ("table['h'] = other", "table['h'] = first"),
        "code": ("first.__code__ = other.__code__", "first.__code__ = third.__code__"),
    }),
    Callee("get of a dictionary", "table = {'h': first}", "table.get('h')", {
        "item replaced": ("table['h'] = other", "table['h'] = first"),
    }),
    Callee("get with a default", "table = {}", "table.get('h', first)", {
        "item added": ("table['h'] = other", "del table['h']"),
    }),
    Callee("function in a list", "table = [first]", "table[0]", {
        "item replaced": ("table[0] = other", "table[0] = first"),
        "item put before it": ("table.insert(0, other)", "del table[0]"),
    }),
    Callee("function of a module object", "box = types.ModuleType('box')\nbox.h = first", "box.h", {
        "rebound": ("box.h = other", "box.h = first"),
    }),
    Callee("function of a library, patched", "box = math\n\ndef clean():\n"
           "    math.h = None\n    del math.h\n\nmath.h = first", "math.h", {
               "rebound": ("math.h = other", "math.h = first"),
           }),
    Callee("attribute of a function", "def box(): ...\nbox.h = first", "box.h", {
        "rebound": ("box.h = other", "box.h = first"),
    }),
    Callee("what a function returns", "def box():\n    return first", "box()", {
        "code": ("box.__code__ = (lambda: other).__code__",
                 "box.__code__ = (lambda: first).__code__"),
    }),
    Callee("function of functools.lru_cache", "@functools.lru_cache\n"
           "def h(*args, **given):\n    return v\n\nv = 2.0", "h", {
               "cleared": ("v = 3.0\nh.cache_clear()", "v = 2.0\nh.cache_clear()"),
               "rebound": ("h = other", "h = first"),
           }),
    Callee("method of a metaclass", "class Meta(type):\n    def h(cls, *args, **given):\n"
           "        return 2.0\n\nclass Box(metaclass=Meta):\n    pass", "Box.h", {
               **_class_changes("Meta"),
               "found in the class first": ("Box.h = other", "del Box.h"),
           }),
)  # fmt: skip

# How the code calls it: an expression in which OBJ is the callee, and statements before it.
USES: dict[str, tuple[str, str]] = {
    "called": ("OBJ()", ""),
    "called with *": ("OBJ(*[1], **{'a': 1})", ""),
    "local name": ("g()", "g = OBJ"),
    "chosen by a condition": ("(OBJ if x is not None else None)()", ""),
    "given to a helper": ("call_it(OBJ)", ""),
    "given to a helper by keyword": ("call_it(g=OBJ)", ""),
    "given to a lambda": ("(lambda g: g())(OBJ)", ""),
    "default of a function inside": ("inner()", "def inner(g=OBJ):\n        return g()"),
    "called in a nested function": ("inner()", "def inner():\n        return OBJ()"),
    "called in a generator": ("sum(OBJ() for _ in [1])", ""),
    "called in a comprehension": ("[g() for g in [OBJ]][0]", ""),
    "map": ("list(map(OBJ, [1]))[0]", ""),
    "filter": ("len(list(filter(lambda v: OBJ(v) > 2.5, [1, 2])))", ""),
    "key of max": ("max([1.0, 2.0], key=lambda v: v * (OBJ() - 2.5))", ""),
    "functools.reduce": ("functools.reduce(OBJ, [1, 2])", ""),
    "partial made inside": ("functools.partial(OBJ, 1)()", ""),
    "kept by an object made inside": ("Keeper(OBJ).call()", ""),
    "kept by a dictionary made inside": ("{'g': OBJ}['g']()", ""),
    "operator.methodcaller": ("operator.methodcaller('__call__')(OBJ)", ""),
    "__call__ by name": ("OBJ.__call__()", ""),
    "decorator inside": ("inner()", "@call_in\n    def inner():\n        return OBJ"),
    "evaluated text": ("eval('g()', {'g': OBJ})", ""),
    "truth of callable()": ("(OBJ() if callable(OBJ) else 0.0)", ""),
    "try": ("found", "try:\n        found = OBJ()\n    except TypeError:\n        found = 0.0"),
    "contextlib.ExitStack": ("found", ("with contextlib.ExitStack() as stack:\n"
                             "        found = OBJ()")),
}  # fmt: skip
_HELPERS = (
    "def call_it(g):\n    return g()\n\n"
    "def call_in(g):\n    return lambda: g()()\n\n"
    "class Keeper:\n    def __init__(self, g):\n        self.g = g\n\n"
    "    def call(self):\n        return self.g()\n\n"
    "def third(*args, **given):\n    return 2.0\n\n"
)


def callables() -> Iterator[Situation]:
    """Every change of every callee, called in several ways; every way with several callees."""
    uses = [*USES]
    count = 0
    for i, callee in enumerate(CALLEES):
        for change in callee.changes:
            for use in {uses[0]: 1, uses[(i + count) % len(uses)]: 1,
                        uses[(7 * i + 3 * count) % len(uses)]: 1}:  # fmt: skip
                yield _situation(callee, change, use)
            count += 1
    for i, use in enumerate(uses):
        for j in (0, 4, 4 + i):
            callee = CALLEES[(i + j) % len(CALLEES)] if j else CALLEES[0]
            changes = [*callee.changes]
            yield _situation(callee, changes[i % len(changes)], use)


def _situation(callee: Callee, change: str, use: str) -> Situation:
    value, lines = (each.replace("OBJ", callee.value) for each in USES[use])
    before = f"    {lines}\n" if lines else ""
    return Situation(
        f"{callee.name} / {use} / {change}",
        f"{_OTHER}{_HELPERS}{callee.source}\n\ndef f(x):\n{before}    return x * {value}",
        *callee.changes[change],
    )
