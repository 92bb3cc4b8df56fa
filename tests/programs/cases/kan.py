"""networks of splines in float64: L-BFGS, Adam, pruning, formulas, products, files"""

import os
import tempfile
import warnings

import numpy as np
import torch

PACKAGE = "pykan"
# It imports them, and does not ask for them.
REQUIRES = ["scikit-learn", "sympy", "matplotlib", "pandas", "tqdm", "pyyaml"]


def data(function, inputs=2):
    rng = np.random.default_rng(0)
    train, test = (rng.uniform(-1, 1, (size, inputs)) for size in (40, 20))
    return {
        "train_input": torch.from_numpy(train), "train_label": function(torch.from_numpy(train)),
        "test_input": torch.from_numpy(test), "test_label": function(torch.from_numpy(test)),
    }  # fmt: skip


def smooth(x):
    return torch.exp(torch.sin(np.pi * x[:, [0]]) + x[:, [1]] ** 2)


def network(folder, width=(2, 4, 1), **options):
    """With splines and scales that do not depend on the library; the grids stay."""
    from kan import KAN

    model = KAN(
        width=[each if isinstance(each, int) else list(each) for each in width],
        **{"grid": 3, "k": 3} | options, seed=0, auto_save=False, ckpt_path=folder,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for layer in model.act_fun:
            layer.coef.copy_(torch.from_numpy(0.3 * rng.standard_normal(layer.coef.shape)))
            layer.scale_base.copy_(torch.from_numpy(rng.standard_normal(layer.scale_base.shape)))
    return model


def norms(model):
    return torch.stack([each.detach().float().norm() for each in model.parameters()])


def main():
    import kan
    from kan import spline, utils

    warnings.simplefilter("ignore")
    # In which its line searches take the same steps.
    torch.set_default_dtype(torch.float64)
    found = {}
    knots = torch.linspace(-1, 1, 6).expand(2, 6)
    wide = spline.extend_grid(knots, k_extend=3)
    points = torch.from_numpy(np.random.default_rng(2).uniform(-1, 1, (30, 2)))
    found["basis"] = spline.B_batch(points, wide, k=3)
    values = torch.stack([points, points**2, torch.sin(points)], 2)
    coefficients = spline.curve2coef(points, values, wide, 3)
    found["fitted"] = spline.coef2curve(points, wide, coefficients, 3)
    found["slopes"] = utils.batch_jacobian(lambda x: x.square().sum(1, keepdim=True), points)
    found["curves"] = utils.batch_hessian(lambda x: x.pow(3).sum(1, keepdim=True), points)

    samples = data(smooth)
    with tempfile.TemporaryDirectory() as folder:
        model = network(folder)
        found["said"] = model(samples["train_input"])
        value = (found["said"] - samples["train_label"]).square().mean()
        value.backward()
        found["gradients"] = torch.stack(
            [each.grad.norm() for each in model.parameters() if each.grad is not None]
        )
        results = model.fit(samples, opt="LBFGS", steps=3, log=1, update_grid=False)
        found["losses by L-BFGS"] = torch.tensor(np.array(results["train_loss"]))
        found["tested"] = torch.tensor(np.array(results["test_loss"]))

        model = network(folder)
        results = model.fit(samples, opt="Adam", lr=0.01, steps=12, lamb=0.01, grid_update_num=2,
                            stop_grid_update_step=10)  # fmt: skip
        found["losses by Adam"] = torch.tensor(np.array(results["train_loss"]))
        found["penalties"] = torch.tensor(np.array([float(each) for each in results["reg"]]))
        found["trained"] = norms(model)
        for kind in ("edge_forward_spline_n", "edge_forward_sum", "edge_backward", "node_backward"):
            if "backward" in kind:
                model.attribute()
                model.node_attribute()
            found[kind] = model.get_reg(kind, 1.0, 2.0, 0.1, 0.1)
        # Not what it says: PyTorch's `lstsq` gives zeros for splines without samples.
        finer = model.refine(6)
        found["finer"] = torch.stack([layer.grid.norm() for layer in finer.act_fun])

        model(samples["train_input"])
        model.attribute()
        found["scores of inputs"] = model.feature_score
        smaller = model.prune(node_th=0.05, edge_th=0.03)
        found["pruned"] = smaller(samples["test_input"])
        found["its widths"] = torch.tensor([sum(each) for each in smaller.width])
        other = model.copy()
        found["copied"] = other(samples["test_input"])
        model.saveckpt(os.path.join(folder, "saved"))
        found["from a file"] = kan.KAN.loadckpt(os.path.join(folder, "saved"))(
            samples["test_input"]
        )

        # Formulas in the places of splines.
        formula = network(folder, (2, 1))
        target = data(lambda x: torch.sin(3 * x[:, [0]]) + x[:, [1]] ** 2)
        formula.fit(target, opt="LBFGS", steps=6, log=10)
        formula.fix_symbolic(0, 0, 0, "sin", verbose=False)
        formula.fix_symbolic(0, 1, 0, "x^2", verbose=False)
        found["symbolic"] = formula(target["test_input"])
        results = formula.fit(target, opt="LBFGS", steps=4, log=10)
        found["losses of the formula"] = torch.tensor(np.array(results["train_loss"]))
        expression = formula.symbolic_formula()[0][0]
        found["formula"] = torch.tensor([
            float(expression.subs(dict(zip(sorted(expression.free_symbols, key=str), at,
                                           strict=True))))
            for at in ((0.1, 0.2), (0.5, -0.4))
        ])  # fmt: skip
        guess = network(folder, (2, 1))
        guess.fit(target, opt="LBFGS", steps=6, log=10)
        _, _, fit, cost = guess.suggest_symbolic(0, 1, 0, lib=["x", "x^2", "sin"], verbose=False)
        found["suggested"] = torch.tensor([float(fit if np.isscalar(fit) else cost)])

        products = network(folder, (2, (2, 2), 1), mult_arity=2)
        results = products.fit(data(lambda x: x[:, [0]] * x[:, [1]]), opt="Adam", lr=0.02, steps=8)
        found["losses of products"] = torch.tensor(np.array(results["train_loss"]))
        found["products"] = products(samples["test_input"])
        quick = network(folder, sparse_init=False, base_fun="identity").speed()
        found["quick"] = quick(samples["test_input"])
    return found
