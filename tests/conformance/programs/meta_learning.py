"""Learning to learn: a functional call with adapted parameters, and gradients through gradients."""


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional
    lib.manual_seed(5)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)

    def adapt(x, y):
        parameters = dict(model.named_parameters())
        for _ in range(2):
            loss = F.mse_loss(lib.func.functional_call(model, parameters, (x,)), y)
            slopes = lib.autograd.grad(loss, [*parameters.values()], create_graph=True)
            parameters = {
                name: parameter - 0.1 * slope
                for (name, parameter), slope in zip(parameters.items(), slopes, strict=True)
            }
        return parameters

    def step(tasks):
        optimizer.zero_grad()
        losses = [
            F.mse_loss(lib.func.functional_call(model, adapt(x, y), (later_x,)), later_y)
            for x, y, later_x, later_y in tasks
        ]
        loss = lib.stack(losses).mean()
        loss.backward()
        optimizer.step()
        return loss

    def task():
        height, phase = lib.rand(2, 1)
        x, later_x = (lib.rand(5, 1) * 10 - 5 for _ in range(2))
        return x, height * lib.sin(x - phase), later_x, height * lib.sin(later_x - phase)

    step = compiled(step)
    seen = [step([task(), task()]) for _ in range(4)]

    # Reptile: a step towards the state after a few steps of plain training.
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plain = lib.optim.SGD(model.parameters(), lr=0.1)
    x, y, *_ = task()
    for _ in range(2):
        plain.zero_grad()
        F.mse_loss(model(x), y).backward()
        plain.step()
    after = model.state_dict()
    model.load_state_dict({name: value.lerp(after[name], 0.5) for name, value in before.items()})
    return [*seen, *model[0].weight.flatten()[:3]]
