"""What is compared of convolutions, recurrent layers, transforms and images; see `number_cases`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.fuzz.number_cases import REAL, Case, call, find
from tests.fuzz.number_inputs import Inputs, apart, plain, shaped

SINGLE = ("float32", "float64")
#: What sums of a few dozen rounded products may be off by, in epsilons.
SUMMED = 8.0


def beside(edges: tuple[int, ...], *others: tuple[int, ...]) -> Inputs:
    """One array with edge values, and others of small numbers."""
    return lambda d, r: (*shaped(edges, share=0.05)(d, r), *plain(*others)(d, r))


def convolutions() -> Iterator[Case]:
    """Convolutions, and what else slides a window."""
    image, kernel = (2, 2, 4, 4), (3, 2, 2, 2)
    table: dict[str, tuple[Any, ...]] = {
        "conv1d": (call("F.conv1d"), (2, 2, 6), (3, 2, 2), (3,)),
        "conv2d": (call("F.conv2d"), image, kernel, (3,)),
        "conv2d, strided": (call("F.conv2d", None, 2, 1), image, kernel),
        "conv2d, dilated": (call("F.conv2d", None, 1, 2, 2), image, kernel),
        "conv2d, groups": (call("F.conv2d", groups=2), image, (4, 1, 2, 2)),
        "conv2d, empty": (call("F.conv2d"), (0, 2, 4, 4), kernel),
        "conv3d": (call("F.conv3d"), (1, 2, 3, 3, 3), (2, 2, 2, 2, 2), (2,)),
        "conv_tbc": (call("F.conv_tbc"), (4, 2, 2), (2, 2, 3), (3,)),
        "conv_transpose1d": (call("F.conv_transpose1d"), (2, 3, 5), (3, 2, 2), (2,)),
        "conv_transpose2d": (call("F.conv_transpose2d"), (2, 3, 3, 3), kernel, (2,)),
        "conv_transpose2d, strided": (
            call("F.conv_transpose2d", None, 2, 1, 1), (2, 3, 3, 3), kernel),
        "conv_transpose3d": (call("F.conv_transpose3d"), (1, 2, 3, 3, 3), (2, 2, 2, 2, 2), (2,)),
    }  # fmt: skip
    for name, (compute, *shapes) in table.items():
        operator, _, use = name.partition(", ")
        for kind, inputs in (("plain", plain(*shapes)), ("edges", beside(*shapes))):
            label = ", ".join(each for each in (use, kind) if each)
            dtypes = REAL if name == "conv2d" and kind == "plain" else SINGLE
            yield Case(f"convolution.{operator}", label, compute, inputs, dtypes, SUMMED)


def windows() -> Iterator[Case]:
    """Pooling of volumes, unpooling, and layers without a case elsewhere."""
    volume, signal = shaped((1, 2, 4, 4, 4), share=0.1), shaped((2, 3, 7), share=0.1)
    yield Case("pooling.max_pool3d", "", call("F.max_pool3d", 2), volume, REAL)
    yield Case("pooling.avg_pool3d", "", call("F.avg_pool3d", 2), volume, SINGLE)
    yield Case("pooling.adaptive_avg_pool1d", "", call("F.adaptive_avg_pool1d", 3), signal, SINGLE)
    yield Case(
        "pooling.adaptive_avg_pool1d", "up", call("F.adaptive_avg_pool1d", 9), signal, SINGLE
    )
    yield Case("pooling.adaptive_avg_pool3d", "", call("F.adaptive_avg_pool3d", 3), volume, SINGLE)

    def unpool(lib: Any, x: Any) -> Any:
        # Every place once: of those that occur twice either value may win.
        places = lib.tensor([[[0, 3, 5], [1, 2, 4]]])
        return lib.nn.functional.max_unpool1d(x, places, 2)

    yield Case("unpooling.max_unpool", "", unpool, shaped((1, 2, 3), share=0.3), SINGLE)

    def fractional(lib: Any, x: Any) -> Any:
        samples = lib.full((1, 2, 2), 0.4, dtype=x.dtype)
        return lib.nn.functional.fractional_max_pool2d(x, 2, 3, _random_samples=samples)

    yield Case("unpooling.fractional_max_pool", "", fractional,
               shaped((1, 2, 5, 5), share=0.1), SINGLE)  # fmt: skip
    for shape in ((2, 3, 4, 4), (2, 3, 6)):
        norm = call("F.instance_norm")
        yield Case("normalization.instance_norm", f"{len(shape)}-d", norm, plain(shape), REAL, 4)


def recurrent() -> Iterator[Case]:
    """Recurrent layers and cells, packed sequences."""
    steps, width = 3, 2
    for kind, gates, states in (
        ("gru", 3, 1),
        ("lstm", 4, 2),
        ("rnn_tanh", 1, 1),
        ("rnn_relu", 1, 1),
    ):
        shapes = [(2, steps, 3)] + [(1, 2, width)] * states
        weights = [(gates * width, 3), (gates * width, width), (gates * width,), (gates * width,)]
        for edge, inputs in (("", plain(*shapes, *weights)), ("edges", beside(*shapes, *weights))):
            dtypes = (*SINGLE, "bfloat16") if not edge else ("float32",)
            case, name = _layer(kind, states), f"{kind} {edge}"
            # And 1 - tanh(x) ** 2 is what is left of two numbers near 1.
            yield Case("recurrent.recurrent_layers", name, case, inputs, dtypes, SUMMED + 8)
        shapes = [(2, 3)] + [(2, width)] * states
        for edge, inputs in (("", plain(*shapes, *weights)), ("edges", beside(*shapes, *weights))):
            dtypes = (*SINGLE, "bfloat16") if not edge else ("float32",)
            yield Case(
                "recurrent.cell", f"{kind} {edge}", _cell(kind, states), inputs, dtypes, SUMMED
            )

    def sequences(lib: Any) -> Any:
        return lib.nn.utils.rnn

    def packed(lib: Any, x: Any) -> Any:
        return sequences(lib).pack_padded_sequence(x, [3, 1], batch_first=True).data

    yield Case("packed_sequences.pack_steps", "", packed, shaped((2, 3, 2), share=0.3), REAL)

    def padded(lib: Any, x: Any) -> Any:
        both = sequences(lib).PackedSequence(x, lib.tensor([2, 1, 1]))
        return sequences(lib).pad_packed_sequence(both, padding_value=0.5)[0]

    yield Case("packed_sequences.pad_steps", "", padded, shaped((4, 2), share=0.3), REAL)

    def again(lib: Any, x: Any) -> Any:
        packed = sequences(lib).pack_padded_sequence(x, [3, 1], batch_first=True)
        return sequences(lib).pad_packed_sequence(packed, True, 0.5, 4)[0]

    yield Case("packed_sequences.fill_behind", "", again, shaped((2, 3, 2), share=0.3), REAL)
    listed = lambda lib, x, y: sequences(lib).pad_sequence([x, y], True, 0.5)  # noqa: E731
    yield Case("packed_sequences.pad_all", "", listed, shaped((3, 2), (2, 2), share=0.3), REAL)

    def run(lib: Any, x: Any) -> Any:
        layer = lib.nn.GRU(2, 2, dtype=x.dtype)
        for place, each in enumerate(layer.parameters()):
            each.data.fill_(0.25 * (place + 1))
        output, last = layer(sequences(lib).pack_padded_sequence(x, [3, 2]))
        return output.data, last

    yield Case("packed_sequences.batch_steps", "", run, plain((3, 2, 2)), SINGLE)


def _layer(kind: str, states: int) -> Any:
    def compute(lib: Any, x: Any, *tensors: Any) -> Any:
        first = tensors[0] if states == 1 else tensors[:states]
        result = getattr(lib, kind)(x, first, tensors[states:], True, 1, 0.0, False, False, True)
        return tuple(result)

    return compute


def _cell(kind: str, states: int) -> Any:
    def compute(lib: Any, x: Any, *tensors: Any) -> Any:
        first = tensors[0] if states == 1 else tensors[:states]
        return getattr(lib, f"{kind}_cell")(x, first, *tensors[states:])

    return compute


def transforms() -> Iterator[Case]:
    """Fourier transforms."""
    complexes = ("complex64", "complex128")
    inputs = {"": plain((3, 6)), "edges": shaped((9, 6), share=0.1), "one": plain((3, 1))}
    for edge, made in inputs.items():
        for name in ("fft", "ifft"):
            case = call(f"fft.{name}")
            yield Case(
                "fourier.complex_to_complex", f"{name} {edge}", case, made, complexes, SUMMED
            )
        for name in ("rfft", "ihfft"):
            case = call(f"fft.{name}")
            yield Case("fourier.real_to_complex", f"{name} {edge}", case, made, SINGLE, SUMMED)
        for name in ("irfft", "hfft"):
            case = call(f"fft.{name}", 5, norm="ortho")
            yield Case("fourier.complex_to_real", f"{name} {edge}", case, made, complexes, SUMMED)
    yield Case("fourier.complex_to_complex", "fft2", call("fft.fft2", (4, 3)), plain((2, 3, 5)),
               complexes, SUMMED)  # fmt: skip

    def there_and_back(lib: Any, x: Any) -> Any:
        window = lib.hann_window(4, dtype=x.dtype)
        spectrum = lib.stft(x, 4, 2, window=window, return_complex=True)
        return lib.istft(spectrum, 4, 2, window=window), spectrum.abs()

    yield Case("short_time_fourier.overlap_add", "", there_and_back, plain((2, 12)), SINGLE, SUMMED)


def grids(d: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Images of small numbers, and places inside, at the border, outside, and nowhere."""
    (image,) = plain((1, 2, 4, 4))(d, random)
    inside = random.permutation(np.linspace(-1.3, 1.3, 24)).reshape(1, 3, 4, 2)
    return image, inside.astype(image.dtype)


def images() -> Iterator[Case]:
    """Sampled grids and resized images."""
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (True, False):
                case = call("F.grid_sample", mode, padding, corners)
                name = f"{mode}, {padding}, {corners}"
                yield Case("grids.grid_sample", name, case, grids, ("float32",), SUMMED)
        case = call("F.grid_sample", mode, "zeros", False)
        edge = lambda d, r: (*shaped((1, 2, 4, 4), share=0.2)(d, r), grids(d, r)[1])  # noqa: E731
        yield Case("grids.grid_sample", f"{mode}, edges", case, edge, SINGLE, SUMMED)

        def nowhere(d: str, r: Any) -> Any:
            image, places = grids(d, r)
            places[0, 0, :, 0] = [np.nan, np.inf, -np.inf, 1e30]
            return image, places

        if mode != "bicubic":
            for padding in ("zeros", "border"):
                # PyTorch's backward reads outside of the image there, and may crash.
                case = lambda lib, x, g, mode=mode, padding=padding: (  # noqa: E731
                    lib.nn.functional.grid_sample(x.detach(), g.detach(), mode, padding, False)
                )
                name = f"{mode}, {padding}, nowhere"
                yield Case("grids.grid_sample", name, case, nowhere, ("float32",), SUMMED)
    volume = lambda d, r: (  # noqa: E731
        *plain((1, 2, 3, 3, 3))(d, r),
        r.permutation(np.linspace(-1.2, 1.2, 24)).reshape(1, 2, 2, 2, 3).astype(d),
    )
    for mode in ("bilinear", "nearest"):
        case = call("F.grid_sample", mode, "zeros", False)
        yield Case("grids.grid_sample", f"volume, {mode}", case, volume, SINGLE, SUMMED)
    for corners in (True, False):
        flat = call("F.affine_grid", (2, 2, 3, 4), corners)
        yield Case("grids.affine_grid_generator", f"{corners}", flat, plain((2, 2, 3)), SINGLE, 4)
        deep = call("F.affine_grid", (2, 2, 3, 4, 2), corners)
        yield Case(
            "grids.affine_grid_generator", f"volume, {corners}", deep, plain((2, 3, 4)), SINGLE, 4
        )
        edge = shaped((2, 2, 3), share=0.2)
        yield Case("grids.affine_grid_generator", f"edges, {corners}", flat, edge, SINGLE, 4)
    for mode, dims in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)):
        inputs = plain((2, 2, *(4,) * dims))
        for size in (7, 3, 1):
            for corners in (True, False):
                case = call("F.interpolate", (size,) * dims, mode=mode, align_corners=corners)
                name = f"{mode}, {size}, {corners}"
                dtypes = REAL if size == 7 and dims < 3 else ("float32",)
                yield Case("resampling.interpolate_smoothly", name, case, inputs, dtypes, SUMMED)
        if dims == 2:
            case = call("F.interpolate", (3, 2), mode=mode, antialias=True)
            yield Case("resampling.interpolate_smoothly", f"{mode}, antialias", case, inputs,
                       SINGLE, SUMMED)  # fmt: skip
    area = call("F.interpolate", 3, mode="area")
    yield Case("pooling.adaptive_avg_pool2d", "area", area, shaped((1, 2, 4, 4), share=0.2), SINGLE)
    for mode in ("nearest", "nearest-exact"):
        for size in (3, 7):
            case = call("F.interpolate", size, mode=mode)
            edge = shaped((1, 2, 4, 4), share=0.3)
            yield Case("resampling.interpolate_nearest", f"{mode}, {size}", case, edge, SINGLE)


def sequences() -> Iterator[Case]:
    """Losses of sequences and of margins, attention with projections, and random draws."""

    def ctc(lib: Any, x: Any, lengths: list[int], targets: list[int], **more: Any) -> Any:
        labels = lib.tensor([[1, 2, 2], [3, 1, 1], [2, 1, 3]])
        return lib.nn.functional.ctc_loss(
            x.log_softmax(-1), labels, lib.tensor(lengths), lib.tensor(targets), **more
        )

    uses: dict[str, tuple[Any, ...]] = {
        "": ([6, 6, 6], [3, 2, 1]),
        "shorter": ([6, 4, 2], [3, 2, 1]),
        "nothing": ([6, 6, 1], [0, 2, 0]),
        "repeated": ([6, 4, 4], [3, 3, 3]),
    }
    for use, lengths in uses.items():
        for reduction in ("mean", "sum", "none"):
            case = lambda lib, x, lengths=lengths, reduction=reduction: ctc(  # noqa: E731
                lib, x, *lengths, reduction=reduction
            )
            yield Case("ctc.ctc_loss", f"{use} {reduction}", case, plain((6, 3, 4)), SINGLE, SUMMED)
    for more in ({}, {"zero_infinity": True}):
        case = lambda lib, x, more=more: ctc(lib, x, [6, 3, 1], [3, 3, 3], **more)  # noqa: E731
        yield Case("ctc.ctc_loss", f"impossible {more}", case, plain((6, 3, 4)), SINGLE, SUMMED)
        case = lambda lib, x, more=more: ctc(lib, x, [6, 6, 6], [3, 2, 1], **more)  # noqa: E731
        edge = shaped((6, 3, 4), share=0.02)
        yield Case("ctc.ctc_loss", f"edges {more}", case, edge, SINGLE, SUMMED)

    def labels(lib: Any, x: Any) -> Any:
        given = lib.tensor([[2, 0, -1, 1], [1, -1, 0, 0], [-1, 0, 0, 0], [0, 1, 2, 3]]).repeat(
            15, 1
        )
        return lib.nn.functional.multilabel_margin_loss(x, given, reduction="none")

    yield Case("margin_loss.multilabel_margin_loss", "", labels, _sixty_rows(0.0), SINGLE)
    yield Case("margin_loss.multilabel_margin_loss", "edges", labels, _sixty_rows(0.2), SINGLE)
    distances = lambda lib, *tensors: lib.nn.functional.triplet_margin_with_distance_loss(  # noqa: E731
        *tensors, distance_function=lambda x, y: (x - y).abs().sum(-1), swap=True, reduction="none"
    )
    yield Case(
        "margin_loss.triplet_of_distances", "", distances, plain((6, 4), (6, 4), (6, 4)), SINGLE
    )

    def fused(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return lib.nn.functional.linear_cross_entropy(x, w, lib.tensor([2, 0, -100]), linear_bias=b)

    yield Case("linear_cross_entropy.linear_cross_entropy", "", fused,
               plain((3, 4), (3, 4), (3,)), SINGLE, SUMMED)  # fmt: skip

    def attended(lib: Any, x: Any, y: Any, projection: Any, bias: Any, out: Any) -> Any:
        layer = lib.nn.MultiheadAttention(4, 2, batch_first=True, bias=False, dtype=x.dtype)
        given = {"in_proj_weight": projection, "out_proj.weight": out}
        return lib.func.functional_call(layer, given, (x + bias, y, y))

    shapes = ((2, 3, 4), (2, 5, 4), (12, 4), (4,), (4, 4))
    yield Case("multihead.multi_head_attention", "", attended, apart(*shapes), SINGLE, 64)

    def drawn(name: str, **more: Any) -> Any:
        def compute(lib: Any, x: Any) -> Any:
            lib.manual_seed(0)
            return find(lib, f"F.{name}")(x, **more)

        return compute

    for edge, inputs in (("", plain((5, 4))), ("edges", shaped((30, 4), share=0.2))):
        soft, slopes = drawn("gumbel_softmax", tau=0.7), drawn("rrelu", training=True)
        yield Case("activation.gumbel_softmax", edge, soft, inputs, ("float32",), SUMMED)
        yield Case("activation.rrelu_with_noise", edge, slopes, inputs, ("float32",))


def _sixty_rows(share: float) -> Inputs:
    return shaped((60, 4), share=share)


def networks() -> Iterator[Case]:
    """Every case of this module."""
    yield from convolutions()
    yield from windows()
    yield from recurrent()
    yield from transforms()
    yield from images()
    yield from sequences()
