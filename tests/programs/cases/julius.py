"""a network of learned low-pass filters and bands: loss; resampling, filters, long convolutions"""

import numpy as np
import torch

PACKAGE = "julius"


def sounds(seed=0, length=2000):
    values = np.random.default_rng(seed).standard_normal((2, 1, length)).astype("float32")
    return torch.from_numpy(values)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import julius

        self.bands = julius.SplitBands(8000, n_bands=4)
        self.resample = julius.ResampleFrac(4, 3)
        self.long = julius.FFTConv1d(1, 2, 129, stride=4)
        self.low = julius.LowPassFilters([0.05, 0.2], fft=False)
        self.mixed = torch.nn.Parameter(torch.ones(4))

    def forward(self, given):
        bands = torch.einsum("b,bncl->ncl", self.mixed, self.bands(given))
        return self.low(self.long(self.resample(bands))).square().mean((0, 1, 3))


def build():
    def loss(model, given, levels):
        return torch.nn.functional.mse_loss(model(given), levels)

    return Net(), (sounds(), torch.tensor([0.5, 1.0])), loss


def more(model, inputs):
    import julius

    given = sounds(1, 3000).requires_grad_()
    found = {
        "resampled": julius.resample_frac(given, 44, 30),
        "whole": julius.resample_frac(given, 4, 3, full=True),
        "twice": julius.resample_frac(given, 1, 2, output_length=5000),
        "low": julius.lowpass_filter(given, 0.1),
        "low by FFT": julius.lowpass_filter(given, 0.01, fft=True, stride=2),
        "high": julius.highpass_filter(given, 0.2),
        "band": julius.bandpass_filter(given, 0.1, 0.3),
        "bands": julius.split_bands(given, 16000, cutoffs=[500, 2000]),
        "correlated": julius.fft_conv1d(given, torch.ones(3, 1, 200) / 200, padding=7),
        "overlapped": julius.core.pad_to(given, 3300)[..., -400:],
        "frames": julius.core.unfold(given, 64, 48) if hasattr(julius.core, "unfold") else given,
        "mels": julius.core.mel_frequencies(9, 20.0, 4000.0),
        "volume": julius.core.volume(given),
    }
    total = sum(each.square().mean() for each in found.values())
    (found["gradient"],) = torch.autograd.grad(total, given)
    return found
