"""a spline flow that fits points; a Glow on images; seven other layers, three more objectives"""

import tempfile

import numpy as np
import torch

PACKAGE = "normflows"


def spline_flow():
    import normflows

    torch.manual_seed(0)
    layers = []
    for _ in range(2):
        layers.append(normflows.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8, num_bins=4))
        layers.append(normflows.flows.LULinearPermute(2))
    base = normflows.distributions.DiagGaussian(2, trainable=False)
    return normflows.NormalizingFlow(base, layers, normflows.distributions.TwoMoons())


def build():
    points = np.random.default_rng(0).standard_normal((8, 2)).astype("float32")

    def loss(model, points):
        return model.forward_kld(points)

    return spline_flow(), (torch.from_numpy(points),), loss


def more(model, inputs):
    import driver
    import normflows
    from normflows import flows, nets

    (points,) = inputs
    found = {"density": model.log_prob(points), "target": model.p.log_prob(points)}
    found["there"], found["volume"] = model.inverse_and_log_det(points)
    found["back"] = model(found["there"])
    for name, options in {"reverse_kld": {}, "reverse_alpha_div": {"alpha": 0.5}}.items():
        torch.manual_seed(0)
        found[name] = getattr(model, name)(16, **options)
    torch.manual_seed(0)
    found["without score"] = model.reverse_kld(16, score_fn=False)
    with tempfile.NamedTemporaryFile() as file:
        model.save(file.name)
        other = spline_flow()
        other.load(file.name)
    found["loaded"] = other.log_prob(points)
    for name, layer in {
        "Planar": flows.Planar((2,)),
        "Radial": flows.Radial((2,)),
        "AffineCouplingBlock": flows.AffineCouplingBlock(nets.MLP([1, 8, 2])),
        "MaskedAffineAutoregressive": flows.MaskedAffineAutoregressive(2, 8),
        "CoupledRationalQuadraticSpline": flows.CoupledRationalQuadraticSpline(2, 1, 8),
        "InvertibleAffine": flows.InvertibleAffine(2),
        "ActNorm": flows.ActNorm((2,)),
    }.items():
        driver.fill(layer)
        found[name], found[f"volume of {name}"] = layer(points)
    mixture = normflows.distributions.GaussianMixture(3, 2)
    driver.fill(mixture)
    found["mixture"] = mixture.log_prob(points)
    return found | glow()


def glow():
    """A step of a Glow of two levels on images of two classes."""
    import driver
    import normflows

    torch.manual_seed(0)
    bases, merges, layers = [], [], []
    for level in range(2):
        shape = (6, 4, 4) if level else (12, 2, 2)
        blocks = [normflows.flows.GlowBlock(12 * 2 ** (1 - level), 8) for _ in range(2)]
        layers.append([*blocks, normflows.flows.Squeeze()])
        if level:
            merges.append(normflows.flows.Merge())
            shape = (6, 4, 4)
        else:
            shape = (24, 2, 2)
        bases.append(normflows.distributions.ClassCondDiagGaussian(shape, 2))
    model = normflows.MultiscaleFlow(bases, layers, merges)
    driver.fill(model)
    images = np.random.default_rng(1).random((4, 3, 8, 8)).astype("float32")
    loss = model.forward_kld(torch.from_numpy(images), torch.tensor([0, 1, 1, 0]))
    loss.backward()
    norms = [each.grad.norm() for each in model.parameters() if each.grad is not None]
    return {"Glow": loss.detach(), "gradients of Glow": torch.stack(norms)}
