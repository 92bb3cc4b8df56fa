"""Flags that the function saves, changes and restores, and containers that it fills and empties."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.situations.situation import Situation

_NET = (
    "net = nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity()))\n"
    "w = nn.Parameter(flambeau.tensor([1.0, 1.0]))\nnet[0].w = w\n"
)
# Flags: what stands around, the expression that reads one, the statement that sets it to VALUE, and
# the value inside. Each is true before the change and false after it.
FLAGS = {
    "training": (_NET, "net.training", "net.train(VALUE)"),
    "training of a submodule": (_NET, "net[1].training", "net[1].train(VALUE)"),
    "training, assigned": (_NET, "net.training", "net.training = VALUE"),
    "requires_grad_": (_NET, "w.requires_grad", "w.requires_grad_(VALUE)"),
    "requires_grad": (_NET, "w.requires_grad", "w.requires_grad = VALUE"),
    "requires_grad_ of a module": (_NET, "w.requires_grad", "net.requires_grad_(VALUE)"),
    "attribute": ("box = SimpleNamespace(flag=True)\n", "box.flag", "box.flag = VALUE"),
    "attribute of a module": (f"{_NET}net.flag = True\n", "net.flag", "net.flag = VALUE"),
    "attribute of a class": ("class Box:\n    flag = True\n", "Box.flag", "Box.flag = VALUE"),
    "item": ("box = {'flag': True}\n", "box['flag']", "box['flag'] = VALUE"),
    "attribute of a tensor": (
        "w = flambeau.ones(2)\nw.flag = True\n", "w.flag", "w.flag = VALUE"),
    "gradient mode": ("", "flambeau.is_grad_enabled()", "flambeau.set_grad_enabled(VALUE)"),
}  # fmt: skip
# How the function saves and restores it; READ, SET(...) and USE stand for the flag's.
WAYS = {
    "try and finally": (
        "def f(x):\n    was = READ\n    SET(False)\n    try:\n        y = USE\n    finally:\n"
        "        SET(was)\n    return y"),
    "context manager": (
        "@contextlib.contextmanager\ndef switched():\n    was = READ\n    SET(False)\n    try:\n"
        "        yield was\n    finally:\n        SET(was)\n\n"
        "def f(x):\n    with switched() as was:\n        y = USE\n    return y + was"),
    "opposite": (
        "def f(x):\n    was = READ\n    SET(not was)\n    y = USE\n    SET(was)\n    return y"),
    "used before": (
        "def f(x):\n    y = USE\n    was = READ\n    SET(False)\n    z = USE\n    SET(was)\n"
        "    return y + z"),
    "left false": "def f(x):\n    y = USE\n    SET(False)\n    return y",
    "left as it was not": "def f(x):\n    SET(not READ)\n    return USE",
    "set first": "def f(x):\n    SET(False)\n    y = USE\n    SET(True)\n    return y",
}  # fmt: skip
_LEAVES = ("left false", "left as it was not")

# Containers that are filled, used and emptied: how they are made, filled, used and emptied.
CONTAINERS = {
    "list": ("[]", "box.kept.append(VALUE)", "sum(box.kept)"),
    "deque": ("collections.deque()", "box.kept.append(VALUE)", "sum(box.kept)"),
    "dictionary": ("{}", "box.kept[len(box.kept)] = VALUE", "sum(box.kept.values())"),
    "defaultdict": ("collections.defaultdict(list)", "box.kept['a'].append(VALUE)",
                    "sum(box.kept['a'])"),
    "dictionary of lists": ("{}", "box.kept.setdefault('a', []).append(VALUE)",
                            "sum(sum(each) for each in box.kept.values())"),
    "tuple": ("()", "box.kept = (*box.kept, VALUE)", "sum(box.kept)"),
}  # fmt: skip
EMPTYING = {
    "replaced": "box.kept = MAKE",
    "cleared": "box.kept.clear()",
    "set to None and made again": "box.kept = None\n    box.kept = MAKE",
    "swapped": "old, box.kept = box.kept, MAKE",
    "not emptied in this call": "pass",
}
_HOLDERS = {
    "object": "box = SimpleNamespace(kept=MAKE)\n",
    "module": "box = nn.Identity()\nbox.kept = MAKE\n",
    "module that is called": "box = nn.Identity()\nbox.kept = MAKE\n",
}


def restoring() -> Iterator[Situation]:
    """Every flag with every way to restore it; every container with every way to empty it."""
    for flag, (around, read, write) in FLAGS.items():
        for way, source in WAYS.items():
            use = f"x * (2.0 if {read} else 3.0)"
            if "w" in around and "requires" in flag:
                use = f"(x * w).detach() * (2.0 if (x * w).requires_grad else {3.0})"
            for old, new in (("USE", use), ("READ", read)):
                source = source.replace(old, new)
            source = _with_writes(source, write)
            yield Situation(
                f"{flag} / {way}",
                f"{around}\n{source}",
                write.replace("VALUE", "False"),
                write.replace("VALUE", "True"),
                call=f"(run(x), {read})",
                demand="refused" if way in _LEAVES else "equal",
                matters=False,
                settles=3,
            )
    for container, (make, fill, use) in CONTAINERS.items():
        for how, empty in EMPTYING.items():
            if container == "tuple" and how == "cleared":
                continue
            for holder, around in _HOLDERS.items():
                enter = "    x = box(x)\n" if "called" in holder else ""
                body = (
                    f"{around}\ndef f(x):\n{enter}    {fill.replace('VALUE', 'x')}\n"
                    f"    {fill.replace('VALUE', 'x * 2.0')}\n    total = {use}\n    {empty}\n"
                    "    return total"
                )
                once = fill.replace("VALUE", "flambeau.ones(2)")
                yield Situation(
                    f"{container} in {holder} / {how}",
                    body.replace("MAKE", make),
                    once,
                    once,
                    call="(run(x), float(len(box.kept)))",
                    demand="refused" if how.startswith("not") else "equal",
                    matters=False,
                    settles=3,
                )


def _with_writes(source: str, write: str) -> str:
    """The source with the flag's statement in place of each ``SET(value)``."""
    lines = []
    for line in source.splitlines():
        before, found, after = line.partition("SET(")
        lines.append(before + write.replace("VALUE", after[:-1]) if found else line)
    return "\n".join(lines)
