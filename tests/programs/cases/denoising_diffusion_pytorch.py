"""a U-Net that denoises: loss; 9 other diffusions and networks, samples, a `Trainer`, its files"""

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
import torch

PACKAGE = "denoising-diffusion-pytorch"
SMALL = {"dim": 8, "dim_mults": (1, 2), "attn_heads": 2, "attn_dim_head": 4}


def drawn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random(shape).astype("float32"))


def build():
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    unet = Unet(channels=1, flash_attn=False, **SMALL)
    model = GaussianDiffusion(unet, image_size=8, timesteps=20, min_snr_loss_weight=True)
    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((4, 1, 8, 8))).float()

    def loss(model, images, times, noise):
        return model(images, times=times, noise=noise)

    return model, (drawn(4, 1, 8, 8), torch.tensor([0, 5, 11, 19]), noise), loss


def diffusions():
    import denoising_diffusion_pytorch as package
    from denoising_diffusion_pytorch import classifier_free_guidance as guided
    from denoising_diffusion_pytorch import simple_diffusion as simple

    def unet(**options):
        return package.Unet(channels=1, **SMALL, **options)

    few = {"image_size": 8, "timesteps": 10}
    one = {"image_size": 8, "channels": 1, "num_sample_steps": 3}
    learned = {"learned_sinusoidal_cond": True}
    return {
        "noise by DDIM": package.GaussianDiffusion(
            unet(self_condition=True), image_size=8, timesteps=10, sampling_timesteps=3,
            objective="pred_noise", beta_schedule="cosine", ddim_sampling_eta=0.5,
        ),
        "start": package.GaussianDiffusion(
            unet(), objective="pred_x0", offset_noise_strength=0.1, **few
        ),
        "variance": package.LearnedGaussianDiffusion(unet(learned_variance=True), **few),
        "weighted": package.WeightedObjectiveGaussianDiffusion(unet(out_dim=4), **few),
        "continuous": package.ContinuousTimeGaussianDiffusion(
            unet(**learned), noise_schedule="learned", learned_schedule_net_hidden_dim=8, **one
        ),
        "by v": package.VParamContinuousTimeGaussianDiffusion(unet(**learned), **one),
        "elucidated": package.ElucidatedDiffusion(unet(**learned), **one),
        "simple": simple.GaussianDiffusion(
            simple.UViT(dim=8, dim_mults=(1, 2), channels=1, vit_depth=1, attn_heads=2,
                        attn_dim_head=4, vit_dropout=0.0),
            noise_d_low=4, noise_d_high=8, **one,
        ),
        "classes": guided.GaussianDiffusion(
            guided.Unet(num_classes=3, channels=1, **SMALL), **few
        ),
        "sequences": package.GaussianDiffusion1D(
            package.Unet1D(channels=2, **SMALL), seq_length=8, timesteps=4
        ),
    }  # fmt: skip


def networks():
    import denoising_diffusion_pytorch as package

    options = {
        "dim": 8, "dim_max": 16, "channels": 2, "num_downsamples": 1, "num_blocks_per_stage": 1,
        "attn_dim_head": 4, "fourier_dim": 4, "dropout": 0.0, "num_classes": 3,
    }  # fmt: skip
    return {
        "Karras": (package.KarrasUnet(image_size=8, attn_res=(4,), **options), (8, 8)),
        "Karras 1D": (package.KarrasUnet1D(seq_len=8, attn_res=(4,), **options), (8,)),
        "Karras 3D": (
            package.KarrasUnet3D(image_size=8, frames=4, attn_res=(4,), **options), (4, 8, 8),
        ),
    }  # fmt: skip


def more(model, inputs):
    import random

    import driver

    found = {}
    for name, diffusion in diffusions().items():
        driver.fill(diffusion)
        random.seed(0)
        torch.manual_seed(0)
        given = [drawn(2, 2, 8) if name == "sequences" else drawn(2, 1, 8, 8)]
        labels = {"classes": torch.tensor([0, 2])} if name == "classes" else {}
        value = diffusion(*given, **labels)
        value.backward()
        # Not those of a learned schedule: the last of its biases cancels.
        network = diffusion.net if name == "elucidated" else diffusion.model
        norms = [each.grad.norm() for each in network.parameters() if each.grad is not None]
        found[name] = torch.stack([value, *norms])
        with torch.no_grad():
            if name == "classes":
                found["sampled classes"] = diffusion.sample(labels["classes"], cond_scale=2.0)
            elif name != "weighted":  # The package's own loop passes what this one does not take.
                found[f"sampled {name}"] = diffusion.sample(batch_size=2)
        if name == "elucidated":
            found["by DPM++"] = diffusion.sample_using_dpmpp(batch_size=1, num_sample_steps=3)
    found["between"] = model.interpolate(*drawn(2, 1, 1, 8, 8), t=3)
    for name, (network, shape) in networks().items():
        driver.fill(network)
        times, labels = torch.tensor([0.1, 0.7]), torch.tensor([0, 2])
        value = network(drawn(2, 2, *shape), times, class_labels=labels).square().mean()
        value.backward()
        norms = [each.grad.norm() for each in network.parameters() if each.grad is not None]
        found[name] = torch.stack([value, *norms])
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        found |= trained(model, Path(folder))
    return found


def trained(model, folder):
    """What a `Trainer` gives that learns from files, and one that goes on from its checkpoint."""
    import PIL.Image
    import torchvision
    from denoising_diffusion_pytorch import Trainer

    images = folder / "images"
    images.mkdir()
    for number, each in enumerate(drawn(100, 1, 8, 8)):
        torchvision.utils.save_image(each, images / f"{number:03}.png")
    torch.manual_seed(0)
    options = {
        "train_batch_size": 16, "gradient_accumulate_every": 2, "augment_horizontal_flip": False,
        "ema_update_every": 1, "save_and_sample_every": 2, "num_samples": 4,
        "calculate_fid": False, "results_folder": str(folder / "results"),
    }  # fmt: skip
    trainer = Trainer(model, images, train_num_steps=2, **options)
    trainer.train()
    found = {"trained": torch.stack([each.norm() for each in model.parameters()])}
    again = Trainer(model, images, train_num_steps=3, **options)
    again.load(1)
    averages = again.ema.ema_model.parameters()
    found["averages"] = torch.stack([each.norm() for each in averages])
    again.train()
    found["trained on"] = torch.stack([each.norm() for each in model.parameters()])
    with PIL.Image.open(folder / "results" / "sample-1.png") as written:
        return found | {"written": torch.tensor(written.size)}
