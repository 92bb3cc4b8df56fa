"""a Conformer: loss; wav2vec 2.0, 12 transforms of sound, and filters"""

import numpy as np
import torch

PACKAGE = "torchaudio"


def sound(seed, size, channels=2):
    values = np.random.default_rng(seed).standard_normal((channels, size)).astype("float32")
    return torch.from_numpy(0.1 * values)


def build():
    from torchaudio.models import Conformer

    model = Conformer(
        input_dim=16, num_heads=2, ffn_dim=32, num_layers=2, depthwise_conv_kernel_size=31
    )
    features = np.random.default_rng(0).standard_normal((2, 20, 16)).astype("float32")

    def loss(model, features, lengths):
        found, _ = model(features, lengths)
        return found.square().mean() + found[:, 0].sum()

    return model, (torch.from_numpy(features), torch.tensor([20, 13])), loss


def more(model, inputs):
    import driver
    import torchaudio
    from torchaudio import functional, transforms

    wave = sound(1, 8000)
    found = {
        "mel": transforms.MelSpectrogram(sample_rate=16000, n_fft=400, n_mels=40)(wave),
        "mfcc": transforms.MFCC(
            sample_rate=16000, n_mfcc=13, melkwargs={"n_fft": 400, "n_mels": 40}
        )(wave),
        "resampled": transforms.Resample(44100, 16000)(wave),
        "resampled up": transforms.Resample(16000, 22050)(wave),
        "decibels": transforms.AmplitudeToDB()(wave.square()),
        "deltas": transforms.ComputeDeltas()(wave[:, :100]),
        "encoded": transforms.MuLawEncoding()(wave),
        "decoded": transforms.MuLawDecoding()(transforms.MuLawEncoding()(wave)),
        "faded": transforms.Fade(100, 200)(wave),
        "stretched": transforms.TimeStretch(n_freq=201, fixed_rate=1.3)(
            transforms.Spectrogram(power=None)(wave)
        ).abs(),
        "griffin and lim": transforms.GriffinLim(n_fft=100, n_iter=4, rand_init=False)(
            transforms.Spectrogram(n_fft=100)(wave[:, :2000])
        ),
        "shifted": transforms.PitchShift(16000, 4)(wave[:, :4000]).detach(),
        "biquad": functional.lowpass_biquad(wave[:, :200], 16000, 3000),
        "filtered": functional.lfilter(
            wave[:, :200], torch.tensor([1.0, 0.4, 0.2]), torch.tensor([0.5, 0.2, 0.1])
        ),
    }
    other = torchaudio.models.wav2vec2_base(aux_num_out=8, encoder_projection_dropout=0.0).eval()
    driver.fill(other)
    with torch.no_grad():
        found["wav2vec2"] = other(sound(2, 4800, 1))[0]
    return found
