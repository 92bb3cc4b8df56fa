"""a focal loss; boxes' losses, schedules, checkpoints, averages of batch statistics, sizes"""

import tempfile

import numpy as np
import torch

PACKAGE = "fvcore"


def build():
    from fvcore.nn import sigmoid_focal_loss

    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.standard_normal((4, 2, 6, 6)).astype("float32"))
    labels = torch.nn.functional.one_hot(torch.arange(4) % 3, 3).float()
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, bias=False), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(64, 3),
    )  # fmt: skip

    def loss(model, images, labels):
        return sigmoid_focal_loss(model(images), labels, alpha=0.25, gamma=2, reduction="mean")

    return model, (images, labels), loss


def more(model, inputs):
    import driver
    from fvcore import nn
    from fvcore.common import param_scheduler
    from fvcore.common.checkpoint import Checkpointer, PeriodicCheckpointer
    from fvcore.nn.squeeze_excitation import SqueezeExcitation
    from fvcore.transforms.transform_util import to_float_tensor

    images, labels = inputs
    found = {}
    logits = torch.linspace(-2, 2, 12).reshape(4, 3).requires_grad_()
    first = torch.tensor([[0.0, 0, 4, 4], [1, 1, 3, 5], [2, 2, 6, 7]], requires_grad=True)
    second = torch.tensor([[1.0, 1, 5, 4], [4, 6, 7, 8], [2, 3, 6, 6]])
    for name, value in {
        "focal": nn.sigmoid_focal_loss(logits, labels, reduction="sum"),
        "focal star": nn.sigmoid_focal_loss_star(logits, labels, reduction="sum"),
        "GIoU": nn.giou_loss(first, second, reduction="sum"),
        "smooth": nn.smooth_l1_loss(first, second, beta=0.5, reduction="sum"),
        "jit": nn.sigmoid_focal_loss_star_jit(logits, labels, reduction="sum"),
    }.items():
        found[name] = value
        found[f"gradient of {name}"] = torch.autograd.grad(
            value, logits if "focal" in name or name == "jit" else first
        )[0]
    for name, schedule in {
        "cosine": param_scheduler.CosineParamScheduler(1.0, 0.1),
        "steps": param_scheduler.MultiStepParamScheduler([1, 0.1, 0.01], num_updates=9),
        "composite": param_scheduler.CompositeParamScheduler(
            [
                param_scheduler.LinearParamScheduler(0, 1),
                param_scheduler.CosineParamScheduler(1, 0),
            ],
            [0.25, 0.75],
            ["rescaled", "rescaled"],
        ),
    }.items():
        found[name] = torch.tensor([schedule(each / 8) for each in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with tempfile.TemporaryDirectory() as folder:
        keeper = Checkpointer(model, folder, optimizer=optimizer)
        periodic = PeriodicCheckpointer(keeper, period=2, max_iter=6, max_to_keep=2)
        for step in range(6):
            optimizer.zero_grad()
            nn.sigmoid_focal_loss(model(images), labels, reduction="mean").backward()
            optimizer.step()
            periodic.step(step)
        before = model.eval()(images)
        other, *_ = build()
        again = Checkpointer(other, folder)
        found["step"] = torch.tensor(again.resume_or_load("", resume=True).get("iteration"))
        found["before"], found["after"] = before, other.eval()(images)
        resized = torch.nn.Sequential(torch.nn.Conv2d(2, 5, 3))
        wrong = Checkpointer(resized)._load_model({"model": model.state_dict()})
        found["unlike"] = torch.tensor(len(wrong.incorrect_shapes))
    model.train()
    nn.update_bn_stats(model, [images, images.flip(0) * 2], num_iters=2, progress=None)
    found["precise"] = torch.cat([each.running_var for each in nn.get_bn_modules(model)])
    found["parameters"] = torch.tensor(nn.parameter_count(model)[""])
    assert "running_mean" not in nn.parameter_count_table(model)
    squeezed = SqueezeExcitation(4, 2)
    driver.fill(squeezed)
    found["squeezed"] = squeezed(images.repeat(1, 2, 1, 1))
    found["turned"] = to_float_tensor(np.arange(12, dtype="uint8").reshape(2, 2, 3))
    return found
