"""A denoising diffusion model: a schedule in buffers, time embeddings, an averaged copy."""

import copy
import math


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional

    class Denoiser(nn.Module):
        def __init__(self, size=6, width=16):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(width, 2 * width))
            self.inner, self.norm = nn.Linear(size, width), nn.GroupNorm(2, width)
            self.outer = nn.Linear(width, size)

        def forward(self, x, t):
            rates = lib.exp(lib.arange(4) * -(math.log(10000) / 3))
            angles = t[:, None] * rates[None, :]
            scale, shift = self.time(lib.cat((angles.sin(), angles.cos()), -1)).chunk(2, dim=1)
            return self.outer(F.silu(self.norm(self.inner(x)) * (scale + 1) + shift))

    class Diffusion(nn.Module):
        def __init__(self, model, steps=6):
            super().__init__()
            self.model, self.steps = model, steps
            x = lib.linspace(0, steps, steps + 1, dtype=lib.float64) / steps
            signal = lib.cos((x + 0.008) / 1.008 * math.pi * 0.5) ** 2
            betas = lib.clip(1 - signal[1:] / signal[:-1], 0, 0.999)
            kept = lib.cumprod(1 - betas, dim=0)
            before = F.pad(kept[:-1], (1, 0), value=1.0)
            for name, value in {
                "root": kept.sqrt(), "noise": (1 - kept).sqrt(),
                "variance": betas * (1 - before) / (1 - kept),
                "start": betas * before.sqrt() / (1 - kept),
                "now": (1 - before) * (1 - betas).sqrt() / (1 - kept),
            }.items():  # fmt: skip
                self.register_buffer(name, value.to(lib.float32))

        def at(self, table, t):
            return table.gather(-1, t).reshape(-1, 1)

        def forward(self, x, t, noise):
            noisy = self.at(self.root, t) * x + self.at(self.noise, t) * noise
            losses = F.mse_loss(self.model(noisy, t), noise, reduction="none")
            return losses.mean(dim=1).mean()

        @lib.inference_mode()
        def sample(self, shape):
            x = lib.randn(shape, device=self.root.device)
            for step in reversed(range(self.steps)):
                t = lib.full((shape[0],), step, dtype=lib.long)
                noise = self.model(x, t)
                clean = (x - self.at(self.noise, t) * noise) / self.at(self.root, t)
                x = self.at(self.start, t) * clean.clamp_(-1, 1) + self.at(self.now, t) * x
                if step:
                    x += self.at(self.variance, t).sqrt() * lib.randn_like(x)
            return x

    lib.manual_seed(3)
    diffusion = Diffusion(Denoiser())
    average = copy.deepcopy(diffusion).requires_grad_(False)
    optimizer = lib.optim.Adam(diffusion.parameters(), lr=1e-2, betas=(0.9, 0.99))

    def step(x, t, noise):
        loss = diffusion(x, t, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with lib.no_grad():
            for mean, parameter in zip(average.parameters(), diffusion.parameters(), strict=True):
                mean.data.lerp_(parameter.data, 0.1)
        return loss

    step, seen = compiled(step), []
    for _ in range(4):
        x = lib.rand(4, 6) * 2 - 1
        seen.append(step(x, lib.randint(0, 6, (4,)).long(), lib.randn_like(x)))
    return [*seen, *average.eval().sample((4, 6)).mean(0)]
