"""Hooks and what they read; optimizers, their groups and their state; schedulers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.situations.situation import Situation

# Where hooks are registered: an expression that gives a handle, the hook's parameters, and what it
# returns for the factor RATE.
HOOKS = {
    "forward hook": ("net.register_forward_hook(HOOK)", "m, args, out", "out * RATE"),
    "forward hook of a submodule": ("net[0].register_forward_hook(HOOK)", "m, args, out",
                                    "out * RATE"),
    "forward pre hook": ("net.register_forward_pre_hook(HOOK)", "m, args", "(args[0] * RATE,)"),
    "global forward hook": (
        "nn.modules.module.register_module_forward_hook(HOOK)", "m, args, out",
        "out * RATE if m is net else None"),
    "full backward hook": ("net.register_full_backward_hook(HOOK)", "m, due, grads",
                           "(due[0] * RATE,)"),
    "full backward pre hook": ("net.register_full_backward_pre_hook(HOOK)", "m, grads",
                               "(grads[0] * RATE,)"),
    "hook of a tensor": ("w.register_hook(HOOK)", "grad", "grad * RATE"),
    "hook after accumulation": ("w.register_post_accumulate_grad_hook(HOOK)", "t",
                                "(t.grad.mul_(RATE), None)[1]"),
    "optimizer's step pre hook": ("opt.register_step_pre_hook(HOOK)", "o, args, given",
                                  "(w.grad.mul_(RATE), None)[1]"),
    "optimizer's step post hook": ("opt.register_step_post_hook(HOOK)", "o, args, given",
                                   "(w.data.mul_(RATE), None)[1]"),
}  # fmt: skip

# What the hook reads: its source (HOOK's body stands in PARAMS and RESULT), and the changes.
READS = {
    "global": ("r = 2.0\n\ndef hook(PARAMS):\n    return RESULT", "r", "r = 3.0", "r = 2.0"),
    "attribute of an object": (
        "c = SimpleNamespace(r=2.0)\n\ndef hook(PARAMS):\n    return RESULT", "c.r", "c.r = 3.0",
        "c.r = 2.0"),
    "item of a dictionary": (
        "c = {'r': 2.0}\n\ndef hook(PARAMS):\n    return RESULT", "c['r']", "c['r'] = 3.0",
        "c['r'] = 2.0"),
    "closure": (
        ("def make(r):\n    def put(v):\n        nonlocal r\n        r = v\n"
        "    def hook(PARAMS):\n        return RESULT\n    return hook, put\n\n"
        "hook, put = make(2.0)"), "r", "put(3.0)", "put(2.0)"),
    "default": ("def hook(PARAMS, r=2.0):\n    return RESULT", "r", "hook.__defaults__ = (3.0,)",
                "hook.__defaults__ = (2.0,)"),
    "bound method": (
        ("class Holder:\n    def hook(self, PARAMS):\n        return RESULT\n\n"
        "holder = Holder()\nholder.r = 2.0\nhook = holder.hook"), "self.r", "holder.r = 3.0",
        "holder.r = 2.0"),
    "callable object": (
        ("class Holder:\n    def __call__(self, PARAMS):\n        return RESULT\n\n"
        "hook = Holder()\nhook.r = 2.0"), "self.r", "hook.r = 3.0", "hook.r = 2.0"),
    "partial function": (
        ("def inner(c, PARAMS):\n    return RESULT\n\nc = SimpleNamespace(r=2.0)\n"
        "hook = functools.partial(inner, c)"), "c.r", "c.r = 3.0", "c.r = 2.0"),
    "helper": ("r = 2.0\n\ndef rate():\n    return r\n\ndef hook(PARAMS):\n    return RESULT",
               "rate()", "r = 3.0", "r = 2.0"),
    "getattr of a computed name": (
        "c = SimpleNamespace(r1=2.0)\n\ndef hook(PARAMS):\n    return RESULT",
        "getattr(c, f'r{1}')", "c.r1 = 3.0", "c.r1 = 2.0"),
    "code": (("def hook(PARAMS):\n    return RESULT\n\ndef third(PARAMS):\n    return OTHER\n\n"
             "kept = hook.__code__"), "2.0",
             "hook.__code__ = third.__code__", "hook.__code__ = kept"),
}  # fmt: skip
_STEP = """
net = nn.Sequential(nn.Identity(), nn.Identity())
w = nn.Parameter(flambeau.tensor([1.0, 1.0]))
opt = flambeau.optim.SGD([w], lr=0.5)

def f(x):
    y = x.detach().clone().requires_grad_()
    out = net(y * w)
    out.sum().backward()
    opt.step()
    opt.zero_grad()
    return out.detach(), y.grad
"""
_CALL = "(run(x), w.detach().clone())"


def hooks() -> Iterator[Situation]:
    """Every hook with everything that it may read; and hooks that come, go and change."""
    for name, (register, params, result) in HOOKS.items():
        for read, (source, value, do, back) in READS.items():
            source = source.replace("RESULT", result.replace("RATE", value))
            source = source.replace("OTHER", result.replace("RATE", "3.0"))
            yield _hook(
                f"{name} / {read}",
                source.replace("PARAMS", params),
                f"handle = {register.replace('HOOK', 'hook')}",
                do,
                back,
            )
        both = "\n".join(
            f"def {each}({params}):\n    return {result.replace('RATE', rate)}\n"
            for each, rate in (("hook", "2.0"), ("third", "3.0"))
        )
        first = f"handle = {register.replace('HOOK', 'hook')}"
        other = f"handle = {register.replace('HOOK', 'third')}"
        rows = {
            "registered": ("handle = None", first, "handle.remove()"),
            "removed": (first, "handle.remove()", first),
            "another one": (first, f"handle.remove()\n{other}", f"handle.remove()\n{first}"),
            "a second one": (first, f"more{other.removeprefix('handle')}", "more.remove()"),
        }
        for change, (at_first, do, back) in rows.items():
            yield _hook(f"{name} / {change}", f"{both}\nmore = None", at_first, do, back)


def _hook(name: str, source: str, register: str, do: str, back: str) -> Situation:
    clean = "def clean():\n    if handle is not None:\n        handle.remove()"
    world = f"{_STEP}\n{source}\n\n{register}\n\n{clean}"
    return Situation(name, world, do, back, call=_CALL, settles=2)


OPTIMIZERS = {
    "SGD": "flambeau.optim.SGD([w], lr=0.5, momentum=0.5)",
    "Adam": "flambeau.optim.Adam([w], lr=0.5)",
}
GROUP_CHANGES = {
    "lr": ("opt.param_groups[0]['lr'] = 0.25", "opt.param_groups[0]['lr'] = 0.5"),
    "lr as an int": ("opt.param_groups[0]['lr'] = 1", "opt.param_groups[0]['lr'] = 0.5"),
    "weight_decay": ("opt.param_groups[0]['weight_decay'] = 0.5",
                     "opt.param_groups[0]['weight_decay'] = 0.0"),
    "maximize": ("opt.param_groups[0]['maximize'] = True",
                 "opt.param_groups[0]['maximize'] = False"),
    "add_param_group": ("opt.add_param_group({'params': [v], 'lr': 0.25})",
                        "opt.param_groups.pop()"),
    "params of a group": ("opt.param_groups[0]['params'] = [v]",
                          "opt.param_groups[0]['params'] = [w]"),
    "params appended": ("opt.param_groups[0]['params'].append(v)",
                        "opt.param_groups[0]['params'].pop()"),
    "group replaced": ("opt.param_groups[0] = {**opt.param_groups[0], 'lr': 0.25}",
                       "opt.param_groups[0] = {**opt.param_groups[0], 'lr': 0.5}"),
    "key of a group added": ("opt.param_groups[0]['name'] = 3.0",
                             "del opt.param_groups[0]['name']"),
    "state cleared": ("opt.state.clear()", "pass"),
    "state of a parameter deleted": ("del opt.state[w]", "pass"),
    "load_state_dict": (("kept = copy.deepcopy(opt.state_dict())\n"
                        "opt.load_state_dict({**kept, 'state': {}})"),
                        "opt.load_state_dict(kept)"),
    "scheduler stepped": ("sched.step()", "sched.step()"),
    "requires_grad_": ("v.requires_grad_(False)", "v.requires_grad_(True)"),
    "parameter filled": ("w.data.fill_(3.0)", "w.data.fill_(1.0)"),
    "gradient set": ("v.grad = flambeau.tensor([1.0, 1.0])", "v.grad = None"),
    "step patched on the instance": ("opt.step = lambda: None", "del opt.step"),
    "step patched on the class": ("kept = type(opt).step\ntype(opt).step = lambda self: None",
                                  "type(opt).step = kept"),
    "defaults": ("opt.defaults['lr'] = 0.25", "opt.defaults['lr'] = 0.5"),
}  # fmt: skip
GROUP_READS = {
    "nothing": "1.0",
    "lr": "opt.param_groups[0]['lr']",
    "number of groups": "float(len(opt.param_groups))",
    "lr of a loop over groups": "sum(g['lr'] for g in opt.param_groups)",
    "get of a key": "opt.param_groups[0].get('name', 2.0)",
    "number of params": "float(len(opt.param_groups[0]['params']))",
    "params": "sum(p.detach().sum() for p in opt.param_groups[0]['params'])",
    "state": "float(len(opt.state))",
    "state in": "(2.0 if w in opt.state else 3.0)",
    "keys of a state": "float(len(opt.state.get(w, {})))",
    "last lr of the scheduler": "sched.get_last_lr()[0]",
    "last epoch of the scheduler": "float(sched.last_epoch)",
    "defaults": "opt.defaults['lr']",
    "grad": "(2.0 if v.grad is None else 3.0)",
    "requires_grad": "(2.0 if v.requires_grad else 3.0)",
    "keys of state_dict": "float(len(opt.state_dict()['param_groups']))",
}
# What each change of a group can change of what is read, besides the step itself.
_SEEN_BY = {
    "lr": ("lr", "lr of a loop over groups", "last lr of the scheduler"),
    "add_param_group": ("number of groups", "lr of a loop over groups", "keys of state_dict"),
    "params of a group": ("params",),
    "params appended": ("number of params", "params"),
    "key of a group added": ("get of a key",),
    "group replaced": ("lr",),
    "state cleared": ("state", "state in", "keys of a state"),
    "state of a parameter deleted": ("state", "state in"),
    "load_state_dict": ("state in", "keys of a state"),
    "scheduler stepped": ("last lr of the scheduler", "last epoch of the scheduler", "lr"),
    "requires_grad_": ("requires_grad",),
    "gradient set": ("grad",),
    "defaults": ("defaults",),
    "parameter filled": ("params",),
}


def optimizers() -> Iterator[Situation]:
    """Every change of an optimizer, seen by its step and by what the code reads of it."""
    for kind, made in OPTIMIZERS.items():
        for change, (do, back) in GROUP_CHANGES.items():
            for read in ("nothing", *_SEEN_BY.get(change, ())):
                yield Situation(
                    f"{kind} / {read} / {change}",
                    _optimizing(made, GROUP_READS[read], steps=True),
                    do,
                    back,
                    call="(run(x), w.detach().clone(), v.detach().clone())",
                    settles=2,
                    matters=False,
                )
    for read, value in GROUP_READS.items():
        for change, (do, back) in GROUP_CHANGES.items():
            if read in _SEEN_BY.get(change, ()) and "del opt" not in do:
                yield Situation(
                    f"optimizer that does not step / {read} / {change}",
                    _optimizing(OPTIMIZERS["SGD"], value, steps=False),
                    do,
                    back,
                    matters=False,
                )


def _optimizing(made: str, value: str, steps: bool) -> str:
    step = "    (x * w + x * v).sum().backward()\n    opt.step()\n    opt.zero_grad()\n"
    return (
        "w = nn.Parameter(flambeau.tensor([1.0, 1.0]))\n"
        "v = nn.Parameter(flambeau.tensor([1.0, 1.0]))\nkept = None\n"
        f"opt = {made}\nsched = flambeau.optim.lr_scheduler.StepLR(opt, 1, 0.5)\n\n"
        f"def f(x):\n{step if steps else ''}    return x.detach() * {value}"
    )
