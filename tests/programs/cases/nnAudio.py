"""a classifier on a trained mel spectrogram; 8 transforms of sound, their gradients, inverses"""

import numpy as np
import torch

PACKAGE = "nnAudio"


def sounds(length=4000):
    times = np.arange(length) / 4000
    waves = np.sin(2 * np.pi * np.array([[220.0], [660.0]]) * times)
    noise = np.random.default_rng(0).standard_normal((2, length))
    return torch.from_numpy((waves + 0.1 * noise).astype("float32"))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from nnAudio import features

        self.mels = features.MelSpectrogram(
            sr=4000, n_fft=256, n_mels=16, hop_length=128, trainable_mel=True, trainable_STFT=True,
            verbose=False,
        )  # fmt: skip
        self.head = torch.nn.Linear(16, 3)

    def forward(self, given):
        return self.head((1 + self.mels(given)).log().mean(2))


def build():
    def loss(model, given, labels):
        return torch.nn.functional.cross_entropy(model(given), labels)

    return Net(), (sounds(), torch.tensor([0, 2])), loss


def more(model, inputs):
    from nnAudio import features

    given = sounds()
    found = {}
    pitch = {"sr": 4000, "hop_length": 128, "fmin": 110, "n_bins": 24, "verbose": False}
    transforms = {
        "STFT": {"n_fft": 256, "verbose": False, "sr": 4000},
        "STFT, logarithmic": {
            "n_fft": 256, "freq_bins": 40, "freq_scale": "log", "fmin": 50, "fmax": 1500,
            "sr": 4000, "output_format": "Magnitude", "verbose": False,
        },
        "MFCC": {"sr": 4000, "n_mfcc": 8, "n_fft": 256, "n_mels": 16, "verbose": False},
        "Gammatonegram": {"sr": 4000, "n_fft": 256, "n_bins": 12, "verbose": False},
        "CQT1992v2": pitch, "CQT2010v2": pitch, "VQT": pitch,
    }  # fmt: skip
    for name, options in transforms.items():
        layer = getattr(features, name.partition(",")[0])(**options)
        values = given.clone().requires_grad_()
        result = layer(values)
        result = result[0] if isinstance(result, tuple) else result
        found[name] = result
        (found[f"gradient, {name}"],) = torch.autograd.grad(result.square().mean(), values)
    both = features.STFT(n_fft=256, iSTFT=True, output_format="Complex", sr=4000, verbose=False)
    spectrum = both(given)
    found["there and back"] = both.inverse(spectrum, length=given.shape[-1])
    found["back"] = features.iSTFT(n_fft=256, verbose=False)(spectrum, onesided=True, length=4000)
    return found
