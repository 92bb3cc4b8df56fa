"""A differential equation learned in double precision: second derivatives, Adam and then LBFGS."""


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional
    default = lib.get_default_dtype()
    lib.set_default_dtype(lib.float64)
    lib.manual_seed(6)
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    viscosity = nn.Parameter(lib.tensor(0.1))
    parameters = [*network.parameters(), viscosity]
    adam = lib.optim.Adam(parameters, lr=1e-2)

    def slope(y, x):
        return lib.autograd.grad(y, x, grad_outputs=lib.ones_like(y), create_graph=True)[0]

    def residual(x, t):
        u = network(lib.cat([x, t], dim=1))
        u_t, u_x = slope(u, t), slope(u, x)
        return u_t + u * u_x - viscosity * slope(u_x, x)

    def total(x, t, start):
        values = network(lib.cat([start, lib.zeros_like(start)], dim=1))
        return residual(x, t).square().mean() + F.mse_loss(values, -lib.sin(lib.pi * start))

    def step(x, t, start):
        x.requires_grad_()
        t.requires_grad_()
        adam.zero_grad()
        loss = total(x, t, start)
        loss.backward()
        adam.step()
        return loss

    step, seen = compiled(step), []
    for _ in range(3):
        x, t, start = lib.rand(5, 1) * 2 - 1, lib.rand(5, 1), lib.rand(5, 1)
        seen.append(step(x, t, start))

    lbfgs = lib.optim.LBFGS(parameters, max_iter=2, line_search_fn="strong_wolfe")

    def closure():
        lbfgs.zero_grad()
        loss = total(x, t, start)
        loss.backward()
        return loss

    seen.append(lbfgs.step(compiled(closure)))
    lib.set_default_dtype(default)
    return [*seen, viscosity]
