"""Values that stand in names themselves: globals, closure cells, defaults, names defined later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.fuzz.situations.shapes import DIRECT, SHAPES, Shape
from tests.fuzz.situations.situation import Situation


@dataclass(frozen=True)
class Home:
    """Where a number is.

    Attributes:
        name: What it is.
        source: Puts ``VALUE`` there.
        value: The expression that gives it.
        write: Statements that put another ``VALUE`` there.
        params: The function's parameters besides ``x``.
        target: What is compiled.
        call: How it is called.
        local: Whether all this is inside a function.
        around: Whether shapes may put the expression into another function.
    """

    name: str
    source: str
    value: str = "r"
    write: str = "r = VALUE"
    params: str = ""
    target: str = "f"
    call: str = "run(x)"
    local: bool = False


HOMES = (
    Home("global name", "r = VALUE"),
    Home("closure cell", "r = VALUE", local=True),
    Home("cell of two functions around", "def put(v):\n    nonlocal r\n    r = v\n\nr = VALUE",
         write="put(VALUE)", local=True),
    Home("default", "r = VALUE", "v", "f.__defaults__ = (VALUE,)", params=", v=r"),
    Home("keyword-only default", "r = VALUE", "v", "f.__kwdefaults__['v'] = VALUE",
         params=", *, v=r"),
    Home("keyword-only defaults replaced", "r = VALUE", "v", "f.__kwdefaults__ = {'v': VALUE}",
         params=", *, v=r"),
    Home("keywords of a partial function", "r = VALUE\ngiven = {'v': r}", "v",
         "target.keywords['v'] = VALUE", params=", v=0.0", target="functools.partial(f, v=r)"),
    Home("builtins", "builtins.rate_of_all = VALUE\n\ndef clean():\n"
         "    vars(builtins).pop('rate_of_all', None)",
         "rate_of_all", "builtins.rate_of_all = VALUE"),
    Home("global of a function", "r = VALUE\n\ndef get():\n    return r", "get()"),
    Home("cell of a function", "r = VALUE\n\ndef get():\n    return r", "get()", local=True),
    Home("cell of a lambda", "r = VALUE\nget = lambda: r", "get()", local=True),
    Home("cell of a function made by another",
         "def make(r):\n    def put(v):\n        nonlocal r\n        r = v\n"
         "    return (lambda: r), put\n\nget, put = make(VALUE)", "get()", "put(VALUE)"),
    Home("cell contents", "def make(r):\n    return lambda: r\n\nget = make(VALUE)", "get()",
         "get.__closure__[0].cell_contents = VALUE"),
    Home("cell read through __closure__", "def make(r):\n    return lambda: r\n\nget = make(VALUE)",
         "get.__closure__[0].cell_contents", "get.__closure__[0].cell_contents = VALUE"),
    Home("default of a function", "def get(v=VALUE):\n    return v", "get()",
         "get.__defaults__ = (VALUE,)"),
    Home("keyword default of a function", "def get(*, v=VALUE):\n    return v", "get()",
         "get.__kwdefaults__['v'] = VALUE"),
    Home("default of a lambda outside", "get = lambda v=VALUE: v", "get()",
         "get.__defaults__ = (VALUE,)"),
    Home("default of a method", "class Box:\n    def get(self, v=VALUE):\n        return v\n\n"
         "box = Box()", "box.get()", "Box.get.__defaults__ = (VALUE,)"),
    Home("global of a method", "r = VALUE\n\nclass Box:\n    def get(self):\n        return r\n\n"
         "box = Box()", "box.get()"),
    Home("global of a static method", "r = VALUE\n\nclass Box:\n    @staticmethod\n"
         "    def get():\n        return r", "Box.get()"),
    Home("attribute for a class method", "class Box:\n    @classmethod\n"
         "    def get(cls):\n        return cls.r\n\nBox.r = VALUE", "Box.get()", "Box.r = VALUE"),
    Home("global of a generator", "r = VALUE\n\ndef get():\n    yield r", "next(get())"),
    Home("global of a class's __init__", "r = VALUE\n\nclass Box:\n    def __init__(self):\n"
         "        self.v = r", "Box().v"),
    Home("global of __new__", "r = VALUE\n\nclass Box:\n    def __new__(cls):\n"
         "        made = super().__new__(cls)\n        made.v = r\n        return made", "Box().v"),
    Home("global of a default factory",
         "r = VALUE\n\n@dataclasses.dataclass\nclass Box:\n"
         "    v: float = dataclasses.field(default_factory=lambda: r)", "Box().v"),
    Home("global of __post_init__",
         "r = VALUE\n\n@dataclasses.dataclass\nclass Box:\n    v: float = 0.0\n\n"
         "    def __post_init__(self):\n        self.v = r", "Box().v"),
    Home("default of a dataclass's field", "@dataclasses.dataclass\nclass Box:\n"
         "    v: float = VALUE", "Box().v", "Box.__init__.__defaults__ = (VALUE,)"),
    Home("global of a defaultdict's factory",
         "r = VALUE\n\ndef make():\n    return r", "collections.defaultdict(make)['a']"),
    Home("global of a base class's method",
         "r = VALUE\n\nclass Base:\n    def get(self):\n        return r\n\n"
         "class Box(Base):\n    def get(self):\n        return super().get()\n\nbox = Box()",
         "box.get()"),
    Home("global of a metaclass's __call__",
         "r = VALUE\n\nclass Meta(type):\n    def __call__(cls):\n        return r\n\n"
         "class Box(metaclass=Meta):\n    pass", "Box()"),
    Home("global of __init_subclass__",
         "r = VALUE\n\nclass Base:\n    def __init_subclass__(cls):\n        cls.v = r",
         "type('Made', (Base,), {}).v"),
    Home("global of __set_name__",
         "r = VALUE\n\nclass Named:\n    def __set_name__(self, owner, name):\n"
         "        self.v = r", "vars(type('Made', (), {'a': Named()}))['a'].v"),
    Home("global of a decorator", "r = VALUE\n\ndef with_rate(g):\n"
         "    return functools.wraps(g)(lambda: g() and r)\n\n@with_rate\ndef get():\n"
         "    return 1.0", "get()"),
    Home("globals().get", "r = VALUE", "globals().get('r', 2.0)"),
    Home("globals() of a function", "r = VALUE\n\ndef get():\n    return r",
         "get.__globals__['r']"),
    Home("vars of a module", "r = VALUE", "vars(sys.modules['situation'])['r']"),
    Home("eval of a name", "r = VALUE", "eval('r')"),
    Home("environment", "os.environ['RATE'] = str(VALUE)", "float(os.environ['RATE'])",
         "os.environ['RATE'] = str(VALUE)"),
    Home("environment, os.getenv", "os.environ['RATE'] = str(VALUE)",
         "float(os.getenv('RATE', '2.0'))", "os.environ['RATE'] = str(VALUE)"),
    Home("context variable", "r = contextvars.ContextVar('r')\nr.set(VALUE)", "r.get()",
         "r.set(VALUE)"),
    Home("default of a context variable", "r = contextvars.ContextVar('r', default=5.0)\n"
         "token = r.set(VALUE)", "r.get()", "r.set(VALUE)"),
    Home("lru_cache, cleared", "r = VALUE\n\n@functools.lru_cache\ndef get():\n    return r",
         "get()", "r = VALUE\nget.cache_clear()"),
    Home("registration with singledispatch",
         "@functools.singledispatch\ndef get(o):\n    return 0.0\n\n"
         "get.register(int, lambda o: VALUE)", "get(1)", "get.register(int, lambda o: VALUE)"),
    Home("class made by type()", "Box = type('Box', (), {'v': VALUE})", "Box.v",
         "Box = type('Box', (), {'v': VALUE})"),
    Home("enumeration's value", "Kind = enum.Enum('Kind', {'ONE': VALUE})", "Kind.ONE.value",
         "Kind = enum.Enum('Kind', {'ONE': VALUE})"),
    Home("_value_ of a member", "Kind = enum.Enum('Kind', {'ONE': VALUE})", "Kind.ONE.value",
         "Kind.ONE._value_ = VALUE"),
    Home("module in sys.modules",
         "sys.modules['situation_settings'] = types.ModuleType('situation_settings')\n"
         "sys.modules['situation_settings'].r = VALUE\n\ndef clean():\n"
         "    sys.modules.pop('situation_settings', None)\n\ndef get():\n"
         "    import situation_settings\n    return situation_settings.r",
         "get()", "sys.modules['situation_settings'].r = VALUE"),
    Home("name imported from a module in a function",
         "sys.modules['situation_settings'] = types.ModuleType('situation_settings')\n"
         "sys.modules['situation_settings'].r = VALUE\n\ndef clean():\n"
         "    sys.modules.pop('situation_settings', None)\n\ndef get():\n"
         "    from situation_settings import r\n    return r",
         "get()", "sys.modules['situation_settings'].r = VALUE"),
    Home("module replaced in sys.modules",
         "def fill(v):\n"
         "    sys.modules['situation_settings'] = made = types.ModuleType('situation_settings')\n"
         "    made.r = v\n\nfill(VALUE)\n\ndef clean():\n"
         "    sys.modules.pop('situation_settings', None)\n\ndef get():\n"
         "    import situation_settings\n    return situation_settings.r",
         "get()", "fill(VALUE)"),
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Two values, and whether their types are what tells them apart."""

    name: str
    first: str = "2.0"
    other: str = "3.0"
    by_kind: bool = False


KINDS = (
    Kind("rebound"),
    Kind("int for float", other="2", by_kind=True),
    Kind("True for 1", first="1", other="True", by_kind=True),
    Kind("-0.0 for 0.0", first="0.0", other="-0.0", by_kind=True),
    Kind("number of NumPy for a float", other="np.float32(2.0)", by_kind=True),
    Kind("fraction for a float", other="fractions.Fraction(2)", by_kind=True),
    Kind("tensor for a float", other="flambeau.tensor(3.0)"),
    Kind("tensor of another dtype", first="flambeau.tensor([2.0, 2.0])",
         other="flambeau.tensor([2.0, 2.0], dtype=flambeau.float64)"),
    Kind("another tensor", first="flambeau.tensor([2.0, 2.0])",
         other="flambeau.tensor([3.0, 4.0])"),
    Kind("tensor of another shape", first="flambeau.tensor([2.0, 2.0])",
         other="flambeau.tensor([[3.0, 4.0]])"),
    Kind("inf for a number", other="float('inf')"),
)  # fmt: skip

_TEXT = ("environment", "lru_cache", "tensor")

_GLOBALS = "globals()['late'] = 3.0"
LATER = {
    "except NameError": ("found", "try:\n    found = late\nexcept NameError:\n    found = 2.0"),
    "globals().get, absent at first": ("globals().get('late', 2.0)", ""),
    "in globals()": ("(late if 'late' in globals() else 2.0)", ""),
    "except NameError in a helper": ("get_late()", ""),
    "vars of a module, absent at first": (
        "vars(sys.modules['situation']).get('late', 2.0)", "",
    ),
    "getattr of a module, absent at first": (
        "getattr(sys.modules['situation'], 'late', 2.0)", "",
    ),
    "shadowed builtin": ("float(len('ab'))", ""),
    "shadowed builtin, min": ("float(min(2.0, 8.0))", ""),
}  # fmt: skip


def names() -> Iterator[Situation]:
    """Every home with every kind of change, and every shape for the first homes."""
    for home in HOMES:
        for kind in KINDS:
            if not (kind.name != "rebound" and home.name.startswith(_TEXT)):
                yield _situation(home, kind, DIRECT)
    for i, shape in enumerate(SHAPES):
        for home in (*HOMES[:6], HOMES[6 + i % (len(HOMES) - 6)]):
            if shape is not DIRECT and not (home.params and shape.name.startswith("decorated")):
                yield _situation(home, KINDS[0], shape)
                if not home.params and shape.name != "condition":
                    yield _situation(home, KINDS[1 + i % 3], shape)
    for name, (value, lines) in LATER.items():
        builtin = {"shadowed builtin": "len", "shadowed builtin, min": "min"}.get(name)
        helper = "def get_late():\n    try:\n        return late\n    except NameError:\n"
        helper += "        return 2.0\n\n"
        change, back = "globals()['late'] = 3.0", "del globals()['late']"
        if builtin:
            change = f"globals()['{builtin}'] = lambda *args: 3.0"
            back = f"del globals()['{builtin}']"
        for shape in SHAPES:
            if shape.takes_lines or not lines:
                yield Situation(
                    f"name defined later / {name} / {shape.name}",
                    helper + shape.render(lines, value, ""),
                    change,
                    back,
                )


def _situation(home: Home, kind: Kind, shape: Shape) -> Situation:
    number = f"float(len(repr({home.value})))" if kind.by_kind else home.value
    function = shape.render("", number, home.params)
    return Situation(
        " / ".join((home.name, kind.name, *([shape.name] * (shape is not DIRECT)))),
        f"{home.source.replace('VALUE', kind.first)}\n\n{function}",
        home.write.replace("VALUE", kind.other),
        home.write.replace("VALUE", kind.first),
        local=home.local,
        target=home.target,
        call=home.call,
    )
