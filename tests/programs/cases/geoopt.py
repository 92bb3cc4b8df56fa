"""hyperbolic, spherical and orthogonal parameters by Riemannian Adam; maps of 11 manifolds, SGD"""

import numpy as np
import torch

PACKAGE = "geoopt"
NO_MAPS = ("EuclideanStiefel", "CanonicalStiefel", "BirkhoffPolytope")


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import geoopt

        ball, sphere, frames = geoopt.PoincareBall(), geoopt.Sphere(), geoopt.EuclideanStiefel()
        self.places = geoopt.ManifoldParameter(0.3 * drawn(0, 6, 3), manifold=ball)
        self.unit = geoopt.ManifoldParameter(drawn(1, 3), manifold=sphere)
        self.frame = geoopt.ManifoldParameter(drawn(2, 3, 2), manifold=frames)
        self.bias = torch.nn.Parameter(torch.zeros(2))

    def forward(self, one, other):
        ball = self.places.manifold
        turned = ball.logmap0(self.places[one]) @ self.frame + self.bias
        distance = ball.dist(self.places[one], self.places[other])
        return distance + turned.square().sum(-1) + self.places[other] @ self.unit


def build():
    def loss(model, one, other, targets):
        return torch.nn.functional.mse_loss(model(one, other), targets)

    pairs = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    return Net(), (*pairs, torch.linspace(0.5, 2.0, 5)), loss


def on_manifolds(model):
    with torch.no_grad():
        for each in (model.places, model.unit, model.frame):
            each.proj_()


def optimizer(model):
    """Riemannian Adam, once the parameters are on their manifolds."""
    import geoopt

    on_manifolds(model)
    return geoopt.optim.RiemannianAdam(model.parameters(), lr=1e-2, amsgrad=True, stabilize=2)


def more(model, inputs):
    import geoopt

    found = {}
    for name, options, shape in (
        ("Euclidean", {}, (4, 3)), ("Sphere", {}, (4, 3)), ("SphereExact", {}, (4, 3)),
        ("EuclideanStiefel", {}, (4, 3)), ("CanonicalStiefel", {}, (4, 3)),
        ("PoincareBall", {"c": 0.7}, (4, 3)), ("SphereProjection", {}, (4, 3)),
        ("Stereographic", {"k": -0.3, "learnable": True}, (4, 3)), ("Lorentz", {}, (4, 3)),
        ("BirkhoffPolytope", {}, (4, 4)), ("SymmetricPositiveDefinite", {}, (2, 3, 3)),
    ):  # fmt: skip
        manifold = getattr(geoopt, name)(**options)
        scale = 0.2 if options else 1.0
        values = scale * drawn(3, *shape)
        if name == "BirkhoffPolytope":
            values = values.abs() + 0.1
        point = manifold.projx(values).detach().requires_grad_()
        tangent = manifold.proju(point, 0.1 * drawn(4, *shape))
        moved = manifold.retr(point, tangent)
        found[f"{name}, point"], found[f"{name}, tangent"] = point, tangent
        found[f"{name}, moved"] = moved
        found[f"{name}, carried"] = manifold.transp_follow_retr(point, tangent, tangent)
        found[f"{name}, inner"] = manifold.inner(point, tangent, keepdim=False)
        if name not in NO_MAPS:
            # Others write into what their retraction keeps for its gradient.
            (gradient,) = torch.autograd.grad((moved * moved.exp()).sum(), point, retain_graph=True)
            found[f"{name}, gradient"] = manifold.egrad2rgrad(point, gradient)
            found[f"{name}, exponential"] = manifold.expmap(point, tangent)
            found[f"{name}, logarithm"] = manifold.logmap(point, moved)
            found[f"{name}, distance"] = manifold.dist(point, moved)
    ball = geoopt.PoincareBall()
    inside = ball.expmap0(0.3 * drawn(5, 4, 3))
    found["sum"] = ball.mobius_add(inside, inside.flip(0))
    found["product"] = ball.mobius_matvec(drawn(6, 2, 3), inside)
    found["midpoint"] = ball.weighted_midpoint(inside)
    found["to a plane"] = ball.dist2plane(inside, inside[:1], drawn(7, 1, 3))
    other = Net()
    steps = geoopt.optim.RiemannianSGD(other.parameters(), lr=1e-2, momentum=0.9)
    other.load_state_dict(model.state_dict())
    losses = []
    for _ in range(3):
        steps.zero_grad()
        loss = torch.nn.functional.mse_loss(other(*inputs[:2]), inputs[2])
        loss.backward()
        steps.step()
        losses.append(loss.detach())
    return found | {"losses of SGD": torch.stack(losses), "frame": other.frame.mT @ other.frame}
