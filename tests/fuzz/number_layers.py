"""What is compared of layers and losses; see `number_cases`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fuzz.number_cases import REAL, Case, call, find
from tests.fuzz.number_inputs import cancelling, large, one, plain, rows_of, shaped, two

SINGLE = ("float32", "float64")
TABLE = rows_of(4)
PAIR = shaped((6, 4), (6, 4), share=0.25)
EDGES = shaped((2, 3, 4, 4), share=0.3)
SIGNAL = shaped((2, 3, 6), share=0.3)


def losses() -> Iterator[Case]:
    """Losses, of every pair of edge values and reduced."""
    names = "mse_loss l1_loss huber_loss smooth_l1_loss"
    for name in names.split():
        path = f"F.{name}"
        for reduction in ("none", "mean"):
            inputs = two if reduction == "none" else plain((4, 3), (4, 3))
            case = call(path, reduction=reduction)
            yield Case(f"regression_loss.{name}", reduction, case, inputs, REAL)
        yield Case(f"regression_loss.{name}", "large", call(path), large((4, 3), (4, 3)), REAL)
    yield Case("regression_loss.smooth_l1_loss", "beta 0",
               call("F.smooth_l1_loss", reduction="none", beta=0.0), two, REAL)  # fmt: skip
    yield Case("regression_loss.huber_loss", "delta 0.5",
               call("F.huber_loss", reduction="none", delta=0.5), two, REAL)  # fmt: skip
    none: dict[str, Any] = {"reduction": "none"}
    logits = call("F.binary_cross_entropy_with_logits", **none)
    yield Case("loss.binary_cross_entropy_with_logits", "", logits, two, REAL)

    def entropy(lib: Any, x: Any, y: Any) -> Any:
        inside = lambda t: lib.where((t >= 0) & (t <= 1), t, lib.zeros_like(t))  # noqa: E731
        return lib.nn.functional.binary_cross_entropy(inside(x), inside(y.detach()), **none)

    yield Case("loss.binary_cross_entropy", "", entropy, two, REAL)

    def classes(name: str, **more: Any) -> Any:
        def compute(lib: Any, x: Any) -> Any:
            target = lib.arange(x.shape[0]) % x.shape[1]
            target[::5] = -100
            return find(lib, f"F.{name}")(x, target, **more)

        return compute

    for name in ("cross_entropy", "nll_loss"):
        yield Case(f"loss.{name}", "", classes(name, **none), TABLE, REAL)
        yield Case(f"loss.{name}", "mean", classes(name), plain((6, 4)), REAL)
        yield Case(f"loss.{name}", "large", classes(name), large((6, 4)), REAL)
    smooth = classes("cross_entropy", label_smoothing=0.1, **none)
    yield Case("loss.cross_entropy", "smoothed", smooth, TABLE, REAL)
    yield Case("loss.kl_div", "", call("F.kl_div", **none), two, REAL)
    yield Case("loss.kl_div", "log", call("F.kl_div", log_target=True, **none), two, REAL)
    yield Case("loss.poisson_nll_loss", "", call("F.poisson_nll_loss", **none), two, REAL)
    full = call("F.poisson_nll_loss", full=True, log_input=False, **none)
    yield Case("loss.poisson_nll_loss", "full", full, two, REAL)

    def gaussian(lib: Any, x: Any, y: Any) -> Any:
        variance = (y * 0 + 1).nan_to_num(0.5, 0.5, 0.5)
        return lib.nn.functional.gaussian_nll_loss(x, y, variance, **none)

    yield Case("loss.gaussian_nll_loss", "", gaussian, two, REAL)

    def signed(name: str, **more: Any) -> Any:
        def compute(lib: Any, *tensors: Any) -> Any:
            signs = lib.ones(tensors[0].shape[0], dtype=tensors[0].dtype)
            signs[::2] = -1
            return find(lib, f"F.{name}")(*tensors, signs, **none, **more)

        return compute

    yield Case("margin_loss.hinge_embedding_loss", "", signed("hinge_embedding_loss"), one, REAL)
    yield Case("margin_loss.soft_margin_loss", "", signed("soft_margin_loss"), one, REAL)
    ranking = signed("margin_ranking_loss", margin=0.25)
    yield Case("margin_loss.margin_ranking_loss", "", ranking, two, REAL)
    cosine = signed("cosine_embedding_loss", margin=-0.5)
    yield Case("margin_loss.cosine_embedding_loss", "", cosine, PAIR, SINGLE)
    yield Case("margin_loss.multi_margin_loss", "",
               lambda lib, x: lib.nn.functional.multi_margin_loss(
                   x, lib.arange(60) % 4, reduction="none"), TABLE, SINGLE)  # fmt: skip
    triplet = call("F.triplet_margin_loss", **none)
    yield Case("margin_loss.triplet_margin_loss", "", triplet,
               plain((6, 4), (6, 4), (6, 4)), REAL)  # fmt: skip
    many = lambda lib, x: lib.nn.functional.multilabel_soft_margin_loss(  # noqa: E731
        x, (x.detach() > 0).to(x.dtype), reduction="none"
    )
    yield Case("margin_loss.multilabel_soft_margin_loss", "", many, TABLE, REAL)


def layers() -> Iterator[Case]:
    """Pooling, normalization, convolution, attention and products of matrices."""
    yield Case("pooling.max_pool1d", "", call("F.max_pool1d", 2), SIGNAL, SINGLE)
    yield Case("pooling.max_pool2d", "", call("F.max_pool2d", 2), EDGES, REAL)
    yield Case("pooling.max_pool2d", "overlapping", call("F.max_pool2d", 3, 1, 1), EDGES, SINGLE)
    with_places = call("F.max_pool2d", 2, return_indices=True)
    yield Case("pooling.max_pool_with_indices", "", with_places, EDGES, SINGLE)
    yield Case("pooling.adaptive_max_pool", "", call("F.adaptive_max_pool2d", 3), EDGES, SINGLE)
    yield Case("pooling.avg_pool1d", "", call("F.avg_pool1d", 2), SIGNAL, REAL)
    yield Case("pooling.avg_pool2d", "padded", call("F.avg_pool2d", 2, padding=1), EDGES, SINGLE)
    yield Case("pooling.adaptive_avg_pool2d", "", call("F.adaptive_avg_pool2d", 3), EDGES, REAL)
    pool = call("F.lp_pool2d", 3.0, 2)
    yield Case("unpooling.lp_pool", "", pool, plain((1, 2, 4, 4)), SINGLE)
    for order in (1.0, 2.0, 3.0):
        normal = call("F.normalize", order)
        yield Case("normalization.normalize", f"{order}", normal, TABLE, REAL)
        yield Case("normalization.normalize", f"{order}, large", normal, large((3, 4)), REAL)
    norm = lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (4,), w[0], b[0])  # noqa: E731
    affine = lambda d, r: (*TABLE(d, r), *plain((1, 4), (1, 4))(d, r))  # noqa: E731
    yield Case("normalization.layer_norm", "", norm, affine, SINGLE)
    numbers = plain((6, 4), (1, 4), (1, 4))
    # Of a row with almost equal members the terms of the gradient cancel.
    yield Case("normalization.layer_norm", "plain", norm, numbers, REAL, slack=32)
    rms = lambda lib, x, w, b: lib.nn.functional.rms_norm(x, (4,), w[0]) + b  # noqa: E731
    yield Case("normalization.rms_norm", "plain", rms, numbers, REAL)
    yield Case("normalization.rms_norm", "large",
               lambda lib, x: lib.nn.functional.rms_norm(x, (4,)), large((3, 4)), REAL)  # fmt: skip
    batch = lambda lib, x, w, b: lib.nn.functional.batch_norm(  # noqa: E731
        x, None, None, w[0], b[0], True
    )
    yield Case("normalization.batch_norm", "plain", batch, numbers, REAL)
    image = plain((2, 4, 3, 3), (4,), (4,))
    group = lambda lib, x, w, b: lib.nn.functional.group_norm(x, 2, w, b)  # noqa: E731
    yield Case("normalization.group_norm", "plain", group, image, SINGLE)
    local = call("F.local_response_norm", 2)
    yield Case("normalization.local_response_norm", "", local, plain((2, 4, 3, 3)), SINGLE)
    yield Case("linalg.linear", "cancelling",
               lambda lib, x, w, b: lib.nn.functional.linear(x * 0, w, b),
               lambda d, r: (cancelling(d, r)[0].T.copy(), *plain((1, 3), (1,))(d, r)),
               REAL)  # fmt: skip
    for name in ("mm", "matmul"):
        yield Case(f"linalg.{name}", "", lambda lib, x, y, name=name: find(lib, name)(x, y.t()),
                   PAIR, SINGLE)  # fmt: skip
        yield Case(f"linalg.{name}", "plain",
                   lambda lib, x, y, name=name: find(lib, name)(x, y.t()),
                   plain((6, 4), (6, 4)), REAL)  # fmt: skip
    yield Case("linalg.outer", "", lambda lib, x, y: lib.outer(x[:, 0], y[:, 0]), PAIR, REAL)
    yield Case("linalg.trace", "", call("trace"), plain((4, 4)), REAL)
    yield Case(
        "linalg.dot", "", lambda lib, x, y: x[:, 0].dot(y[:, 0]), plain((6, 4), (6, 4)), REAL
    )
    attend = call("F.scaled_dot_product_attention")
    # The weights, of sum 1, are rounded to half precision before they multiply values up to 3.
    yield Case("attention.scaled_dot_product_attention", "", attend,
               plain((1, 3, 4), (1, 3, 4), (1, 3, 4)), REAL, slack=2)  # fmt: skip
    yield Case("resampling.interpolate_nearest", "", call("F.interpolate", 9), SIGNAL, REAL)
    smooth = call("F.interpolate", 9, mode="linear")
    yield Case("resampling.interpolate_smoothly", "", smooth, plain((2, 3, 6)), REAL)
