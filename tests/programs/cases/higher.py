"""meta-learning through steps of SGD: loss; eight optimizers, learned rates, layers with states"""

import numpy as np
import torch

PACKAGE = "higher"
OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adam": {"weight_decay": 0.01},
    "Adadelta": {}, "Adagrad": {"lr_decay": 0.1}, "Adamax": {}, "ASGD": {},
    "RMSprop": {"momentum": 0.5, "centered": True}, "Rprop": {},
}  # fmt: skip


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def network():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def after_steps(model, inner, support, query, **options):
    """The loss of a query after two steps on the support, which gradients go through."""
    import higher

    # The steps are on copies of the weights, which stay linked to them.
    with higher.innerloop_ctx(model, inner, copy_initial_weights=False, **options) as (
        fast, steps,
    ):  # fmt: skip
        for _ in range(2):
            steps.step(torch.nn.functional.mse_loss(fast(support[0]), support[1]))
        return torch.nn.functional.mse_loss(fast(query[0]), query[1])


def build():
    model = network()

    def loss(model, inputs, targets):
        total = 0.0
        for task in range(2):
            inner = torch.optim.SGD(model.parameters(), lr=0.1)
            support = inputs[task, :4], targets[task, :4]
            query = inputs[task, 4:], targets[task, 4:]
            total = total + after_steps(model, inner, support, query)
        return total

    return model, (drawn(0, 2, 8, 3), drawn(1, 2, 8, 2)), loss


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.LSTM(3, 4, batch_first=True)
        self.norm = torch.nn.LayerNorm(4)
        self.out = torch.nn.Linear(4, 2)

    def forward(self, given):
        return self.out(self.norm(self.cell(given[:, None])[0][:, -1]))


class Attending(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        self.attention = torch.nn.MultiheadAttention(4, 2)

    def forward(self, given):
        hidden = self.into(given)
        # With the weights: PyTorch's fused attention has no second derivative.
        return self.out(hidden + self.attention(hidden, hidden, hidden, need_weights=True)[0])


def more(model, inputs):
    import driver
    import higher

    found = {}
    support, query = (drawn(2, 4, 3), drawn(3, 4, 2)), (drawn(4, 4, 3), drawn(5, 4, 2))
    for name, options in OPTIMIZERS.items():
        other = network()
        driver.fill(other)
        inner = getattr(torch.optim, name)(other.parameters(), lr=0.05, **options)
        value = after_steps(other, inner, support, query)
        value.backward()
        norms = [each.grad.norm() for each in other.parameters()]
        found[name] = torch.stack([value, *norms])
    shared = network()
    shared.append(torch.nn.Tanh()).append(torch.nn.Linear(2, 2))
    convolved = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 3)), torch.nn.Conv1d(1, 4, 3, padding=1), torch.nn.BatchNorm1d(4),
        torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(12, 2),
    )  # fmt: skip
    for name, other in (
        ("longer", shared), ("convolved", convolved), ("recurrent", Recurrent()),
        ("attending", Attending()),
    ):  # fmt: skip
        driver.fill(other)
        inner = torch.optim.SGD(other.parameters(), lr=0.1)
        value = after_steps(other, inner, support, query)
        value.backward()
        norms = [each.grad.norm() for each in other.parameters() if each.grad is not None]
        found[name] = torch.stack([value, *norms])

    # Rates that are learned, gradients that are changed, and a loop that is not tracked.
    model = network()
    driver.fill(model)
    inner = torch.optim.Adam([
        {"params": model[0].parameters(), "lr": 0.05}, {"params": model[2].parameters(), "lr": 0.01}
    ])  # fmt: skip
    rates = higher.optim.get_trainable_opt_params(inner)
    value = after_steps(model, inner, support, query, override=rates)
    grads = torch.autograd.grad(value, rates["lr"], allow_unused=True)
    found["rates"] = torch.stack(grads)
    higher.optim.apply_trainable_opt_params(inner, {"lr": [torch.tensor(0.2), torch.tensor(0.1)]})
    found["applied"] = torch.tensor([each["lr"] for each in inner.param_groups])
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    with higher.innerloop_ctx(model, inner, track_higher_grads=False) as (fast, steps):
        for _ in range(3):
            steps.step(
                torch.nn.functional.mse_loss(fast(support[0]), support[1]),
                grad_callback=lambda grads: [each.clamp(-0.1, 0.1) for each in grads],
            )
        found["not tracked"] = fast(query[0])
    with higher.innerloop_ctx(model, inner) as (fast, steps):
        for _ in range(2):
            steps.step(torch.nn.functional.mse_loss(fast(support[0]), support[1]))
        value = torch.nn.functional.mse_loss(fast(query[0]), query[1])
        for time in range(3):
            grads = torch.autograd.grad(value, fast.parameters(time=time), retain_graph=True)
            found[f"gradients at {time}"] = torch.stack([each.norm() for each in grads])
    functional = higher.monkeypatch(model)
    weights = [each * 2 for each in model.parameters()]
    found["other weights"] = functional(query[0], params=weights)
    linear = higher.optim.create_diff_optim(
        torch.optim.RMSprop, {"lr": 0.1}, params=list(functional.parameters())
    )
    changed = linear.step(functional(query[0]).square().mean(), params=functional.parameters())
    found["changed"] = torch.stack([each.norm() for each in changed])
    return found
