"""a perceptron by SOAP; 100 other optimizers, those around others, schedules and losses"""

import io
import logging
import warnings

import numpy as np
import torch

PACKAGE = "pytorch-optimizer"
# They take other models, more arguments or a package that is not required; Alice completes a basis,
# which can be done in many ways.
LEFT_OUT = ("alice", "alig", "bsam", "demo", "distributedmuon", "lorarite", "spectralsphere")
# They multiply matrices in bfloat16, with roundings of each library's own.
ROUNDED = ("adago", "adamuon", "muon", "muonclip", "normuon", "scion", "scionlight")
OPTIONS = {"ranger21": {"num_iterations": 10}}
LOSSES = {
    "BCELoss": {}, "BCEFocalLoss": {}, "FocalLoss": {}, "SoftF1Loss": {}, "TverskyLoss": {},
    "FocalTverskyLoss": {}, "DiceLoss": {"mode": "binary"}, "JaccardLoss": {"mode": "binary"},
    "BinaryBiTemperedLogisticLoss": {"t1": 0.8, "t2": 1.2}, "LovaszHingeLoss": {},
}  # fmt: skip
SCHEDULES = {
    "LinearScheduler": {}, "CosineScheduler": {"init_lr": 1e-3}, "PolyScheduler": {},
}  # fmt: skip


def network():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))


def build():
    rng = np.random.default_rng(0)
    values, aims = rng.standard_normal((2, 32, 8))

    def loss(model, values, aims):
        return torch.nn.functional.mse_loss(model(values), aims)

    # SOAP steps in a basis of eigenvectors; those of small eigenvalues are rounding in float32.
    return network().double(), (torch.from_numpy(values), torch.from_numpy(aims)), loss


def optimizer(model):
    from pytorch_optimizer import SOAP

    return SOAP(model.parameters(), lr=1e-2, precondition_frequency=2)


def trained(made, inputs, steps=4):
    """The weights of a network after some steps of the optimizer that `made` gives for it."""
    import driver

    torch.manual_seed(0)
    model = network()
    driver.fill(model)
    model.to(inputs[0].dtype)
    stepping = made(model)
    name = type(stepping).__name__
    if name == "ScheduleFreeWrapper":
        stepping.train()

    def closure():
        stepping.zero_grad()
        value = torch.nn.functional.mse_loss(model(inputs[0]), inputs[1])
        if name != "PCGrad":
            value.backward(create_graph=name in ("AdaHessian", "SophiaH"))
        return value

    for number in range(steps):
        if name in ("LOMO", "AdaLOMO"):
            stepping.fused_backward(loss_of(model, inputs), 1e-2)
        elif name == "LBFGS":
            stepping.step(closure)
        elif name == "PCGrad":
            values = model(inputs[0])
            parts = (values - inputs[1]).square().mean(0)
            stepping.zero_grad()
            stepping.pc_backward([parts[:4].sum(), parts[4:].sum()])
            stepping.step()
        else:
            closure()
            stepping.step(closure if "SAM" in name else None)
        if number == 1 and name in ("Prodigy", "Kron", "Lookahead"):
            file = io.BytesIO()
            torch.save(stepping.state_dict(), file)
            file.seek(0)
            stepping = made(model)
            stepping.load_state_dict(torch.load(file, weights_only=False))
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def loss_of(model, inputs):
    return torch.nn.functional.mse_loss(model(inputs[0]), inputs[1])


def more(model, inputs):
    import pytorch_optimizer as package

    # It advises against making some by their names.
    warnings.simplefilter("ignore", UserWarning)
    logging.disable(logging.WARNING)
    found, singles = {}, [each.float() for each in inputs]
    for name in package.get_supported_optimizers():
        if name in LEFT_OUT:
            continue
        decay = {} if name == "lbfgs" else {"weight_decay": 1e-2}
        options = OPTIONS.get(name, {})
        rate = 1e-3 if name in ROUNDED else 1e-2

        def made(model, name=name, rate=rate, options=options, decay=decay):
            if name == "lbfgs":
                return package.load_optimizer(name)(model.parameters(), lr=0.1)
            return package.create_optimizer(model, name, lr=rate, **decay, **options)

        found[name] = trained(made, inputs if name == "soap" else singles)
    adam = torch.optim.AdamW
    for name, made in {
        "Lookahead": lambda model: package.Lookahead(adam(model.parameters()), k=2),
        "OrthoGrad": lambda model: package.OrthoGrad(adam(model.parameters())),
        "TRAC": lambda model: package.TRAC(adam(model.parameters())),
        "Magma": lambda model: package.Magma(adam(model.parameters())),
        "PCGrad": lambda model: package.PCGrad(adam(model.parameters())),
        "ScheduleFree": lambda model: package.ScheduleFreeWrapper(adam(model.parameters())),
        "SAM": lambda model: package.SAM(model.parameters(), adam, adaptive=True),
        "LookSAM": lambda model: package.LookSAM(model.parameters(), adam, k=2),
        "FriendlySAM": lambda model: package.FriendlySAM(model.parameters(), adam),
        "BSAM": lambda model: package.BSAM(model.parameters(), num_data=32),
        "WSAM": lambda model: package.WSAM(model, model.parameters(), adam),
        "orthograd": lambda model: package.create_optimizer(model, "adan", use_orthograd=True),
        "lookahead": lambda model: package.create_optimizer(model, "lion", use_lookahead=True),
    }.items():
        found[f"around: {name}"] = trained(made, singles)

    def rates_of(made):
        weight = torch.zeros(2, requires_grad=True)
        base = torch.optim.SGD([weight], lr=1e-2)
        schedule = made(base)
        rates = []
        for _ in range(10):
            weight.grad = torch.ones(2)
            base.step()
            schedule.step()
            rates.append(base.param_groups[0]["lr"])
        return torch.tensor(rates)

    for name, options in SCHEDULES.items():
        kind = getattr(package, name)
        found[name] = rates_of(
            lambda base, kind=kind, options=options: kind(
                base, t_max=10, max_lr=1e-2, warmup_steps=3, **options
            )
        )
    found["restarts"] = rates_of(
        lambda base: package.CosineAnnealingWarmupRestarts(base, 4, max_lr=1e-2, warmup_steps=1)
    )
    found["REX"] = rates_of(lambda base: package.REXScheduler(base, 10, max_lr=1e-2))
    found["stable"] = rates_of(lambda base: package.get_wsd_schedule(base, 2, 3, 4))
    found["Chebyshev"] = rates_of(lambda base: package.get_chebyshev_schedule(base, 16))

    rng = np.random.default_rng(1)
    truth = torch.from_numpy(rng.integers(0, 2, (2, 1, 4, 4))).float()
    for name, options in LOSSES.items():
        given = torch.from_numpy(rng.random((2, 1, 4, 4)).astype("float32")).requires_grad_()
        found[name] = getattr(package, name)(**options)(given, truth)
        (found[f"gradient of {name}"],) = torch.autograd.grad(found[name], given)
    classes = torch.from_numpy(rng.integers(0, 3, 6))
    scores = torch.from_numpy(rng.standard_normal((6, 3)).astype("float32"))
    found["margins"] = package.LDAMLoss([3, 2, 1])(scores, classes)
    found["cosine"] = package.FocalCosineLoss()(scores, classes)
    found["tempered"] = package.BiTemperedLogisticLoss(0.8, 1.4)(
        scores, torch.nn.functional.one_hot(classes, 3).float()
    )
    return found
