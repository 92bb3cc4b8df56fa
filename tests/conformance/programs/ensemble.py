"""Several models at once by vmap, gradients of single samples, and an optimizer of one's own."""

import copy


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional
    call, vmap, grad = lib.func.functional_call, lib.func.vmap, lib.func.grad

    class Lion(lib.optim.Optimizer):
        def __init__(self, params, lr=1e-2, decay=0.1):
            super().__init__(params, {"lr": lr, "decay": decay})

        @lib.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    state = self.state[parameter]
                    if len(state) == 0:
                        state["mean"] = lib.zeros_like(parameter)
                    parameter.mul_(1 - group["lr"] * group["decay"])
                    update = state["mean"].clone().mul_(0.9).add(parameter.grad, alpha=0.1)
                    parameter.add_(lib.sign(update), alpha=-group["lr"])
                    state["mean"].mul_(0.99).add_(parameter.grad, alpha=0.01)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.output = nn.Linear(4, 6), nn.Linear(6, 3)
            self.register_buffer("scale", lib.tensor(2.0))

        def forward(self, x):
            return self.output(F.relu(self.hidden(x.flatten(1)))) * self.scale

    lib.manual_seed(11)
    models = [Net() for _ in range(3)]
    params, buffers = lib.func.stack_module_state(models)
    skeleton = copy.deepcopy(models[0]).to("meta")
    every = vmap(lambda p, b, x: call(skeleton, (p, b), (x,)), in_dims=(0, 0, None))
    optimizer = Lion(params.values())

    def step(x, target):
        optimizer.zero_grad()
        scores = every(params, buffers, x)
        loss = F.cross_entropy(scores.flatten(0, 1), target.repeat(3), reduction="sum") / 5
        loss.backward()
        optimizer.step()
        return loss

    step = compiled(step)
    seen = [step(lib.randn(5, 4), lib.randint(0, 3, (5,))) for _ in range(4)]

    single, constants = Net(), {}
    weights = {name: each.detach() for name, each in single.named_parameters()}
    constants.update(single.named_buffers())

    def loss_of_one(weights, x, target):
        scores = call(single, (weights, constants), (x.unsqueeze(0),))
        return F.cross_entropy(scores, target.unsqueeze(0))

    def private(weights, x, target):
        slopes = vmap(grad(loss_of_one), in_dims=(None, 0, 0))(weights, x, target)
        norms = lib.sqrt(sum(each.flatten(1).square().sum(1) for each in slopes.values()))
        clip = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        return {
            name: each - lib.einsum("b,b...->...", clip, slopes[name]) / len(x)
            for name, each in weights.items()
        }, norms.mean()

    private = compiled(private)
    for _ in range(3):
        weights, norm = private(weights, lib.randn(5, 4), lib.randint(0, 3, (5,)))
        seen.append(norm)
    return seen
