"""What the documentation says cannot be followed, of which a warning must tell at the trace.

And classes of tensors, of which it says that they are followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.situations.situation import Situation

_BOX = "class Box:\n    rate = 2.0\n\nbox = Box()\n\n"
#: What stands around, the value in the function, and the changes.
WARNED = {
    "object beyond thousands in a list": (
        "row = [SimpleNamespace(rate=2.0) for _ in range(5000)]", "row[-1].rate",
        "row[-1].rate = 3.0", "row[-1].rate = 2.0"),
    "object beyond thousands in a dictionary": (
        "row = {n: SimpleNamespace(rate=2.0) for n in range(5000)}", "row[4999].rate",
        "row[4999].rate = 3.0", "row[4999].rate = 2.0"),
}  # fmt: skip
_SUB = (
    "class Sub(flambeau.Tensor):\n    rate = 2.0\n\n"
    "    def get(self):\n        return self.rate\n\n"
    "w = flambeau.ones(2).as_subclass(Sub)\n\n"
)
#: The same for what must be equal.
FOLLOWED = {
    "result of a function, cached before": (
        f"{_BOX}@functools.lru_cache\ndef get():\n    return box.rate\n\nget()", "get()",
        "box.rate = 3.0\nget.cache_clear()", "box.rate = 2.0\nget.cache_clear()"),
    "result of a method, cached before": (
        ("class Box:\n    rate = 2.0\n\n    @functools.lru_cache\n    def get(self):\n"
        "        return self.rate\n\nbox = Box()\nbox.get()"), "box.get()",
        "box.rate = 3.0\nBox.get.cache_clear()", "box.rate = 2.0\nBox.get.cache_clear()"),
    "method of Tensor": ("kept = flambeau.Tensor.abs", "x.abs()",
                         "flambeau.Tensor.abs = lambda self: self * 3.0",
                         "flambeau.Tensor.abs = kept"),
    "operator of Tensor": ("kept = flambeau.Tensor.__sub__", "(x - 1.0)",
                           "flambeau.Tensor.__sub__ = lambda self, other: self * 3.0",
                           "flambeau.Tensor.__sub__ = kept"),
    "new method of Tensor": ("", "(x.third() if hasattr(x, 'third') else 2.0)",
                             "flambeau.Tensor.third = lambda self: self * 3.0",
                             "del flambeau.Tensor.third"),
    "class attribute of a subclass of Tensor": (_SUB, "w.rate", "Sub.rate = 3.0", "Sub.rate = 2.0"),
    "method of a subclass of Tensor": (f"{_SUB}kept = Sub.get", "w.get()",
                                       "Sub.get = lambda self: 3.0", "Sub.get = kept"),
}  # fmt: skip
_HOLDERS = {
    "direct": "def f(x):\n    return x * VALUE",
    "helper": "def get_it(x):\n    return VALUE\n\ndef f(x):\n    return x * get_it(x)",
    "forward": "class Net(nn.Module):\n    def forward(self, x):\n        return x * VALUE\n\n"
    "net = Net()\n\ndef f(x):\n    return net(x)",
}


def documented() -> Iterator[Situation]:
    """Every one of them, in several kinds of function."""
    for table, demand in ((WARNED, "warning"), (FOLLOWED, "equal")):
        for name, (around, value, do, back) in table.items():
            for holder, source in _HOLDERS.items():
                world = f"{around}\n\n{source.replace('VALUE', value)}"
                yield Situation(f"{name} / {holder}", world, do, back, demand=demand)
