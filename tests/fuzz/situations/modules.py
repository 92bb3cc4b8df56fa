"""Modules: their members, reached by calling them and in other ways, and changed in every way."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.situations.situation import Situation

_NET = """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.tensor([2.0, 2.0]))
        self.register_buffer("shift", flambeau.tensor([0.0, 0.0]))
        self.rate = 1.0

    def forward(self, x):
        return x * self.weight * self.rate + self.shift

class Other(Inner):
    def forward(self, x):
        return x * 5.0

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.tensor([2.0, 2.0]))
        self.register_buffer("shift", flambeau.tensor([0.0, 0.0]))
        self.sub = Inner()
        self.row = nn.ModuleList([Inner(), Inner()])
        self.chain = nn.Sequential(Inner(), Inner())
        self.table = nn.ModuleDict({"a": Inner()})
        self.numbers = nn.ParameterList([flambeau.tensor([2.0, 2.0])])
        self.named = nn.ParameterDict({"a": flambeau.tensor([2.0, 2.0])})
        self.rate = 1.0
        self.options = {"rate": 1.0}
        self.rates = [1.0]

    def forward(self, x):
        return self.helped(x) * self.rate

    def helped(self, x):
        return x * self.weight + self.shift

net = Net()
"""

# What stands where the code takes a member: an expression for the module.
MEMBERS = {
    "module": "net",
    "submodule": "net.sub",
    "item of ModuleList": "net.row[0]",
    "item of Sequential": "net.chain[0]",
    "item of ModuleDict": "net.table['a']",
}

# How the code comes to a number by way of a module MOD.
REACHES = {
    "called": "MOD(x)",
    "forward called": "MOD.forward(x)",
    "parameter": "x * MOD.weight",
    "parameter, detached": "x * MOD.weight.detach()",
    "parameter's data": "x * MOD.weight.data",
    "buffer": "x + MOD.shift",
    "plain attribute": "x * MOD.rate",
    "plain attribute by getattr": "x * getattr(MOD, 'rate', 7.0)",
    "hasattr": "x * (2.0 if hasattr(MOD, 'extra') else 3.0)",
    "training": "x * (2.0 if MOD.training else 3.0)",
    "requires_grad of a parameter": "x * (2.0 if MOD.weight.requires_grad else 3.0)",
    "dtype of a parameter": "x * (2.0 if MOD.weight.dtype is flambeau.float32 else 3.0)",
    "shape of a parameter": "x * float(MOD.weight.numel())",
    "identity of a parameter": "x * (2.0 if MOD.weight is kept_weight else 3.0)",
    "class": "x * (2.0 if isinstance(MOD, Other) else 3.0)",
    "name of its class": "x * float(len(type(MOD).__name__))",
    "parameters()": "sum(x * p for p in MOD.parameters())",
    "named_parameters()": "sum(x * p for n, p in MOD.named_parameters() if n == 'weight')",
    "names of named_parameters()": "x * float(len([n for n, p in MOD.named_parameters()]))",
    "buffers()": "sum(x + b for b in MOD.buffers())",
    "modules()": "x * float(len(list(MOD.modules())))",
    "attributes of modules()": "x * sum(m.rate for m in MOD.modules() if hasattr(m, 'rate'))",
    "training of modules()": "x * float(sum(m.training for m in MOD.modules()))",
    "state_dict()": "x * MOD.state_dict()['weight']",
    "names of state_dict()": "x * float(len(MOD.state_dict()))",
    "_parameters": "x * MOD._parameters['weight']",
    "vars": "x * vars(MOD)['rate']",
    "get_parameter": "x * MOD.get_parameter('weight')",
    "parameter by getattr": "x * getattr(MOD, f'wei{end}')",
    "given to a helper": "times(MOD, x)",
    "given to map": "list(map(lambda m: m.weight * x, [MOD]))[0]",
    "functional_call": "flambeau.func.functional_call(MOD, {'weight': x}, (x,))",
    "func.grad of a call": "flambeau.func.grad(lambda y: MOD(y).sum())(x)",
}  # fmt: skip

# What is done to the module MOD, and what undoes it.
CHANGES = {
    "parameter replaced": (
        "MOD.weight = nn.Parameter(flambeau.tensor([3.0, 3.0]))",
        "MOD.weight = nn.Parameter(flambeau.tensor([2.0, 2.0]))",
    ),
    "parameter's data replaced": (
        "MOD.weight.data = flambeau.tensor([3.0, 3.0])",
        "MOD.weight.data = flambeau.tensor([2.0, 2.0])",
    ),
    "parameter filled": ("MOD.weight.data.fill_(3.0)", "MOD.weight.data.fill_(2.0)"),
    "parameter of another shape": (
        "MOD.weight.data = flambeau.tensor([3.0])",
        "MOD.weight.data = flambeau.tensor([2.0, 2.0])",
    ),
    "buffer replaced": (
        "MOD.shift = flambeau.tensor([1.0, 1.0])",
        "MOD.shift = flambeau.tensor([0.0, 0.0])",
    ),
    "buffer filled": ("MOD.shift.fill_(1.0)", "MOD.shift.fill_(0.0)"),
    "plain attribute": ("MOD.rate = 3.0", "MOD.rate = 1.0"),
    "plain attribute deleted": ("del MOD.rate", "MOD.rate = 1.0"),
    "plain attribute in __dict__": ("vars(MOD)['rate'] = 3.0", "vars(MOD)['rate'] = 1.0"),
    "object.__setattr__": (
        "object.__setattr__(MOD, 'rate', 3.0)",
        "object.__setattr__(MOD, 'rate', 1.0)",
    ),
    "attribute added": ("MOD.extra = 1.0", "del MOD.extra"),
    "eval": ("MOD.eval()", "MOD.train()"),
    "training of one": ("MOD.training = False", "MOD.training = True"),
    "requires_grad_": ("MOD.requires_grad_(False)", "MOD.requires_grad_(True)"),
    "double": ("MOD.double()", "MOD.float()"),
    "load_state_dict": (
        "MOD.load_state_dict({k: v + 1 for k, v in MOD.state_dict().items()})",
        "MOD.load_state_dict({k: v - 1 for k, v in MOD.state_dict().items()})",
    ),
    "parameter registered": (
        "MOD.register_parameter('extra', nn.Parameter(flambeau.tensor([1.0, 1.0])))",
        "del MOD.extra",
    ),
    "buffer registered": ("MOD.register_buffer('extra', flambeau.zeros(2))", "del MOD.extra"),
    "submodule added": ("MOD.extra = Inner()", "del MOD.extra"),
    "table of parameters written": (
        "MOD._parameters['weight'] = nn.Parameter(flambeau.tensor([3.0, 3.0]))",
        "MOD._parameters['weight'] = kept_weight",
    ),
    "class exchanged": ("MOD.__class__ = Other", "MOD.__class__ = kept_class"),
    "forward of the instance": ("MOD.forward = lambda x: x * 5.0", "del MOD.forward"),
    "forward of the class": (
        "type(MOD).forward = lambda self, x: x * 5.0",
        "type(MOD).forward = kept_forward",
    ),
    "hook": (
        "handle = MOD.register_forward_hook(lambda m, args, out: out * 5.0)", "handle.remove()"
    ),
    "pre hook": (
        "handle = MOD.register_forward_pre_hook(lambda m, args: (args[0] * 5.0,))",
        "handle.remove()",
    ),
    "apply": (
        "MOD.apply(lambda m: setattr(m, 'rate', 3.0))",
        "MOD.apply(lambda m: setattr(m, 'rate', 1.0))",
    ),
    "property put into the class": (
        "type(MOD).rate = property(lambda self: 3.0)", "del type(MOD).rate",
    ),
}  # fmt: skip
_AROUND = """
kept_weight = MOD.weight
kept_class = type(MOD)
kept_forward = type(MOD).forward
handle = None
end = "ght"

def times(module, x):
    return x * module.weight
"""

# Containers of modules: how the code goes through them, and what is done to them.
CONTAINERS = {
    "ModuleList, called": "sum(m(x) for m in net.row)",
    "ModuleList, parameters": "sum(m.weight * x for m in net.row)",
    "ModuleList, attributes": "x * sum(m.rate for m in net.row)",
    "ModuleList, len": "x * float(len(net.row))",
    "ModuleList, last": "x * net.row[-1].weight",
    "ModuleList, slice": "sum(m.weight * x for m in net.row[:1])",
    "ModuleList, enumerate": "sum(m.weight * (x + i) for i, m in enumerate(net.row))",
    "Sequential, called": "net.chain(x)",
    "Sequential, members called": "net.chain[1](net.chain[0](x))",
    "Sequential, parameters": "sum(m.weight * x for m in net.chain)",
    "Sequential, len": "x * float(len(net.chain))",
    "ModuleDict, called": "sum(m(x) for m in net.table.values())",
    "ModuleDict, keys": "x * float(len([*net.table.keys()]))",
    "ModuleDict, in": "x * (2.0 if 'b' in net.table else 3.0)",
    "ModuleDict, items": "sum(m.weight * x for k, m in net.table.items())",
    "ParameterList, sum": "sum(p * x for p in net.numbers)",
    "ParameterList, item": "net.numbers[0] * x",
    "ParameterList, len": "x * float(len(net.numbers))",
    "ParameterDict, item": "net.named['a'] * x",
    "ParameterDict, values": "sum(p * x for p in net.named.values())",
    "ParameterDict, in": "x * (2.0 if 'b' in net.named else 3.0)",
    "children()": "sum(m.weight * x for m in net.chain.children())",
    "named_children()": "x * float(len([n for n, m in net.row.named_children()]))",
    "get_submodule": "net.get_submodule('chain.0').weight * x",
    "_modules": "net.chain._modules['0'].weight * x",
    "options of the net": "x * net.options['rate']",
    "rates of the net": "x * sum(net.rates)",
}
CONTAINER_CHANGES = {
    "append": ("net.row.append(Inner())", "del net.row[-1]"),
    "item replaced": ("net.row[0] = Other()", "net.row[0] = Inner()"),
    "insert": ("net.row.insert(0, Inner())", "del net.row[0]"),
    "attribute of a member": ("net.row[1].rate = 3.0", "net.row[1].rate = 1.0"),
    "parameter of a member": (
        "net.row[1].weight = nn.Parameter(flambeau.tensor([3.0, 3.0]))",
        "net.row[1].weight = nn.Parameter(flambeau.tensor([2.0, 2.0]))",
    ),
    "parameter of the first": (
        "net.row[0].weight = nn.Parameter(flambeau.tensor([3.0, 3.0]))",
        "net.row[0].weight = nn.Parameter(flambeau.tensor([2.0, 2.0]))",
    ),
    "list replaced": ("net.row = nn.ModuleList([Other()])",
                      "net.row = nn.ModuleList([Inner(), Inner()])"),
    "sequence: append": ("net.chain.append(Inner())", "net.chain.pop(-1)"),
    "sequence: item replaced": ("net.chain[0] = Other()", "net.chain[0] = Inner()"),
    "sequence: parameter of a member": (
        "net.chain[0].weight = nn.Parameter(flambeau.tensor([3.0, 3.0]))",
        "net.chain[0].weight = nn.Parameter(flambeau.tensor([2.0, 2.0]))",
    ),
    "sequence: attribute of a member": ("net.chain[0].rate = 3.0", "net.chain[0].rate = 1.0"),
    "sequence replaced": ("net.chain = nn.Sequential(Other(), Inner())",
                          "net.chain = nn.Sequential(Inner(), Inner())"),
    "dictionary: item added": ("net.table['b'] = Inner()", "del net.table['b']"),
    "dictionary: item replaced": ("net.table['a'] = Other()", "net.table['a'] = Inner()"),
    "dictionary: parameter of a member": (
        "net.table['a'].weight = nn.Parameter(flambeau.tensor([3.0, 3.0]))",
        "net.table['a'].weight = nn.Parameter(flambeau.tensor([2.0, 2.0]))",
    ),
    "parameters: append": ("net.numbers.append(flambeau.tensor([3.0, 3.0]))",
                           "net.numbers = nn.ParameterList([flambeau.tensor([2.0, 2.0])])"),
    "parameters: item replaced": ("net.numbers[0] = nn.Parameter(flambeau.tensor([3.0, 3.0]))",
                                  "net.numbers[0] = nn.Parameter(flambeau.tensor([2.0, 2.0]))"),
    "named parameters: item replaced": (
        "net.named['a'] = nn.Parameter(flambeau.tensor([3.0, 3.0]))",
        "net.named['a'] = nn.Parameter(flambeau.tensor([2.0, 2.0]))"),
    "named parameters: item added": (
        "net.named['b'] = nn.Parameter(flambeau.tensor([3.0, 3.0]))", "del net.named['b']"),
    "option": ("net.options['rate'] = 3.0", "net.options['rate'] = 1.0"),
    "rate appended": ("net.rates.append(3.0)", "net.rates.pop()"),
}  # fmt: skip
_FAMILIES = (
    ("ModuleList", ("append", "item replaced", "insert", "attribute", "parameter of", "list")),
    ("Sequential", ("sequence",)),
    ("ModuleDict", ("dictionary",)),
    ("ParameterList", ("parameters",)),
    ("ParameterDict", ("named parameters",)),
)


def modules() -> Iterator[Situation]:
    """Members with every reach and every change; containers; and modules that are compiled."""
    members = [*MEMBERS]
    for i, (reach, value) in enumerate(REACHES.items()):
        for j, (change, (do, back)) in enumerate(CHANGES.items()):
            for member in {members[0]: 1, members[(i + j) % len(members)]: 1}:
                mod = MEMBERS[member]
                yield Situation(
                    f"{member} / {reach} / {change}",
                    f"{_NET}{_AROUND}\ndef f(x):\n    return {value}".replace("MOD", mod),
                    do.replace("MOD", mod),
                    back.replace("MOD", mod),
                    matters=False,
                )
    for reach, value in CONTAINERS.items():
        families = dict(_FAMILIES).get(reach.partition(",")[0])
        for change, (do, back) in CONTAINER_CHANGES.items():
            if families is None or change.startswith(families):
                yield Situation(
                    f"net / {reach} / {change}",
                    f"{_NET}\ndef f(x):\n    return {value}",
                    do,
                    back,
                    matters=False,
                )
    for change, (do, back) in CHANGES.items():
        yield Situation(
            f"compiled module / {change}",
            f"{_NET}{_AROUND}".replace("MOD", "net"),
            do.replace("MOD", "net"),
            back.replace("MOD", "net"),
            target="net",
            matters=False,
        )
        yield Situation(
            f"submodule of a compiled module / {change}",
            f"{_NET}{_AROUND}\nouter = nn.Sequential(net.sub)".replace("MOD", "net.sub"),
            do.replace("MOD", "net.sub"),
            back.replace("MOD", "net.sub"),
            target="outer",
            matters=False,
        )
