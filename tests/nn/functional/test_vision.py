"""Padding, resizing and sampling of images."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5))


def t(array):
    return flambeau.tensor(array)


PADS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", PADS)
def test_pad(mode):
    found = F.pad(t(X), (1, 2, 0, 3), mode=mode)
    expected = np.pad(X, [(0, 0), (0, 0), (0, 3), (1, 2)], mode=PADS[mode])
    np.testing.assert_array_equal(found.numpy(), expected)


def test_negative_padding_crops_and_a_value_fills():
    found = F.pad(t(X), (-1, 1), value=7.0).numpy()
    np.testing.assert_array_equal(found[..., :4], X[..., 1:])
    assert (found[..., 4] == 7).all()


def test_nearest_takes_the_pixel_before():
    found = F.interpolate(t(X), size=(8, 3)).numpy()
    np.testing.assert_array_equal(found, X[:, :, np.arange(8) // 2][..., [0, 1, 3]])
    exact = F.interpolate(t(X), size=(4, 3), mode="nearest-exact").numpy()
    np.testing.assert_array_equal(exact, X[..., [0, 2, 4]])


def test_linear_interpolates_between_the_middles():
    line = t(X[:, :, 0])
    aligned = F.interpolate(line, size=9, mode="linear", align_corners=True).numpy()
    np.testing.assert_allclose(aligned[..., ::2], X[:, :, 0])
    np.testing.assert_allclose(aligned[..., 1::2], (X[:, :, 0, 1:] + X[:, :, 0, :-1]) / 2)
    doubled = F.interpolate(line, scale_factor=2, mode="linear").numpy()
    np.testing.assert_allclose(doubled[..., 0], X[:, :, 0, 0])
    np.testing.assert_allclose(doubled[..., 1], 0.75 * X[:, :, 0, 0] + 0.25 * X[:, :, 0, 1])


# Cubic weights keep a plane only at pixels and halfway between them.
@pytest.mark.parametrize(
    ("mode", "align_corners"), [("bilinear", False), ("bilinear", True), ("bicubic", True)]
)
def test_a_plane_stays_a_plane(mode, align_corners):
    rows, columns = np.mgrid[0:6.0, 0:7.0]
    plane = t((2 * rows - columns)[None, None])
    found = F.interpolate(plane, size=(11, 13), mode=mode, align_corners=align_corners).numpy()
    inner = found[0, 0, 4:-4, 4:-4]
    np.testing.assert_allclose(np.diff(inner, 2, axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(np.diff(inner, 2, axis=1), 0, atol=1e-9)
    step = 5 / 10 if align_corners else 6 / 11
    np.testing.assert_allclose(np.diff(inner, axis=0), 2 * step, rtol=1e-9)


def test_area_is_the_mean_of_each_part():
    found = F.interpolate(t(X), size=(2, 5), mode="area").numpy()
    np.testing.assert_allclose(found, X.reshape(2, 3, 2, 2, 5).mean(3))


def test_antialiasing_keeps_the_mean():
    x = t(X[..., :4])
    found = F.interpolate(x, size=(2, 2), mode="bilinear", antialias=True)
    assert not flambeau.allclose(found, F.interpolate(x, size=(2, 2), mode="bilinear"))
    ones = F.interpolate(flambeau.ones(1, 1, 8, 8), size=(3, 3), mode="bicubic", antialias=True)
    np.testing.assert_allclose(ones.numpy(), 1, rtol=1e-5)


def test_the_identity_samples_the_image_itself():
    theta = t(np.array([[[1.0, 0, 0], [0, 1, 0]]] * 2))
    for align_corners in (False, True):
        grid = F.affine_grid(theta, X.shape, align_corners=align_corners)
        for mode in ("bilinear", "nearest", "bicubic"):
            found = F.grid_sample(t(X), grid, mode, align_corners=align_corners)
            np.testing.assert_allclose(found.numpy(), X, atol=1e-12)


def test_a_turned_grid_turns_the_image():
    half_turn = t(np.array([[[-1.0, 0, 0], [0, -1, 0]]] * 2))
    grid = F.affine_grid(half_turn, X.shape, align_corners=False)
    found = F.grid_sample(t(X), grid, align_corners=False)
    np.testing.assert_allclose(found.numpy(), X[:, :, ::-1, ::-1], atol=1e-12)


OUTSIDE = {"zeros": 0.0, "border": X[0, :, 0, 0], "reflection": X[0, :, 0, 2]}


@pytest.mark.parametrize("padding_mode", OUTSIDE)
def test_what_lies_outside(padding_mode):
    # Two pixels to the left of the first, where corners are aligned.
    grid = t(np.array([[[[-1 - 2 * 2 / 4, -1.0]]]]))
    found = F.grid_sample(t(X[:1]), grid, padding_mode=padding_mode, align_corners=True)
    np.testing.assert_allclose(found[0, :, 0, 0].numpy(), OUTSIDE[padding_mode], atol=1e-12)


def test_shuffles_undo_each_other():
    x = t(X.reshape(1, 12, 2, 5))
    shuffled = F.pixel_shuffle(x, 2)
    assert shuffled.shape == (1, 3, 4, 10)
    assert shuffled[0, 0, 1, 0].item() == x[0, 2, 0, 0].item()
    assert flambeau.equal(F.pixel_unshuffle(shuffled, 2), x)
    channels = F.channel_shuffle(x, 3)
    assert flambeau.equal(channels[:, 1], x[:, 4])
    assert flambeau.equal(F.channel_shuffle(channels, 4), x)


def test_fold_adds_what_unfold_took():
    columns = F.unfold(t(X), (2, 3))
    assert columns.shape == (2, 18, 9)
    np.testing.assert_array_equal(columns[:, :, 0].numpy(), X[:, :, :2, :3].reshape(2, 18))
    counted = F.fold(F.unfold(flambeau.ones_like(t(X)), (2, 3)), (4, 5), (2, 3))
    np.testing.assert_allclose((F.fold(columns, (4, 5), (2, 3)) / counted).numpy(), X)


ERRORS = {
    "value": (RuntimeError, "mode='reflect' takes no value, got 1.0",
              lambda: F.pad(t(X), (1, 1), "reflect", 1.0)),
    "reflection": (RuntimeError, "5|4", lambda: F.pad(t(X), (5, 0), "reflect")),
    "mode": (NotImplementedError, "'cubic'", lambda: F.interpolate(t(X), 2, mode="cubic")),
    "rank": (NotImplementedError, r"'linear' takes a 3-d input, got shape \[2, 3, 4, 5\]",
             lambda: F.interpolate(t(X), 2, mode="linear")),
    "corners": (ValueError, "not for 'nearest'",
                lambda: F.interpolate(t(X), 2, align_corners=True)),
    "both": (ValueError, "either size or scale_factor",
             lambda: F.interpolate(t(X), 2, scale_factor=2.0)),
    "sizes": (ValueError, r"one number or 2 .*got \[1, 2, 3\]",
              lambda: F.interpolate(t(X), (1, 2, 3))),
    "theta": (ValueError, r"\[N, 2, 3\] .*got \[4, 5\]",
              lambda: F.affine_grid(t(X[0, 0]), (1, 1, 2, 2), align_corners=False)),
    "grid": (RuntimeError, r"size 2", lambda: F.grid_sample(
        t(X), t(X.transpose(0, 2, 3, 1)), align_corners=False)),
    "sampling": (ValueError, "'cubic'", lambda: F.grid_sample(
        t(X), t(X[:, :2].transpose(0, 2, 3, 1)), "cubic", align_corners=False)),
    "shuffle": (RuntimeError, "3", lambda: F.pixel_shuffle(t(X), 2)),
    "unshuffle": (RuntimeError, "5", lambda: F.pixel_unshuffle(t(X), 2)),
    "fold": (RuntimeError, "18|9", lambda: F.fold(flambeau.ones(1, 18, 9), (4, 4), (2, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    kind, facts, compute = ERRORS[name]
    with pytest.raises(kind, match=facts):
        compute()


def test_unsaid_corners_warn():
    with pytest.warns(UserWarning, match="align_corners=False"):
        F.grid_sample(t(X), t(X[:, :2].transpose(0, 2, 3, 1)))
    with pytest.warns(UserWarning, match="interpolate"):
        F.upsample(t(X), 2)
