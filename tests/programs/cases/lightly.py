"""a convolutional network by SimCLR: loss by LARS; 20 losses, heads, a teacher, masked patches"""

import copy
import io
import warnings

import numpy as np
import torch

PACKAGE = "lightly"


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


class SimCLR(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from lightly.models.modules import SimCLRProjectionHead

        self.backbone = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 12, 3),
            torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        )  # fmt: skip
        self.head = SimCLRProjectionHead(12, 12, 8, batch_norm=False)

    def forward(self, images):
        return self.head(self.backbone(images))


def build():
    from lightly.loss import NTXentLoss

    criterion = NTXentLoss(temperature=0.5)

    def loss(model, first, second):
        return criterion(model(first), model(second))

    return SimCLR(), (drawn(0, 6, 3, 12, 12), drawn(1, 6, 3, 12, 12)), loss


def optimizer(model):
    from lightly.utils.lars import LARS

    return LARS(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)


def of_losses():
    from lightly import loss as losses
    from lightly.loss.hypersphere_loss import HypersphereLoss

    found = {}
    pairs = {
        "BarlowTwins": losses.BarlowTwinsLoss(), "DCL": losses.DCLLoss(), "DCLW": losses.DCLWLoss(),
        "DirectCLR": losses.DirectCLRLoss(loss_dim=4), "MACL": losses.MACLLoss(),
        "NTXent": losses.NTXentLoss(), "TiCo": losses.TiCoLoss(), "VICReg": losses.VICRegLoss(),
        "cosine": losses.NegativeCosineSimilarity(), "sphere": HypersphereLoss(),
        "queue": losses.NTXentLoss(memory_bank_size=(16, 8)),
        "MMCR": lambda one, two: losses.MMCRLoss()(
            torch.stack([one, two], 1), torch.stack([two, one], 1)
        ),
        "FroSSL": lambda one, two: losses.FroSSLLoss()([one, two]),
        "EMP": lambda one, two: losses.EMPSSLLoss()([one, two]),
        "WMSE": lambda one, two: losses.WMSELoss(4, w_size=12)(torch.cat([one, two])[:, :4]),
        "KoLeo": lambda one, two: losses.KoLeoLoss()(one) + losses.KoLeoLoss()(two),
        "SwaV": lambda one, two: losses.SwaVLoss()([one, two], [two + one]),
        "MSN": lambda one, two: losses.MSNLoss()(one, two, drawn(9, 5, 8)),
        "DINO": lambda one, two: losses.DINOLoss(8)([two.detach(), one.detach()], [one, two],
                                                    epoch=1),
    }  # fmt: skip
    for name, criterion in pairs.items():
        one, two = (drawn(seed, 12, 8).requires_grad_() for seed in (2, 3))
        if name == "queue":
            torch.manual_seed(0)
            criterion.memory_bank.bank = drawn(8, 16, 8)
            criterion.memory_bank.bank_ptr = torch.zeros(1, dtype=torch.long)
        found[name] = criterion(one, two)
        found[name].backward()
        found[f"gradient of {name}"] = one.grad
    return found


def of_heads():
    import driver
    from lightly.models.modules import heads as modules

    found = {}
    for name in (
        "BarlowTwinsProjectionHead", "BYOLProjectionHead", "BYOLPredictionHead",
        "MoCoProjectionHead", "NNCLRProjectionHead", "SimSiamProjectionHead", "SwaVProjectionHead",
        "SimSiamPredictionHead", "DINOProjectionHead", "MSNProjectionHead", "TiCoProjectionHead",
    ):  # fmt: skip
        wide = {"bottleneck_dim": 6} if "DINO" in name else {}
        head = getattr(modules, name)(8, 12, output_dim=6, **wide)
        driver.fill(head)
        result = head(drawn(4, 6, 8))
        result.square().mean().backward()
        norms = [each.grad.norm() for each in head.parameters() if each.grad is not None]
        found[name] = torch.cat([result.flatten(), torch.stack(norms)])
    prototypes = modules.SwaVPrototypes(8, 5)
    driver.fill(prototypes)
    prototypes.normalize()
    found["prototypes"] = prototypes(drawn(4, 6, 8))
    return found


def more(model, inputs):
    import driver
    from lightly.models import modules, utils
    from lightly.models.modules.masked_vision_transformer_torchvision import (
        MaskedVisionTransformerTorchvision,
    )
    from lightly.utils import scheduler
    from torchvision.models.vision_transformer import VisionTransformer

    warnings.simplefilter("ignore")
    found = of_losses() | of_heads()

    # A teacher that follows its student.
    student, teacher = SimCLR(), copy.deepcopy(model)
    driver.fill(student)
    utils.deactivate_requires_grad(teacher)
    steps = torch.optim.SGD(student.parameters(), lr=0.1)
    schedule = scheduler.CosineWarmupScheduler(steps, warmup_epochs=2, max_epochs=6)
    rates = []
    for step in range(5):
        steps.zero_grad()
        gap = torch.nn.functional.mse_loss(student(inputs[0]), teacher(inputs[1]))
        gap.backward()
        steps.step()
        schedule.step()
        momentum = scheduler.cosine_schedule(step, 5, 0.9, 1.0)
        utils.update_momentum(student, teacher, m=momentum)
        rates.append(torch.stack([gap.detach(), torch.tensor(steps.param_groups[0]["lr"])]))
    found["steps"] = torch.stack(rates)
    found["teacher"] = torch.stack([each.norm() for each in teacher.parameters()])

    # Masked patches, which a transformer is to fill.
    vit = VisionTransformer(
        image_size=12, patch_size=4, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=12
    )
    masked = MaskedVisionTransformerTorchvision(vit=vit)
    decoder = torch.nn.Linear(8, 48)
    for each in (masked, decoder):
        driver.fill(each)
    kept, hidden = torch.tensor([[0, 2, 5, 7]] * 6), torch.tensor([[1, 3, 4, 6, 8, 9]] * 6)
    encoded = masked.encode(inputs[0], idx_keep=kept)
    tokens = utils.repeat_token(torch.zeros(1, 1, 8), (6, 10))
    tokens = utils.set_at_index(tokens, kept, encoded)
    tokens = tokens + tokens.mean(1, keepdim=True)
    said = decoder(utils.get_at_index(tokens, hidden))
    aims = utils.get_at_index(utils.patchify(inputs[0], 4), hidden - 1)
    value = torch.nn.functional.mse_loss(said, aims)
    value.backward()
    found["MAE"] = value
    found["gradients of MAE"] = torch.stack(
        [each.grad.norm() for each in masked.parameters() if each.grad is not None]
    )
    found["masked"] = masked(inputs[0], idx_mask=hidden)
    found["patches back"] = utils.unpatchify(utils.patchify(inputs[0], 4), 4)
    found["nearest"] = utils.select_most_similar(
        drawn(5, 2, 5, 8), drawn(6, 2, 5, 8), drawn(7, 2, 5, 8)
    )

    bank = modules.NNMemoryBankModule(size=(10, 8))
    bank.bank = torch.nn.functional.normalize(drawn(8, 10, 8), dim=-1)
    bank.bank_ptr = torch.zeros(1, dtype=torch.long)
    found["neighbours"] = bank(drawn(4, 6, 8), update=True)
    found["bank"] = bank.bank
    with io.BytesIO() as file:
        torch.save(model.state_dict(), file)
        file.seek(0)
        other = SimCLR()
        other.load_state_dict(torch.load(file))
    found["loaded elsewhere"] = other(inputs[0])
    return found
