"""poses that a network predicts, by a geodesic loss; groups, optimizers, filters, registration"""

import numpy as np
import torch

PACKAGE = "pypose"


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 6)
        )
        self.offset = torch.nn.Parameter(torch.zeros(1, 6))

    def forward(self, values):
        import pypose

        return pypose.se3(self.offset).Exp() * pypose.se3(self.layers(values)).Exp()


def build():
    import pypose

    targets = pypose.se3(0.3 * drawn(1, 4, 6)).Exp()

    def loss(model, values, targets):
        error = (pypose.SE3(targets).Inv() * model(values)).Log()
        return error.tensor().square().sum(-1).mean()

    return Net(), (drawn(0, 4, 5), targets.tensor()), loss


def more(model, inputs):
    import pypose

    found = {"poses": model(inputs[0]).tensor()}
    points = drawn(2, 4, 3)
    for name, width in {"so3": 3, "se3": 6, "sim3": 7, "rxso3": 4}.items():
        algebra = getattr(pypose, name)(0.4 * drawn(3, 4, width)).requires_grad_()
        group = algebra.Exp()
        moved = group.Act(points)
        found[name], found[f"{name}, moved"] = group.tensor(), moved
        found[f"{name}, logarithm"] = (group * group.Inv()[0]).Log().tensor()
        found[f"{name}, matrix"] = group.matrix()
        found[f"{name}, adjoint"] = group.Adj(algebra).tensor()
        found[f"{name}, retraction"] = group.Retr(algebra).tensor()
        (gradient,) = torch.autograd.grad(moved.square().sum() + moved.sum(), algebra)
        found[f"{name}, gradient"] = torch.as_tensor(gradient)
    turns = pypose.euler2SO3(0.5 * drawn(4, 4, 3))
    found["angles"] = turns.euler()
    found["from matrices"] = pypose.mat2SO3(turns.matrix()).tensor()
    found["spline"] = pypose.chspline(points[None], 0.25)
    found["between poses"] = pypose.bspline(model(inputs[0])[None], 0.5).tensor()
    return found | optimized() | filtered()


def optimized():
    """The errors of a pose that Gauss, Newton, Levenberg and Marquardt fit."""
    import pypose

    class Inverse(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pose = pypose.Parameter(pypose.se3(0.2 * drawn(5, 2, 6)).Exp())

        def forward(self, given):
            return (self.pose @ given).Log().tensor()

    given = pypose.se3(0.5 * drawn(6, 2, 6)).Exp()
    found = {}
    for name, options in {
        "GN": {},
        "LM": {"strategy": pypose.optim.strategy.Adaptive(damping=1e-3)},
        "LM, robust": {
            "strategy": pypose.optim.strategy.TrustRegion(radius=1e3),
            "kernel": pypose.optim.kernel.Huber(),
        },
    }.items():
        model = Inverse()
        optimizer = getattr(pypose.optim, name.partition(",")[0])(model, **options)
        found[name] = torch.stack([torch.as_tensor(optimizer.step(given)) for _ in range(3)])
    return found


def filtered():
    """A state by an extended Kalman filter, controls by LQR, poses by ICP and EPnP, by an IMU."""
    import pypose

    class Pendulum(pypose.module.NLS):
        def state_transition(self, state, input, t=None):
            return state + 0.1 * torch.stack([state[..., 1], -state[..., 0].sin() + input[..., 0]])

        def observation(self, state, input, t=None):
            return state**2 + state

    state, guess = torch.tensor([0.5, 0.1]), torch.tensor([0.3, 0.0])
    spread, noise = torch.eye(2), 0.01 * torch.eye(2)
    model = Pendulum()
    filters = pypose.module.EKF(model, noise, noise)
    for _ in range(3):
        control = torch.tensor([0.1])
        state, seen = model(state, control)
        guess, spread = filters(guess, seen, control, spread)
    found = {"guess": guess, "spread": spread}
    system = pypose.module.LTI(
        torch.eye(2) + 0.1 * drawn(7, 2, 2), drawn(8, 2, 1), torch.eye(2), torch.zeros(2, 1)
    )
    cost = torch.eye(3).tile(1, 4, 1, 1)
    solver = pypose.module.LQR(system, cost, torch.zeros(1, 4, 3), 4)
    found["states"], found["controls"], found["cost"] = solver(torch.ones(1, 2))
    cloud = drawn(9, 12, 3)
    pose = pypose.se3(0.05 * drawn(10, 6)).Exp()
    found["registered"] = pypose.module.ICP()(cloud, pose.Act(cloud)).tensor()
    camera = torch.tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    away = cloud + torch.tensor([0.0, 0.0, 8.0])
    found["pixels"] = pypose.point2pixel(away, camera, pose)
    imu = pypose.module.IMUPreintegrator(torch.zeros(3), pypose.identity_SO3(), torch.zeros(3))
    moved = imu(torch.full((1, 5, 1), 0.1), 0.1 * drawn(11, 1, 5, 3), drawn(12, 1, 5, 3))
    found |= {"turned": moved["rot"].tensor(), "speed": moved["vel"], "places": moved["pos"]}
    return found
