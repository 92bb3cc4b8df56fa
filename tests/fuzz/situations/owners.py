"""Where a value lives: objects with an attribute ``rate``, mappings with a key, sequences.

The source of each defines ``make``, a function of the value that gives such an object.
"""

from __future__ import annotations

from dataclasses import dataclass

#: What an object allows; an access or a change may ask for some of these.
ATTRIBUTE, ITEM, SEQUENCE = "attribute", "item", "sequence"
STATE = "state"  # The value stands in ``__dict__``.
CLASS = "class"  # An object of a class of its own, which can be patched and exchanged.
COPIES = "copies"  # ``copy.copy`` copies the value.
DATACLASS = "dataclass"
HASHES = "hashes"
WEAK = "weak"  # Can be referenced weakly.


@dataclass(frozen=True)
class Owner:
    """A kind of object with a value in it.

    Attributes:
        name: What it is.
        source: Defines ``make``.
        traits: What it allows.
        write: Statements that put ``VALUE`` into ``c``.
        delete: Statements that remove the value, if that can be done.
        restore: Statements that put ``VALUE`` back after that; ``write`` if "".
    """

    name: str
    source: str
    traits: frozenset[str]
    write: str
    delete: str = ""
    restore: str = ""


def _attribute(
    name: str, source: str, *traits: str, write: str = "c.rate = VALUE", delete: str = "del c.rate"
) -> Owner:
    return Owner(name, source, frozenset({ATTRIBUTE, *traits}), write, delete)


_OBJECT = (STATE, CLASS, COPIES, HASHES, WEAK)
_INIT = "    def __init__(self, value):\n        self.rate = value\n"
_MAKE = "make = Config"
_UNDER = "    def __init__(self, value):\n        self._rate = value\n"
_HIDDEN = (CLASS, COPIES, HASHES, WEAK)

ATTRIBUTES = (
    _attribute("plain object", f"class Config:\n{_INIT}\n{_MAKE}", *_OBJECT),
    _attribute(
        "slots object",
        f"class Config:\n    __slots__ = ('rate',)\n{_INIT}\n{_MAKE}",
        CLASS, COPIES, HASHES,
    ),
    _attribute(
        "dataclass",
        f"@dataclasses.dataclass\nclass Config:\n    rate: float\n    name: str = 'a'\n\n{_MAKE}",
        STATE, CLASS, COPIES, WEAK, DATACLASS,
    ),
    _attribute(
        "frozen dataclass",
        f"@dataclasses.dataclass(frozen=True)\nclass Config:\n    rate: float\n\n{_MAKE}",
        STATE, COPIES, HASHES, WEAK, DATACLASS,
        write="object.__setattr__(c, 'rate', VALUE)", delete="object.__delattr__(c, 'rate')",
    ),
    _attribute(
        "dataclass with slots",
        f"@dataclasses.dataclass(slots=True)\nclass Config:\n    rate: float\n\n{_MAKE}",
        CLASS, COPIES, DATACLASS,
    ),
    _attribute(
        "named tuple",
        f"Config = collections.namedtuple('Config', 'rate name', defaults=('a',))\n{_MAKE}",
        HASHES, COPIES, write="c = c._replace(rate=VALUE)", delete="",
    ),
    _attribute(
        "typed named tuple",
        f"class Config(typing.NamedTuple):\n    rate: float\n\n{_MAKE}",
        HASHES, COPIES, write="c = Config(VALUE)", delete="",
    ),
    _attribute(
        "simple namespace", "def make(value):\n    return SimpleNamespace(rate=value)",
        STATE, COPIES,
    ),
    _attribute(
        "enum member",
        "class Kind(enum.Enum):\n    ONE = 1\n\n"
        "def make(value):\n    Kind.ONE.rate = value\n    return Kind.ONE",
        STATE, HASHES,
    ),
    _attribute(
        "class attribute",
        "class Config:\n    rate = 0.0\n\n"
        "def make(value):\n    Config.rate = value\n    return Config()",
        CLASS, HASHES, COPIES, WEAK, write="Config.rate = VALUE", delete="del Config.rate",
    ),
    _attribute(
        "attribute of a base class",
        "class Base:\n    rate = 0.0\n\nclass Config(Base):\n    pass\n\n"
        "def make(value):\n    Base.rate = value\n    return Config()",
        CLASS, HASHES, COPIES, WEAK, write="Base.rate = VALUE", delete="del Base.rate",
    ),
    _attribute(
        "class attribute hidden by an instance's",
        "class Config:\n    rate = 5.0\n\n"
        "def make(value):\n    made = Config()\n    made.rate = value\n    return made",
        *_OBJECT,
    ),
    _attribute(
        "class", "class Config:\n    rate = 0.0\n\n"
        "def make(value):\n    Config.rate = value\n    return Config", HASHES, WEAK,
    ),
    _attribute(
        "metaclass",
        "class Meta(type):\n    rate = 0.0\n\nclass Config(metaclass=Meta):\n    pass\n\n"
        "def make(value):\n    Meta.rate = value\n    return Config",
        HASHES, WEAK, write="Meta.rate = VALUE", delete="del Meta.rate",
    ),
    _attribute(
        "property of a metaclass",
        "class Meta(type):\n    @property\n    def rate(cls):\n        return cls.hidden\n\n"
        "class Config(metaclass=Meta):\n    hidden = 0.0\n\n"
        "def make(value):\n    Config.hidden = value\n    return Config",
        HASHES, WEAK, write="Config.hidden = VALUE", delete="del Config.hidden",
    ),
    _attribute(
        "module object",
        "def make(value):\n    made = types.ModuleType('settings')\n    made.rate = value\n"
        "    return made",
        STATE, HASHES, WEAK,
    ),
    _attribute(
        "__getattr__ of a module object",
        "HIDDEN = {}\n\ndef make(value):\n    HIDDEN['rate'] = value\n"
        "    made = types.ModuleType('settings')\n"
        "    def lookup(name):\n        if name not in HIDDEN:\n"
        "            raise AttributeError(name)\n        return HIDDEN[name]\n"
        "    made.__getattr__ = lookup\n    return made",
        HASHES, WEAK, write="HIDDEN['rate'] = VALUE", delete="del HIDDEN['rate']",
    ),
    _attribute(
        "threading.local",
        "def make(value):\n    made = threading.local()\n    made.rate = value\n    return made",
        HASHES, WEAK,
    ),
    _attribute(
        "property",
        f"class Config:\n{_UNDER}\n    @property\n    def rate(self):\n"
        f"        return self._rate\n\n{_MAKE}",
        *_HIDDEN, write="c._rate = VALUE", delete="del c._rate",
    ),
    _attribute(
        "property that reads a global",
        "HIDDEN = 0.0\n\nclass Config:\n    @property\n    def rate(self):\n"
        "        try:\n            return HIDDEN\n        except NameError:\n"
        "            raise AttributeError('rate') from None\n\n"
        "def make(value):\n    globals()['HIDDEN'] = value\n    return Config()",
        CLASS, HASHES, COPIES, WEAK,
        write="globals()['HIDDEN'] = VALUE", delete="del globals()['HIDDEN']",
    ),
    _attribute(
        "cached property",
        f"class Config:\n{_UNDER}\n    @functools.cached_property\n    def rate(self):\n"
        f"        return self._rate\n\n{_MAKE}",
        *_HIDDEN, write="c._rate = VALUE\nvars(c).pop('rate', None)",
        delete="del c._rate\nvars(c).pop('rate', None)",
    ),
    _attribute(
        "descriptor with state of its own",
        "class Kept:\n    def __init__(self):\n        self.values = {}\n\n"
        "    def __get__(self, instance, owner=None):\n"
        "        if 'rate' not in self.values:\n            raise AttributeError('rate')\n"
        "        return self.values['rate']\n\n"
        "kept = Kept()\n\nclass Config:\n    rate = kept\n\n"
        "def make(value):\n    kept.values['rate'] = value\n    return Config()",
        CLASS, HASHES, COPIES, WEAK,
        write="kept.values['rate'] = VALUE", delete="del kept.values['rate']",
    ),
    _attribute(
        "descriptor with state in the object",
        "class Kept:\n    def __get__(self, instance, owner=None):\n"
        "        return instance._rate\n\n"
        "    def __set__(self, instance, value):\n        instance._rate = value\n\n"
        "    def __delete__(self, instance):\n        del instance._rate\n\n"
        f"class Config:\n    rate = Kept()\n\n{_INIT}\n{_MAKE}",
        *_HIDDEN,
    ),
    _attribute(
        "__getattr__",
        "class Config:\n    def __init__(self, value):\n        self.hidden = {'rate': value}\n\n"
        "    def __getattr__(self, name):\n        try:\n"
        "            return self.__dict__['hidden'][name]\n"
        "        except KeyError:\n            raise AttributeError(name) from None\n\n"
        f"{_MAKE}",
        *_HIDDEN, write="c.hidden['rate'] = VALUE", delete="del c.hidden['rate']",
    ),
    _attribute(
        "__getattr__ that forwards to another object",
        "class Forward:\n    def __init__(self, inner):\n        self.inner = inner\n\n"
        "    def __getattr__(self, name):\n        return getattr(self.__dict__['inner'], name)\n\n"
        "def make(value):\n    return Forward(SimpleNamespace(rate=value))",
        CLASS, HASHES, WEAK, write="c.inner.rate = VALUE", delete="del c.inner.rate",
    ),
    _attribute(
        "__getattribute__",
        "class Config:\n    def __init__(self, value):\n        self.hidden = value\n\n"
        "    def __getattribute__(self, name):\n"
        "        return object.__getattribute__(self, 'hidden' if name == 'rate' else name)\n\n"
        f"{_MAKE}",
        HASHES, COPIES, WEAK, write="c.hidden = VALUE", delete="del c.hidden",
    ),
    _attribute(
        "weak proxy",
        f"class Config:\n{_INIT}\n"
        "def make(value):\n    alive = globals().setdefault('alive', [])\n"
        "    alive.append(Config(value))\n    return weakref.proxy(alive[-1])",
    ),
    _attribute(
        "attribute of a function",
        "def make(value):\n    def made():\n        pass\n    made.rate = value\n    return made",
        STATE, HASHES, WEAK,
    ),
    _attribute(
        "attribute of a partial function",
        "def make(value):\n    made = functools.partial(print)\n    made.rate = value\n"
        "    return made",
        STATE, HASHES, WEAK,
    ),
    _attribute(
        "exception",
        "def make(value):\n    made = ValueError()\n    made.rate = value\n    return made",
        STATE, COPIES, HASHES,
    ),
    _attribute(
        "object of an abstract class",
        f"class Base(abc.ABC):\n    @abc.abstractmethod\n    def run(self): ...\n\n"
        f"class Config(Base):\n{_INIT}\n    def run(self): ...\n\n{_MAKE}",
        *_OBJECT,
    ),
    _attribute(
        "generic class",
        f"T = typing.TypeVar('T')\n\nclass Config(typing.Generic[T]):\n{_INIT}\n"
        "def make(value):\n    return Config[float](value)",
        *_OBJECT,
    ),
    _attribute(
        "dictionary with attributes",
        "class Config(dict):\n    def __getattr__(self, name):\n        try:\n"
        "            return self[name]\n        except KeyError:\n"
        "            raise AttributeError(name) from None\n\n"
        "def make(value):\n    return Config(rate=value)",
        CLASS, COPIES, WEAK, write="c['rate'] = VALUE", delete="del c['rate']",
    ),
    _attribute(
        "list with an attribute",
        "class Config(list):\n    pass\n\n"
        "def make(value):\n    made = Config()\n    made.rate = value\n    return made",
        STATE, CLASS, COPIES, WEAK,
    ),
    _attribute(
        "uncalled module",
        "def make(value):\n    made = nn.Module()\n    made.rate = value\n    return made",
        STATE, HASHES, WEAK,
    ),
    _attribute(
        "tensor",
        "def make(value):\n    made = flambeau.ones(2)\n    made.rate = value\n    return made",
        HASHES, WEAK,
    ),
)  # fmt: skip


def _item(
    name: str,
    source: str,
    *traits: str,
    write: str = "c['rate'] = VALUE",
    delete: str = "del c['rate']",
) -> Owner:
    return Owner(name, source, frozenset({ITEM, *traits}), write, delete)


ITEMS = (
    _item("dictionary", "def make(value):\n    return {'rate': value}", COPIES),
    _item(
        "ordered dictionary",
        "def make(value):\n    return collections.OrderedDict(rate=value)", COPIES, WEAK,
    ),
    _item(
        "defaultdict",
        "def make(value):\n    return collections.defaultdict(float, rate=value)", COPIES,
    ),
    _item("counter", "def make(value):\n    return collections.Counter(rate=value)", COPIES, WEAK),
    _item(
        "chain map, first",
        "def make(value):\n    return collections.ChainMap({'rate': value}, {})",
        COPIES, WEAK,
    ),
    _item(
        "chain map, behind",
        "def make(value):\n    return collections.ChainMap({}, {'rate': value})",
        COPIES, WEAK, write="c.maps[1]['rate'] = VALUE", delete="del c.maps[1]['rate']",
    ),
    _item(
        "UserDict", "def make(value):\n    return collections.UserDict(rate=value)", COPIES, WEAK,
    ),
    _item(
        "mapping proxy",
        "behind = {}\n\ndef make(value):\n    behind['rate'] = value\n"
        "    return types.MappingProxyType(behind)",
        write="behind['rate'] = VALUE", delete="del behind['rate']",
    ),
    _item(
        "subclass of dict",
        "class Table(dict):\n    pass\n\ndef make(value):\n    return Table(rate=value)",
        CLASS, COPIES, WEAK,
    ),
    _item(
        "subclass of dict with __getitem__",
        "class Table(dict):\n    ready = True\n\n    def __getitem__(self, name):\n"
        "        return super().__getitem__(name) if self.ready else 0.0\n\n"
        "def make(value):\n    return Table(rate=value)",
        COPIES, WEAK,
    ),
    _item(
        "object with __getitem__ and get",
        "class Table:\n    def __init__(self, value):\n        self.hidden = {'rate': value}\n\n"
        "    def __getitem__(self, name):\n        return self.hidden[name]\n\n"
        "    def __setitem__(self, name, value):\n        self.hidden[name] = value\n\n"
        "    def __delitem__(self, name):\n        del self.hidden[name]\n\n"
        "    def get(self, name, default=None):\n        return self.hidden.get(name, default)\n\n"
        "    def keys(self):\n        return self.hidden.keys()\n\n"
        "    def values(self):\n        return self.hidden.values()\n\n"
        "    def items(self):\n        return self.hidden.items()\n\n"
        "    def __iter__(self):\n        return iter(self.hidden)\n\n"
        "    def __contains__(self, name):\n        return name in self.hidden\n\n"
        "    def __len__(self):\n        return len(self.hidden)\n\nmake = Table",
        CLASS, HASHES, WEAK,
    ),
    _item(
        "mapping of collections.abc",
        "import collections.abc\n\nclass Table(collections.abc.MutableMapping):\n"
        "    def __init__(self, value):\n        self.hidden = {'rate': value}\n\n"
        "    def __getitem__(self, name):\n        return self.hidden[name]\n\n"
        "    def __setitem__(self, name, value):\n        self.hidden[name] = value\n\n"
        "    def __delitem__(self, name):\n        del self.hidden[name]\n\n"
        "    def __iter__(self):\n        return iter(self.hidden)\n\n"
        "    def __len__(self):\n        return len(self.hidden)\n\nmake = Table",
        CLASS, WEAK,
    ),
    _item(
        "__dict__ of an object",
        "class Config:\n    pass\n\nalive = []\n\n"
        "def make(value):\n    alive.append(Config())\n    alive[-1].rate = value\n"
        "    return vars(alive[-1])",
        COPIES,
    ),
)  # fmt: skip


def _sequence(
    name: str,
    source: str,
    *traits: str,
    write: str = "c[0] = VALUE",
    delete: str = "c.clear()",
    restore: str = "c.append(VALUE)",
) -> Owner:
    return Owner(name, source, frozenset({SEQUENCE, *traits}), write, delete, restore)


SEQUENCES = (
    _sequence("list", "def make(value):\n    return [value]", COPIES, delete="del c[0]"),
    _sequence("tuple", "def make(value):\n    return (value,)", HASHES, write="c = (VALUE,)",
              delete="c = ()", restore="c = (VALUE,)"),
    _sequence("deque", "def make(value):\n    return collections.deque([value])", COPIES, WEAK),
    _sequence("UserList", "def make(value):\n    return collections.UserList([value])", COPIES,
              WEAK),
    _sequence(
        "subclass of list",
        "class Row(list):\n    pass\n\ndef make(value):\n    return Row([value])",
        CLASS, COPIES, WEAK,
    ),
    _sequence("array of NumPy", "def make(value):\n    return np.array([value])", COPIES, WEAK,
              delete=""),
    _sequence("object array of NumPy", "def make(value):\n"
              "    return np.array([value], dtype=object)", COPIES, WEAK, delete=""),
    _sequence("array.array", "def make(value):\n    return array.array('d', [value])", COPIES,
              WEAK, write="c[0] = float(VALUE)", delete="del c[0]"),
    _sequence(
        "sequence of collections.abc",
        "import collections.abc\n\nclass Row(collections.abc.Sequence):\n"
        "    def __init__(self, value):\n        self.hidden = [value]\n\n"
        "    def __getitem__(self, index):\n        return self.hidden[index]\n\n"
        "    def __len__(self):\n        return len(self.hidden)\n\nmake = Row",
        CLASS, HASHES, WEAK, write="c.hidden[0] = VALUE", delete="c.hidden.clear()",
        restore="c.hidden.append(VALUE)",
    ),
)  # fmt: skip

OWNERS = (*ATTRIBUTES, *ITEMS, *SEQUENCES)
