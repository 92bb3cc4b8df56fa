"""By what way the code has an object: a global, a closure, an argument, a member of another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Root:
    """A way.

    Attributes:
        name: What it is.
        value: The expression for the object in the code.
        around: Statements after ``c`` has been made and before the function.
        params: The function's parameters besides ``x``.
        target: What is compiled.
        call: How it is called.
        rebind: Statements that put another object, ``c``, there; "" if that cannot be done.
        local: Whether all this is inside a function.
    """

    name: str
    value: str = "c"
    around: str = ""
    params: str = ""
    target: str = "f"
    call: str = "run(x)"
    rebind: str = "pass"
    local: bool = False


def _box(name: str, around: str, value: str, rebind: str, local: bool = False) -> Root:
    return Root(name, value, around, rebind=rebind, local=local)


ROOTS = (
    Root("global"),
    Root("closure", local=True),
    Root("default argument", "obj", params=", obj=c", rebind="f.__defaults__ = (c,)"),
    Root("keyword default", "obj", params=", *, obj=c", rebind="f.__kwdefaults__ = {'obj': c}"),
    Root("partial function", "obj", params=", obj=None", target="functools.partial(f, obj=c)",
         rebind=""),
    Root("argument", "obj", params=", obj", call="run(x, c)"),
    Root("keyword argument", "obj", params=", obj=None", call="run(x, obj=c)"),
    Root("*args", "args[0]", params=", *args", call="run(x, c)"),
    Root("**kwargs", "given['obj']", params=", **given", call="run(x, obj=c)"),
    Root("list among the arguments", "obj[0]", params=", obj", call="run(x, [c])"),
    Root("dictionary among the arguments", "obj['a']", params=", obj", call="run(x, {'a': c})"),
    _box("attribute", "box = SimpleNamespace(o=c)", "box.o", "box.o = c"),
    _box(
        "slot",
        "class Box:\n    __slots__ = ('o',)\n\nbox = Box()\nbox.o = c",
        "box.o",
        "box.o = c",
    ),
    _box("class attribute", "class Box:\n    o = c", "Box.o", "Box.o = c"),
    _box("list", "box = [0, c]", "box[1]", "box[1] = c"),
    _box("loop over a list", "box = [c]", "[o for o in box][0]", "box[0] = c"),
    _box("tuple", "box = (0, c)", "box[1]", "box = (0, c)"),
    _box("dictionary", "box = {'o': c}", "box['o']", "box['o'] = c"),
    _box("values of a dictionary", "box = {'o': c}", "next(iter(box.values()))", "box['o'] = c"),
    _box("deque", "box = collections.deque([c])", "box[0]", "box[0] = c"),
    _box("UserDict", "box = collections.UserDict(o=c)", "box['o']", "box['o'] = c"),
    _box("UserList", "box = collections.UserList([c])", "box[0]", "box[0] = c"),
    _box("ChainMap", "box = collections.ChainMap({}, {'o': c})", "box['o']", "box['o'] = c"),
    _box(
        "object array",
        "box = np.empty(1, dtype=object)\nbox[0] = c",
        "box[0]",
        "box[0] = c",
    ),
    _box("module object", "box = types.ModuleType('box')\nbox.o = c", "box.o", "box.o = c"),
    _box("uncalled module", "box = nn.Module()\nbox.o = c", "box.o", "box.o = c"),
    _box("nested attributes", "box = SimpleNamespace(a=SimpleNamespace(o=c))", "box.a.o",
         "box.a.o = c"),
    _box("list of dictionaries", "box = [{'o': c}]", "box[0]['o']", "box[0]['o'] = c"),
    _box("helper's result", "def get():\n    return c", "get()", "pass"),
    _box("helper's result, from a list", "box = [c]\n\ndef get():\n    return box[0]", "get()",
         "box[0] = c"),
    _box("result of a cached function", "@functools.cache\ndef get():\n    return c", "get()",
         "get.cache_clear()"),
    _box("result of a cached method", "class Box:\n    @functools.lru_cache\n"
         "    def get(self, key):\n        return c\n\nbox = Box()", "box.get(1)",
         "Box.get.cache_clear()"),
    _box("result of a partial function", "def same(o):\n    return o\n\n"
         "get = functools.partial(same, c)", "get()", "get = functools.partial(same, c)"),
    _box("method's self", "class Box:\n    def __init__(self, o):\n        self.o = o\n\n"
         "    def get(self):\n        return self.o\n\nbox = Box(c)", "box.get()", "box.o = c"),
    _box("bound method", "class Box:\n    def __init__(self, o):\n        self.o = o\n\n"
         "    def get(self):\n        return self.o\n\nbox = Box(c)\nget = box.get", "get()",
         "box.o = c"),
    _box("property", "class Box:\n    def __init__(self, o):\n        self._o = o\n\n"
         "    @property\n    def o(self):\n        return self._o\n\nbox = Box(c)", "box.o",
         "box._o = c"),
    _box("context variable", "box = contextvars.ContextVar('box')\nbox.set(c)", "box.get()",
         "box.set(c)"),
    _box("threading.local", "box = threading.local()\nbox.o = c", "box.o", "box.o = c"),
    _box("__call__", "class Box:\n    def __call__(self):\n        return self.o\n\n"
         "box = Box()\nbox.o = c", "box()", "box.o = c"),
    _box("__getitem__", "class Box:\n    def __getitem__(self, name):\n        return self.o\n\n"
         "box = Box()\nbox.o = c", "box[0]", "box.o = c"),
    _box("__class_getitem__", "class Box:\n    def __class_getitem__(cls, name):\n"
         "        return cls.o\n\nBox.o = c", "Box[0]", "Box.o = c"),
    _box("__enter__", "class Box:\n    def __enter__(self):\n        return self.o\n\n"
         "    def __exit__(self, *args):\n        pass\n\nbox = Box()\nbox.o = c",
         "box.__enter__()", "box.o = c"),
    _box("globals()", "", "globals()['c']", "pass"),
    _box("import in the function", "sys.modules['situation'].o = c",
         "__import__('situation').o", "sys.modules['situation'].o = c"),
    _box("linked list", "box = SimpleNamespace(next=SimpleNamespace(next=SimpleNamespace(o=c)))",
         "box.next.next.o", "box.next.next.o = c"),
    _box("70th of a list", "box = [None] * 69 + [c]", "box[-1]", "box[-1] = c"),
    _box("nested closure", "def outer(o):\n    def put(other):\n        nonlocal o\n"
         "        o = other\n    return (lambda: o), put\n\nget, put = outer(c)", "get()",
         "put(c)"),
)  # fmt: skip

WEAK_ROOTS = (
    _box("weakref.ref", "box = weakref.ref(c)", "box()", "box = weakref.ref(c)"),
    _box("WeakValueDictionary", "box = weakref.WeakValueDictionary(o=c)", "box['o']",
         "box['o'] = c"),
    _box("WeakSet", "box = weakref.WeakSet([c])", "next(iter(box))",
         "box.clear()\nbox.add(c)"),
    _box("WeakKeyDictionary", "box = weakref.WeakKeyDictionary({c: 1})", "next(iter(box))",
         "box.clear()\nbox[c] = 1"),
)  # fmt: skip
HASH_ROOTS = (
    _box("set", "box = {c}", "next(iter(box))", "box.clear()\nbox.add(c)"),
    _box("frozenset", "box = frozenset([c])", "next(iter(box))", "box = frozenset([c])"),
    _box("keys of a dictionary", "box = {c: 1}", "next(iter(box))", "box.clear()\nbox[c] = 1"),
)
