"""A model changed while it learns: hooks that see features, a new head, frozen and pruned parts."""

from importlib import import_module


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional
    prune = import_module(f"{lib.__name__}.nn.utils.prune")
    parametrize = nn.utils.parametrize

    class LowRank(nn.Module):
        def __init__(self, rows, columns):
            super().__init__()
            self.left = nn.Parameter(lib.zeros(rows, 1))
            self.right = nn.Parameter(lib.randn(1, columns))
            self.scale = 2.0

        def forward(self, weight):
            return weight + self.scale * self.left @ self.right

    lib.manual_seed(10)
    teacher = (
        nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 4)).eval().requires_grad_(False)
    )
    student = nn.Sequential(nn.Linear(5, 6), nn.Hardswish(), nn.Linear(6, 9))
    student[2] = nn.Linear(student[2].in_features, 4)
    student.add_module("scale", nn.Softmax(dim=1))
    bridge = nn.LazyLinear(8)
    bridge(lib.zeros(1, 6))
    features = {}
    handles = [
        model[1].register_forward_hook(
            lambda module, args, output, name=name: features.update({name: output})
        )
        for name, model in (("teacher", teacher), ("student", student))
    ]
    parametrize.register_parametrization(student[2], "weight", LowRank(4, 6))
    student[2].parametrizations.weight.original.requires_grad = False
    prune.l1_unstructured(student[0], "weight", amount=0.4)
    wanted = [each for each in [*student.parameters(), *bridge.parameters()] if each.requires_grad]
    optimizer = lib.optim.RAdam(wanted, lr=0.05)

    def step(x):
        with lib.no_grad():
            soft = F.softmax(teacher(x) / 2, dim=1)
        loss = F.kl_div(student(x).log(), soft, reduction="batchmean")
        if features:
            loss = loss + F.mse_loss(bridge(features["student"]), features["teacher"])
            features.clear()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step, seen = compiled(step), []
    for number in range(6):
        if number == 2:
            while handles:
                handles.pop().remove()
        if number == 3:
            prune.random_unstructured(student[0], "bias", amount=2)
        if number == 4:
            student[2].parametrizations.weight[0].scale = 0.5
        seen.append(step(lib.randn(4, 5)))
    prune.remove(student[0], "weight")
    parametrize.remove_parametrizations(student[2], "weight")
    renamed = {name.replace("0.", "stem."): each for name, each in student.state_dict().items()}
    found = nn.Sequential(nn.Linear(5, 6)).load_state_dict(renamed, strict=False)
    zeros = (student[0].weight == 0).sum()
    return [*seen, zeros, student[2].weight.sum(), *map(len, found), len([*student.modules()])]
