"""Functions that run once and keep their results; optimizers that a step makes for itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.fuzz.situations.situation import Situation

_FILLING = "def fill(key):\nBODY\n\n"
# Caches of a function of a key: the source, with BODY for the function's body; the expression of
# its result; and the statement that empties it.
CACHES = {
    "functools.cache": ("@functools.cache\ndef get(key):\nBODY", "get(1)", "get.cache_clear()"),
    "lru_cache": ("@functools.lru_cache\ndef get(key):\nBODY", "get(1)", "get.cache_clear()"),
    "lru_cache of one": (
        "@functools.lru_cache(maxsize=1)\ndef get(key):\nBODY", "get(key=1)", "get.cache_clear()"),
    "lru_cache in a closure": (
        (f"{_FILLING}def wrapped():\n    kept = functools.lru_cache(fill)\n"
        "    return (lambda key: kept(key)), kept.cache_clear\n\nget, clear = wrapped()"),
        "get(1)", "clear()"),
    "lru_cache of a method": (
        (f"{_FILLING}class Holder:\n    @functools.lru_cache\n    def get(self, key):\n"
        "        return fill(key)\n\nholder = Holder()"), "holder.get(1)",
        "Holder.get.cache_clear()"),
    "cached_property": (
        (f"{_FILLING}class Holder:\n    @functools.cached_property\n    def kept(self):\n"
        "        return fill(1)\n\nholder = Holder()"), "holder.kept",
        "vars(holder).pop('kept', None)"),
    "cached_property of a module": (
        (f"{_FILLING}class Holder(nn.Module):\n    @functools.cached_property\n"
        "    def kept(self):\n        return fill(1)\n\n"
        "    def forward(self):\n        return self.kept\n\nholder = Holder()"), "holder()",
        "vars(holder).pop('kept', None)"),
    "dictionary": (
        (f"{_FILLING}kept = {{}}\n\ndef get(key):\n    if key not in kept:\n"
        "        kept[key] = fill(key)\n    return kept[key]"), "get(1)", "kept.clear()"),
    "attribute of a function": (
        (f"{_FILLING}def get(key):\n    if get.kept is None:\n        get.kept = fill(key)\n"
        "    return get.kept\n\nget.kept = None"), "get(1)", "get.kept = None"),
}  # fmt: skip
# What the function keeps: its body, and the expression of a tensor or number in its result.
RESULTS = {
    "constant": ("return flambeau.full((2,), 2.0)", "R"),
    "mask built in place": ("m = flambeau.ones(2)\nm[1:] = 2.0\nreturn m", "R"),
    "product of a weight": ("return w * 2", "R"),
    "number": ("return 2.0", "R"),
    "number of an object": ("return box.rate", "R"),
    "tuple": ("return flambeau.ones(2), {'a': w * 2}", "(R[0] + R[1]['a'])"),
    "list": ("return [flambeau.ones(2)]", "R[0]"),
    "object": ("return SimpleNamespace(t=flambeau.full((2,), 2.0))", "R.t"),
    "number that it counts": ("seen.append(key)\nreturn 2.0", "R"),
    "tensor that it counts": ("seen.append(key)\nreturn flambeau.ones(2) * 2", "R"),
    "what it sets in a weight": ("w.fill_(5.0)\nreturn 2.0", "R"),
    "what it adds to a global": ("global total\ntotal += 1\nreturn 2.0", "R"),
}
_TENSORS = ("constant", "mask built in place", "product of a weight", "list", "object")
# How the function uses it.
USES = {
    "read": "return x * USE",
    "read twice": "y = x * USE\n    return y + USE",
    "written": "USE.add_(1.0)\n    return x * USE",
    "read after a choice": "y = x * 2 if x.sum() < 100 else x\n    return y * USE",
}
# What changes between calls; EMPTY empties the cache, and USE is the tensor in it.
CHANGES = {
    "emptied": ("EMPTY", "EMPTY"),
    "weight": ("w.add_(1.0)", "w.sub_(1.0)"),
    "weight, emptied": ("w.add_(1.0)\nEMPTY", "w.sub_(1.0)\nEMPTY"),
    "number, emptied": ("box.rate = 3.0\nEMPTY", "box.rate = 2.0"),
    "number": ("box.rate = 3.0", "box.rate = 2.0\nEMPTY"),
    "result written": ("USE.add_(1.0)", "USE.sub_(1.0)"),
}
_AROUND = "w = flambeau.ones(2)\nbox = SimpleNamespace(rate=2.0)\nseen = []\ntotal = 0\n\n"


def caching() -> Iterator[Situation]:
    """Every cache with every result, used and changed in several ways, empty or filled before."""
    for i, (cache, result) in enumerate(product(CACHES, RESULTS)):
        uses = [each for each in USES if each != "written" or result in _TENSORS]
        changes = [each for each in CHANGES if each != "result written" or result in _TENSORS]
        for j, use in enumerate(uses):
            for k in (i + j, i + 2 * j + 3):
                change, is_filled = changes[k % len(changes)], (i + j + k) % 3 == 0
                yield _caching(cache, result, use, change, is_filled)


def _caching(cache: str, result: str, use: str, change: str, is_filled: bool) -> Situation:
    (source, get, empty), (body, part) = CACHES[cache], RESULTS[result]
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    value = part.replace("R", get) if part == "R" else part.replace("R", f"{get}", 1)
    value = value.replace("R[1]", f"{get}[1]")
    first = f"{get}\n" if is_filled else ""
    do, back = (each.replace("EMPTY", empty).replace("USE", value) for each in CHANGES[change])
    lists = cache == "dictionary" or "list" in result
    return Situation(
        f"{cache}{', filled before' if is_filled else ''} / {result} / {use} / {change}",
        f"{_AROUND}{source.replace('BODY', lines)}\n\n{first}def f(x):\n"
        f"    {USES[use].replace('USE', value)}",
        do,
        back,
        call="(run(x), w.clone(), len(seen), total)",
        demand="refused" if "choice" in use or lists else "equal",
        matters=False,
        settles=2,
    )  # fmt: skip


# Optimizers that the step makes: statements before it, those that make `opt`, and changes.
MAKERS = {
    "SGD": ("", "opt = flambeau.optim.SGD([w], lr=box.rate, momentum=0.5)"),
    "Adam": ("", "opt = flambeau.optim.Adam([w, v], lr=box.rate)"),
    "by a helper": (
        "def optimizer(lr, **given):\n    return flambeau.optim.SGD([w], lr=lr, **given)",
        "opt = optimizer(box.rate, momentum=0.5)"),
    "of the parameters that train": (
        "", "opt = flambeau.optim.Adagrad([p for p in (w, v) if p.requires_grad], lr=box.rate)"),
    "in an object": (
        ("class Trainer:\n    def __init__(self, lr):\n"
         "        self.opt = flambeau.optim.Adam([w], lr=lr)"),
        "opt = Trainer(box.rate).opt"),
    "with a scheduler": (
        "", ("opt = flambeau.optim.SGD([w], lr=box.rate)\n"
             "    sched = flambeau.optim.lr_scheduler.StepLR(opt, 1, 0.5)")),
    "at the first step": (
        "box.opt = None", ("if box.opt is None:\n        box.opt = flambeau.optim.Adam([w], lr=1.0)"
                           "\n    opt = box.opt")),
    "in a cache": (
        "@functools.cache\ndef get():\n    return flambeau.optim.Adam([w], lr=0.5)",
        "opt = get()"),
}  # fmt: skip
OPTIMIZER_CHANGES = {
    "rate": ("box.rate = 0.25", "box.rate = 0.5"),
    "weight filled": ("w.data.fill_(3.0)", "w.data.fill_(1.0)"),
    "weight replaced": (
        "w = nn.Parameter(flambeau.tensor([2.0, 2.0]))", "w = nn.Parameter(flambeau.ones(2))"),
    "requires_grad_": ("v.requires_grad_(False)", "v.requires_grad_(True)"),
    "gradient left": ("w.grad = flambeau.ones(2)", "w.grad = None"),
    "hook of the weight": (
        "handle = w.register_hook(lambda grad: grad * 2)", "handle.remove()"),
}  # fmt: skip


def optimizers_made_inside() -> Iterator[Situation]:
    """Every way of making one with every change, for one step and for several."""
    for i, (maker, change) in enumerate(product(MAKERS, OPTIMIZER_CHANGES)):
        before, made = MAKERS[maker]
        steps = 1 + i % 2
        world = (
            "w = nn.Parameter(flambeau.ones(2))\nv = nn.Parameter(flambeau.ones(2))\n"
            f"box = SimpleNamespace(rate=0.5)\nhandle = None\n{before}\n\ndef f(x):\n    {made}\n"
            f"    for _ in range({steps}):\n        loss = (x * w + x * v).sum()\n"
            "        opt.zero_grad()\n        loss.backward()\n        opt.step()\n"
            "    v.grad = None\n    return loss.detach()"
        )
        yield Situation(
            f"optimizer made {maker} / {steps} steps / {change}", world, *OPTIMIZER_CHANGES[change],
            call="[each.detach().round(decimals=2) for each in (run(x), w, v)]", matters=False,
            settles=2,
        )  # fmt: skip
