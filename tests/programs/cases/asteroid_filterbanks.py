"""masks between encoder and decoder of a learned filterbank: loss; other banks, phases, PCEN"""

import numpy as np
import torch

PACKAGE = "asteroid-filterbanks"
# The gammatone filters ask NumPy for `np.float`, which it no longer has.
KINDS = ("free", "analytic_free", "param_sinc", "stft", "torch_stft")


def sounds(seed=0, *shape):
    values = np.random.default_rng(seed).standard_normal(shape or (2, 1, 400)).astype("float32")
    return torch.from_numpy(values)


class Separator(torch.nn.Module):
    """Two sources, by masks of what the encoder gives."""

    def __init__(self, kind="free"):
        super().__init__()
        from asteroid_filterbanks import make_enc_dec

        self.encoder, self.decoder = make_enc_dec(kind, 32, 32, stride=16)
        self.masks = torch.nn.Conv1d(self.encoder.n_feats_out, 2 * self.encoder.n_feats_out, 1)

    def forward(self, mixture):
        hidden = self.encoder(mixture)
        masks = torch.sigmoid(self.masks(hidden)).unflatten(1, (2, -1))
        return self.decoder(masks * hidden.unsqueeze(1), length=mixture.shape[-1])


def build():
    def loss(model, mixture, sources):
        return torch.nn.functional.mse_loss(model(mixture), sources)

    return Separator(), (sounds(), sounds(1, 2, 2, 400)), loss


def more(model, inputs):
    import asteroid_filterbanks as banks
    import driver
    from asteroid_filterbanks import griffin_lim, misi, pcen, transforms
    from asteroid_filterbanks.stft_fb import perfect_synthesis_window

    found = {}
    for kind in KINDS:
        other = Separator(kind)
        if kind == "param_sinc":
            # Frequencies, which are not to be of any kind.
            driver.fill(other.masks)
        else:
            driver.fill(other)
        given = sounds(2, 2, 1, 400).requires_grad_()
        result = other(given)
        result.square().mean().backward()
        found[kind] = result
        found[f"gradients of {kind}"] = torch.stack(
            [given.grad.norm(), *(each.grad.norm() for each in other.parameters())]
        )
        found[f"filters of {kind}"] = other.encoder.get_filters()
    bank = banks.FreeFB(16, 16, stride=8)
    driver.fill(bank)
    for name, part in (
        ("inverse decoder", banks.Decoder.pinv_of(bank)),
        ("inverse encoder", banks.Encoder.pinv_of(bank)),
    ):  # fmt: skip
        given = sounds(3, 2, 16, 9) if "decoder" in name else sounds(3, 2, 1, 80)
        found[name] = part(given)
        found[name].square().mean().backward()
        found[f"gradient of the {name}"] = bank._filters.grad.clone()
    encoder = banks.Encoder(bank, as_conv1d=False)
    for shape in ((80,), (2, 80), (2, 3, 80), (2, 3, 1, 80)):
        found[f"encoded {shape}"] = encoder(sounds(4, *shape))
    window = np.hanning(33)[:-1] ** 0.5
    synthesis = perfect_synthesis_window(window, 16)
    found["window"] = torch.from_numpy(np.asarray(synthesis))
    stft = banks.Encoder(banks.STFTFB(32, 32, stride=16, window=window))
    istft = banks.Decoder(banks.STFTFB(32, 32, stride=16, window=synthesis))
    spectrum = stft(sounds(5))
    found["back"] = istft(spectrum)
    found["like torch.stft"] = banks.Encoder(banks.TorchSTFTFB.from_torch_args(32, 16, 32))(
        sounds(5)
    )
    for change in ("mag", "reim", "magreim", "angle", "to_torch_complex", "to_torchaudio"):
        part = getattr(transforms, change)(spectrum)
        for each in part if isinstance(part, tuple) else (part,):
            each = torch.view_as_real(each) if each.is_complex() else each
            found[f"{change} {len(found)}"] = each
    size, phase = transforms.magphase(spectrum)
    found["centred"] = transforms.phase_centerfreq_correction(phase, 32, 16)
    found["of size and phase"] = transforms.from_magphase(size, phase)
    mask = torch.sigmoid(sounds(6, *spectrum.shape))
    for kind in ("real", "complex"):
        found[f"{kind} mask"] = getattr(transforms, f"apply_{kind}_mask")(spectrum, mask)
    found["mask of sizes"] = transforms.apply_mag_mask(spectrum, mask[:, : mask.shape[1] // 2])
    found["product"] = transforms.mul_c(spectrum, mask)
    start = torch.zeros_like(phase)
    found["Griffin and Lim"] = griffin_lim(size, stft, angles=start, istft_dec=istft, n_iter=3)
    sizes = torch.stack([size, size.flip(-1)], 1)[:, :, 0] if size.ndim == 4 else size.unsqueeze(1)
    found["MISI"] = misi(
        sounds(5), sizes.repeat(1, 2, 1, 1)[:, :2], stft, istft_dec=istft, n_iter=2,
        angles=torch.zeros_like(sizes.repeat(1, 2, 1, 1)[:, :2]),
    )  # fmt: skip
    for name, kind in (("PCEN", pcen.PCEN), ("stateful PCEN", pcen.StatefulPCEN)):
        energy = kind(n_channels=1, trainable=True)
        result = energy(size[:, None] if size.ndim == 3 else size)
        result = result if isinstance(result, tuple) else (result,)
        sum(each.square().mean() for each in result).backward()
        found[name] = result[0]
        found[f"gradients of {name}"] = torch.stack(
            [each.grad.norm() for each in energy.parameters() if each.grad is not None]
        )
    return found
