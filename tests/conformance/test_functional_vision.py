"""Images in nn.functional against PyTorch: padding, folding, resampling, grids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def call(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib.nn.functional, name)(*tensors, *args, **kwargs)


LINE, IMAGE, VOLUME = random(2, 3, 7), random(2, 3, 6, 7), random(2, 3, 4, 5, 6)


def padding_rows() -> Iterator[Row]:
    yield Row("constant", call("pad", (1, 2)), (LINE,))
    yield Row("constant crop", call("pad", (1, -2, -1, 3), value=2.5), (IMAGE,))
    yield Row("constant integers", call("pad", (1, 2), value=7), (np.ones((2, 2), np.int64),))
    yield Row("constant bools", call("pad", [1, 2]), (np.ones(2, bool),))
    yield Row("constant odd", call("pad", (1, 2, 3)), (LINE,))
    yield Row("constant of too many", call("pad", (1, 1) * 4), (LINE,))
    yield Row("constant crop too much", call("pad", (-4, -4)), (LINE,))
    for mode in ("reflect", "replicate", "circular"):
        for name, pad, x in (
            ("1-d", (1, 2), LINE),
            ("2-d", (1, 2, 3, 0), IMAGE),
            ("3-d", (1, 2, 3, 0, 1, 1), VOLUME),
            ("unbatched", (1, 2), LINE[0]), ("crop", (-1, 2), LINE), ("long", (9, 8), LINE),
        ):  # fmt: skip
            yield Row(f"{mode} {name}", call("pad", pad, mode), (x,), node=False)
        yield Row(f"{mode} of one dimension of four", call("pad", (1, 2), mode), (IMAGE,))
        yield Row(f"{mode} of a vector", call("pad", (1, 2), mode), (LINE[0, 0],))
        yield Row(f"{mode} with a value", call("pad", (1, 2), mode, 3.0), (LINE,))
        yield Row(f"{mode} of no batch", call("pad", (1, 2), mode), (LINE[:0],), node=False)
    for mode in ("reflect", "replicate"):
        yield Row(f"{mode} of no channels", call("pad", (1, 2), mode), (LINE[:, :0],))
        yield Row(f"{mode} of no channels unbatched", call("pad", (1, 2), mode), (LINE[0, :0],))
    yield Row("another mode", call("pad", (1, 2), "mirror"), (LINE,))


def folding_rows() -> Iterator[Row]:
    yield Row("unfold", call("unfold", 3, 1, 1, 2), (IMAGE,))
    yield Row("unfold unbatched", call("unfold", (2, 3), 2, 3, 1), (IMAGE[0],), node=False)
    yield Row("unfold too large", call("unfold", 9), (IMAGE,))
    for argument in ("kernel_size", "dilation", "padding", "stride"):
        for wrong in ((1,), (1, 1, 1), None):
            row = call("unfold", **{"kernel_size": 2, argument: wrong})
            yield Row(f"unfold by {argument} {wrong}", row, (IMAGE,))
    for wrong in ((6,), None):
        yield Row(f"fold to {wrong}", call("fold", wrong, 2), (random(12, 30),))
    columns = random(2, 18, 16)
    yield Row("fold", call("fold", (6, 7), (2, 3), 1, 1, 2), (columns,))
    yield Row("fold unbatched", call("fold", (6, 7), 2, 2, 0, 2), (random(12, 6),), node=False)
    yield Row("fold of odd rows", call("fold", (6, 7), (2, 2), 1, 1, 2), (columns,))
    yield Row("fold of odd columns", call("fold", (6, 7), (2, 3)), (columns,))
    yield Row("pixel_shuffle", call("pixel_shuffle", 2), (random(2, 8, 3, 4),))
    yield Row("pixel_shuffle unbatched", call("pixel_shuffle", 2), (random(8, 3, 4),))
    yield Row("pixel_shuffle of odd channels", call("pixel_shuffle", 2), (random(2, 6, 3, 4),))
    yield Row("pixel_shuffle of lines", call("pixel_shuffle", 2), (random(3, 4),))
    yield Row("pixel_unshuffle", call("pixel_unshuffle", 2), (random(2, 3, 4, 6),))
    yield Row("pixel_unshuffle of odd sizes", call("pixel_unshuffle", 2), (IMAGE,))
    yield Row("channel_shuffle", call("channel_shuffle", 3), (random(2, 6, 3),), node=False)
    yield Row("channel_shuffle of odd groups", call("channel_shuffle", 4), (random(2, 6, 3),))


SIZES: list[dict[str, Any]] = [
    {"size": 11},
    {"size": 4},
    {"size": 1},
    {"scale_factor": 2},
    {"scale_factor": 1.7},
    {"scale_factor": 0.6},
    {"scale_factor": 0.6, "recompute_scale_factor": True},
]


def resampling_rows() -> Iterator[Row]:
    for options in SIZES:
        for n, x in ((1, LINE), (2, IMAGE), (3, VOLUME)):
            modes = ["nearest", "nearest-exact", "area"] if n == 2 or options is SIZES[4] else []
            for mode in modes:
                row = call("interpolate", mode=mode, **options)
                yield Row(f"{mode} {n}-d {options}", row, (x,), 1e-5, node=False)
            for corners in (True, False):
                mode = ("linear", "bilinear", "trilinear")[n - 1]
                row = call("interpolate", mode=mode, align_corners=corners, **options)
                yield Row(f"{mode} {corners} {options}", row, (x,), 2e-5, node=False)
        for corners in (True, False):
            row = call("interpolate", mode="bicubic", align_corners=corners, **options)
            yield Row(f"bicubic {corners} {options}", row, (IMAGE,), 1e-4, node=False)
            for mode in ("bilinear", "bicubic"):
                row = call(
                    "interpolate", mode=mode, align_corners=corners, antialias=True, **options
                )
                yield Row(f"{mode} smooth {corners} {options}", row, (IMAGE,), 1e-4, node=False)
        row = call("interpolate", mode="lanczos", antialias=True, **options)
        yield Row(f"lanczos {options}", row, (IMAGE,), 1e-4, node=False)
    row = call("interpolate", size=(9, 3), mode="lanczos", antialias=True)
    yield Row("lanczos of doubles", row, (IMAGE.astype(np.float64),), node=False)


def test_positions_in_long_lines_are_rounded_as_in_pytorch() -> None:
    line = np.random.default_rng(1).standard_normal((1, 1, 16000)).astype(np.float32)
    compare(Row("sound", call("interpolate", size=44100, mode="linear"), (line,), node=False))


def refused_resampling_rows() -> Iterator[Row]:
    refused: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
        "size and factor": (IMAGE, {"size": 3, "scale_factor": 2}),
        "neither": (IMAGE, {}),
        "corners of nearest": (IMAGE, {"size": 3, "align_corners": True}),
        "bilinear lines": (LINE, {"size": 3, "mode": "bilinear"}),
        "linear images": (IMAGE, {"size": 3, "mode": "linear"}),
        "another mode": (IMAGE, {"size": 3, "mode": "sharp"}),
        "three sizes": (IMAGE, {"size": (3, 3, 3)}),
        "three factors": (IMAGE, {"scale_factor": (3, 3, 3)}),
        "no size": (IMAGE, {"size": 0}),
        "smooth nearest": (IMAGE, {"size": 3, "antialias": True}),
        "recomputed size": (IMAGE, {"size": 3, "recompute_scale_factor": True}),
        "of a matrix": (LINE[0], {"size": 3}),
        "a size of 2.5": (IMAGE, {"size": 2.5}),
        "sizes of 2.5": (IMAGE, {"size": (2.5, 3)}),
        "corners of another mode": (IMAGE, {"size": 3, "mode": "sharp", "align_corners": True}),
        "another mode, size and factor": (IMAGE, {"size": 3, "scale_factor": 2, "mode": "sharp"}),
        "lanczos that is not smooth": (IMAGE, {"size": 3, "mode": "lanczos"}),
        "lanczos by corners": (
            IMAGE,
            {"size": 3, "mode": "lanczos", "antialias": True, "align_corners": True},
        ),
        "lanczos of lines": (LINE, {"size": 3, "mode": "lanczos"}),
        "smooth lines": (LINE, {"size": 3, "mode": "bilinear", "antialias": True}),
    }
    for name, (x, options) in refused.items():
        yield Row(name, call("interpolate", **options), (x,))


def grid_rows() -> Iterator[Row]:
    points = random(2, 4, 5, 2) * 0.9
    points[0, 0] = [[-1, -1], [1, 1], [-1, 1], [0, 0], [1.5, -1.5]]
    places = random(2, 3, 4, 5, 3) * 0.9
    for padding in ("zeros", "border", "reflection"):
        for corners in (True, False):
            for mode in ("bilinear", "nearest", "bicubic"):
                row = call("grid_sample", mode, padding, corners)
                name = f"{mode} {padding} {corners}"
                yield Row(f"{name} images", row, (IMAGE, points), 2e-4, node=mode != "bicubic")
                if mode != "bicubic":
                    yield Row(f"{name} volumes", row, (VOLUME, places), 2e-4, node=False)
    nowhere = points.copy()
    nowhere[0, 0, 0, 0] = nowhere[1, 2, 3, 1] = np.nan
    # Of volumes PyTorch takes the last edge instead, unlike what it documents.
    for mode in ("bilinear", "nearest"):
        for padding in ("border", "reflection"):
            row = call("grid_sample", mode, padding, False)
            yield Row(f"{mode} {padding} at nan", row, (IMAGE, nowhere), 2e-4, False, False)
    row = call("grid_sample", align_corners=False)
    yield Row("no images", row, (IMAGE[:0], points[:0]), node=False)
    yield Row("another batch", row, (IMAGE, points[:1]))
    yield Row("another rank", row, (IMAGE, places))
    yield Row("another size", row, (IMAGE, random(2, 4, 5, 3)))
    yield Row("another mode", call("grid_sample", "cubic", align_corners=False), (IMAGE, points))
    yield Row("another padding", call("grid_sample", padding_mode="x", align_corners=False),
              (IMAGE, points))  # fmt: skip
    for corners in (True, False):
        flat = call("affine_grid", (2, 3, 4, 5), corners)
        yield Row(f"affine_grid {corners}", flat, (random(2, 2, 3),))
        deep = call("affine_grid", (2, 3, 4, 1, 3), corners)
        yield Row(f"affine_grid of volumes {corners}", deep, (random(2, 3, 4),))
    yield Row("affine_grid of lines", call("affine_grid", (2, 3, 4), False), (random(2, 2, 3),))
    yield Row("affine_grid of another map", call("affine_grid", (2, 3, 4, 5), False),
              (random(2, 3, 4),))  # fmt: skip


@table(padding_rows())
def test_padding(row: Row) -> None:
    compare(row)


@table(folding_rows())
def test_folding(row: Row) -> None:
    compare(row)


@table(resampling_rows())
def test_resampling(row: Row) -> None:
    compare(row)


@table(refused_resampling_rows())
def test_refused_resampling(row: Row) -> None:
    compare(row)


@table(grid_rows())
def test_grids(row: Row) -> None:
    compare(row)
