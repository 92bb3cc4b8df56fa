"""Bayesian layers and their divergence: loss; layers that are converted, frozen, drawn, saved"""

import io

import numpy as np
import torch

PACKAGE = "torchbnn"


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def network():
    import torchbnn

    prior = {"prior_mu": 0, "prior_sigma": 0.1}
    return torch.nn.Sequential(
        torchbnn.BayesConv2d(**prior, in_channels=2, out_channels=4, kernel_size=3, padding=1),
        torchbnn.BayesBatchNorm2d(**prior, num_features=4), torch.nn.ReLU(), torch.nn.Flatten(),
        torchbnn.BayesLinear(**prior, in_features=64, out_features=3),
    )  # fmt: skip


def fixed(model):
    """With one draw of the weights, which does not depend on the library."""
    for module in model.modules():
        for name in ("weight", "bias"):
            mean = getattr(module, f"{name}_mu", None)
            if mean is not None:
                setattr(module, f"{name}_eps", drawn(mean.numel(), *mean.shape))
    return model


def build():
    import torchbnn

    divergence = torchbnn.BKLLoss(reduction="mean", last_layer_only=False)

    def loss(model, images, labels):
        said = torch.nn.functional.cross_entropy(model(images), labels)
        return said + 0.1 * divergence(model).sum()

    return fixed(network()), (drawn(0, 6, 2, 4, 4), torch.arange(6) % 3), loss


def more(model, inputs):
    import driver
    import torchbnn
    from torchbnn.utils import _convert_model as utils

    found = {"said": model.eval()(inputs[0])}
    for reduction in ("mean", "sum"):
        for last in (False, True):
            value = torchbnn.BKLLoss(reduction=reduction, last_layer_only=last)(model).sum()
            grads = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
            norms = [each.norm() for each in grads if each is not None]
            found[f"divergence by {reduction} {last}"] = torch.stack([value, *norms])
    strided = torchbnn.BayesConv2d(
        0, 0.1, 2, 4, 3, stride=2, padding=1, groups=2, bias=False, padding_mode="circular"
    )
    driver.fill(strided)
    found["strided"] = fixed(strided)(inputs[0])
    shared = torchbnn.BayesBatchNorm2d(0, 0.1, 2, momentum=None)
    driver.fill(shared)
    found["normed"] = fixed(shared)(inputs[0])
    found["mean"], found["variance"] = shared.running_mean, shared.running_var

    # The package makes new layers of what the old ones print; those of norms it refuses since they
    # print a bias.
    plain = torch.nn.Module()
    plain.conv = torch.nn.Conv2d(2, 3, 3)
    plain.rest = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    for change in (None, utils.nonbayes_to_bayes, utils.bayes_to_nonbayes):
        if change is utils.nonbayes_to_bayes:
            change(plain, prior_mu=0, prior_sigma=0.1, inplace=True)
        elif change is not None:
            change(plain, inplace=True)
        driver.fill(plain)
        fixed(plain).eval()
        found[f"of {type(plain.conv).__name__} {len(found)}"] = plain.rest(plain.conv(inputs[0]))

    # Draws of its own: they are the same while it is frozen, and spread as it says.
    torch.manual_seed(0)
    wide = torchbnn.BayesLinear(0.5, 0.1, 40, 50)
    wide.freeze()
    given = drawn(2, 3, 40)
    found["frozen"] = (wide(given) - wide(given)).abs().max()
    wide.unfreeze()
    found["free"] = (wide(given) != wide(given)).float().mean().round()
    draws = torch.stack([wide(torch.eye(40)) - wide.bias_mu for _ in range(50)])
    found["spread"] = (draws.std(0).mean() / 0.1 * 4).round()
    with io.BytesIO() as file:
        torch.save(model.state_dict(), file)
        file.seek(0)
        other = network()
        other.load_state_dict(torch.load(file), strict=False)
    found["loaded elsewhere"] = fixed(other).eval()(inputs[0])
    return found
