"""Each rule computes what XLA's programs do: all dtypes, odd values and shapes."""

from __future__ import annotations

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from flambeau.core.interpreter import Unknown, is_known, plan_of, run
from flambeau.core.interpreter.table import RULES
from tests.fuzz.quick_xla import usual_options

pytestmark = pytest.mark.skipif(not is_known(), reason="the machine's state cannot be set")

INTEGERS = [np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64]
FLOATS = [np.float32, np.float64]
SHAPES = [(), (0,), (37,), (3, 0, 2), (5, 7)]


def evaluated(function, *arguments):
    """The results of the plan, as it comes from the disk."""
    traced = jax.jit(function).trace(*arguments)
    plan = pickle.loads(pickle.dumps(plan_of(traced.jaxpr)))
    kinds = [each.dtype for each in plan.inputs]
    found = run(plan, [*map(np.asarray, arguments, kinds)])
    for each, aval in zip(found, plan.avals, strict=True):
        assert (np.shape(each), np.asarray(each).dtype) == (aval.shape, aval.dtype)
    return [*map(np.asarray, found)]


def check(function, *arguments, ulps=0, absolute=0.0, zeros=True):
    """Compare with XLA's program: equal but for so many units in the last place.

    Args:
        zeros: Whether the sign of zeros counts.
    """
    found = evaluated(function, *arguments)
    expected = jax.tree.leaves(jax.jit(function, compiler_options=usual_options())(*arguments))
    for mine, theirs in zip(found, map(np.asarray, expected), strict=True):
        assert mine.shape == theirs.shape
        assert mine.dtype == theirs.dtype
        if mine.dtype.kind != "f":
            np.testing.assert_array_equal(mine, theirs)
            continue
        if zeros:
            at = (mine == 0) & (theirs == 0)
            np.testing.assert_array_equal(np.signbit(mine)[at], np.signbit(theirs)[at])
        if ulps == 0 and absolute == 0:
            np.testing.assert_array_equal(mine, theirs)
            continue
        with np.errstate(all="ignore"):
            wide = np.where(np.isfinite(theirs), np.abs(theirs), 1)
            tolerance = ulps * np.spacing(wide.astype(mine.dtype)) + absolute
            # Beyond the largest number, and below the smallest normal one, by as much.
            limits = np.finfo(mine.dtype)
            near = np.abs(mine - theirs) <= tolerance
            near |= (np.isnan(mine) & np.isnan(theirs)) | (mine == theirs)
            tiny = (np.abs(mine) <= 2 * limits.tiny) & (np.abs(theirs) <= 2 * limits.tiny)
            huge = (np.abs(mine) >= limits.max * 0.9999) & (np.abs(theirs) >= limits.max * 0.9999)
            near |= tiny | (huge & (np.sign(mine) == np.sign(theirs)))
        worst = np.argmin(near.ravel()) if near.size else 0
        assert near.all(), (
            f"{(~near).sum()} of {near.size}, such as element {worst}: "
            f"{mine.ravel()[worst]!r} for {theirs.ravel()[worst]!r}"
        )


def numbers(dtype, shape, seed=0, scale=3.0):
    """Random numbers, many of them odd ones."""
    source = np.random.default_rng([seed, *shape])
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return source.random(shape) < 0.5
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        odd = np.array([0, 1, 2, 3, limits.max, limits.min, limits.max - 1, 31, 32, 63, 7], dtype)
        plain = source.integers(0 if dtype.kind == "u" else -9, 9, shape).astype(dtype)
        return np.where(source.random(shape) < 0.5, source.choice(odd, shape), plain)
    limits = np.finfo(dtype)
    odd = [
        0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, limits.max,
        limits.min, limits.tiny, -limits.tiny, limits.tiny / 4, -limits.tiny / 4, limits.eps,
        1 + limits.eps, 1e5, -1e5, 88.0, -87.0, 89.5, -104, 700, -710, 2147483648.0,
        -2147483904.0, 255, 256, 1e-5, 9.3e18, -9.3e18, 1.9e19,
    ]  # fmt: skip
    plain = source.standard_normal(shape) * scale
    return np.where(
        source.random(shape) < 0.4, source.choice(np.array(odd, dtype), shape), plain
    ).astype(dtype)


def without_subnormal(numbers):
    """The numbers, with zeros for subnormal ones: XLA's powers of these differ by processor."""
    is_small = np.abs(numbers) < np.finfo(numbers.dtype).tiny
    return np.where(is_small, np.copysign(0, numbers), numbers).astype(numbers.dtype)


def tame(dtype, shape, seed=0):
    """Random numbers without odd ones."""
    source = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind == "f":
        return source.standard_normal(shape).astype(dtype)
    return source.integers(0, 5, shape).astype(dtype)


WIDE = (997,)

EXACT = {
    "abs": (lax.abs, 1, "if"),
    "add": (lax.add, 2, "iuf"),
    "and": (lax.bitwise_and, 2, "biu"),
    "ceil": (lax.ceil, 1, "f"),
    "copy": (jnp.copy, 1, "biuf"),
    "div": (lax.div, 2, "iuf"),
    "eq": (lax.eq, 2, "biuf"),
    "floor": (lax.floor, 1, "f"),
    "ge": (lax.ge, 2, "biuf"),
    "gt": (lax.gt, 2, "biuf"),
    "is_finite": (lax.is_finite, 1, "f"),
    "le": (lax.le, 2, "biuf"),
    "lt": (lax.lt, 2, "biuf"),
    "max": (lax.max, 2, "biuf"),
    "min": (lax.min, 2, "biuf"),
    "mul": (lax.mul, 2, "iuf"),
    "ne": (lax.ne, 2, "biuf"),
    "neg": (lax.neg, 1, "if"),
    "nextafter": (lax.nextafter, 2, "f"),
    "not": (lax.bitwise_not, 1, "biu"),
    "or": (lax.bitwise_or, 2, "biu"),
    "rem": (lax.rem, 2, "iuf"),
    "round": (lax.round, 1, "f"),
    "round to even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), 1, "f"),
    "shift_left": (lax.shift_left, 2, "iu"),
    "shift_right_arithmetic": (lax.shift_right_arithmetic, 2, "iu"),
    "shift_right_logical": (lax.shift_right_logical, 2, "iu"),
    "sign": (lax.sign, 1, "iuf"),
    "sqrt": (lax.sqrt, 1, "f"),
    "square": (lax.square, 1, "iuf"),
    "sub": (lax.sub, 2, "iuf"),
    "xor": (lax.bitwise_xor, 2, "biu"),
    "integer_pow 2": (lambda x: lax.integer_pow(x, 2), 1, "iuf"),
    "integer_pow 3": (lambda x: lax.integer_pow(x, 3), 1, "iuf"),
    "integer_pow 7": (lambda x: lax.integer_pow(x, 7), 1, "iuf"),
    "integer_pow -1": (lambda x: lax.integer_pow(x, -1), 1, "f"),
    "integer_pow -3": (lambda x: lax.integer_pow(x, -3), 1, "f"),
    "integer_pow 0": (lambda x: lax.integer_pow(x, 0), 1, "iuf"),
    "clamp": (lambda x: lax.clamp(np.array(1, x.dtype), x, np.array(3, x.dtype)), 1, "iuf"),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}"), 1, "iu"),
    "optimization_barrier": (lambda x, y: lax.optimization_barrier((x, y)), 2, "biuf"),
    "stop_gradient": (lax.stop_gradient, 1, "biuf"),
    "reduce_precision": (
        lambda x: lax.reduce_precision(x, jnp.finfo(x.dtype).nexp, jnp.finfo(x.dtype).nmant),
        1,
        "f",
    ),
}  # fmt: skip

NEAR = {
    "acos": (lax.acos, 1, 6), "acosh": (lax.acosh, 1, 6), "asin": (lax.asin, 1, 6),
    "asinh": (lax.asinh, 1, 6), "atan": (lax.atan, 1, 4), "atan2": (lax.atan2, 2, 6),
    "cbrt": (lax.cbrt, 1, 4), "cos": (lax.cos, 1, 4),
    "erf": (lax.erf, 1, 6), "erf_inv": (lax.erf_inv, 1, 32),
    "exp": (lax.exp, 1, 4), "exp2": (lax.exp2, 1, 4),
    "expm1": (lax.expm1, 1, 6), "log": (lax.log, 1, 4), "log1p": (lax.log1p, 1, 8),
    "logistic": (lax.logistic, 1, 6), "pow": (lax.pow, 2, 6), "rsqrt": (lax.rsqrt, 1, 4),
    "sin": (lax.sin, 1, 4), "tan": (lax.tan, 1, 6),
    "tanh": (lax.tanh, 1, 6),
}  # fmt: skip


def dtypes_of(kinds):
    found = {"b": [np.bool_], "i": INTEGERS[:3], "u": INTEGERS[3:], "f": FLOATS}
    return [each for kind in kinds for each in found[kind]]


@pytest.mark.parametrize("name", EXACT)
def test_elementary_functions_agree_to_the_bit(name):
    function, count, kinds = EXACT[name]
    for dtype in dtypes_of(kinds):
        for shape in ((0, 3), (), WIDE) if dtype in (np.int32, np.float32) else (WIDE,):
            check(function, *[numbers(dtype, shape, seed) for seed in range(count)])


@pytest.mark.parametrize("name", NEAR)
def test_transcendental_functions_agree_up_to_rounding(name):
    function, count, ulps = NEAR[name]
    for dtype in FLOATS:
        given = [without_subnormal(numbers(dtype, WIDE, seed)) for seed in range(count)]
        check(function, *given, ulps=ulps)


CONVERTED = {bool: "b", np.int8: "i", np.int32: "i", np.int64: "i", np.uint8: "u", np.uint32: "u",
             np.uint64: "u", np.float32: "f", np.float64: "f"}  # fmt: skip


@pytest.mark.parametrize("new", CONVERTED, ids=lambda each: np.dtype(each).name)
def test_conversions(new):
    for old in CONVERTED:
        check(lambda x: lax.convert_element_type(x, new), numbers(old, WIDE))


X = numbers(np.float32, (5, 6, 7))
Y = tame(np.float32, (5, 6, 7))
INTS = numbers(np.int32, (5, 6, 7))
S = numbers(np.float32, ())
ROW = numbers(np.float32, (6,))

MOVED = {
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, 6, 3), (1,)), ROW),
    "broadcast_in_dim of 1": (lambda x: lax.broadcast_in_dim(x, (4, 3), (0, 1)), X[:1, :1, 0]),
    "concatenate": (lambda x, y: jnp.concatenate([x, y, x], 1), X, Y),
    "concatenate nothing": (lambda x, y: jnp.concatenate([x, y], 1), X, Y[:, :0]),
    "expand_dims": (lambda x: x[:, None, :, None], ROW[:, None]),
    "iota": (lambda x: x + lax.broadcasted_iota(np.float32, (4, 6), 1), ROW),
    "iota of bytes": (lambda x: x + lax.iota(np.int8, 300), np.int8(3)),
    "pad": (lambda x: lax.pad(x, np.float32(2), [(1, 2, 0), (0, 0, 0), (3, 0, 0)]), X),
    "pad inside": (lambda x: lax.pad(x, np.float32(2), [(1, 2, 1), (0, 0, 2), (3, 0, 3)]), X),
    "pad cut": (lambda x: lax.pad(x, np.float32(2), [(-1, 2, 0), (0, -3, 0), (-2, -3, 0)]), X),
    "pad inside, cut": (
        lambda x: lax.pad(x, np.float32(2), [(-1, 2, 1), (-4, -3, 2), (3, -5, 1)]),
        X,
    ),
    "pad, cut to nothing": (
        lambda x: lax.pad(x, np.float32(2), [(-3, -2, 0), (0, 0, 0), (0, 0, 0)]),
        X,
    ),
    "pad nothing": (lambda x: lax.pad(x, np.float32(2), [(2, 1, 1)]), ROW[:0]),
    "pad nothing inside": (lambda x: lax.pad(x, np.float32(2), [(-4, 1, 1)]), ROW),
    "reshape": (lambda x: x.reshape(7, 30), X),
    "reshape turned": (lambda x: x.T.reshape(30, 7), X),
    "rev": (lambda x: lax.rev(x, (0, 2)), X),
    "slice": (lambda x: lax.slice(x, (1, 0, 2), (4, 6, 7), (2, 1, 3)), X),
    "slice to nothing": (lambda x: x[3:3], X),
    "unstack": (lambda x: jnp.unstack(x, axis=1), X),
    "split": (lambda x: lax.split(x, (1, 0, 5), 1), X),
    "tile": (lambda x: jnp.tile(x, (2, 1, 3)), X),
    "stack": (lambda x, y: jnp.stack([x, y, x], 1), X, Y),
    "squeeze": (lambda x: lax.squeeze(x, (0, 2)), X[:1, :, :1]),
    "transpose": (lambda x: x.transpose(2, 0, 1), X),
    "dynamic_slice": (
        lambda x, i: lax.dynamic_slice(x, (i, i + 3, i - 9), (2, 3, 4)),
        X,
        np.int32(2),
    ),
    "dynamic_slice beyond": (
        lambda x, i: lax.dynamic_slice(x, (i, i, i), (2, 3, 4)),
        X,
        np.int64(99),
    ),
    "dynamic_update_slice": (
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i, i - 1, i + 5)),
        X,
        Y[:2, :3, :4],
        np.int32(1),
    ),
    "dynamic_update_slice at -1": (
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i, i, i)),
        X,
        Y[:2, :3, :4],
        np.int32(-1),
    ),
    "select_n": (lambda x, y: lax.select_n(x > y, x, y), X, Y),
    "select_n of one": (lambda x, y: lax.select_n(y[0, 0, 0] > 0, x, y), X, Y),
    "select_n of three": (lambda x, y: lax.select_n(jnp.int32(x > 0) + (x > 1), x, y, x + y), X, Y),
    "sort": (lambda x: lax.sort(x, dimension=1), X),
    "sort integers": (lambda x: lax.sort(x, dimension=0), INTS),
    "sort two": (lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), INTS % 3, Y),
    "sort by two": (lambda x, y: lax.sort((x, y, x + 1), dimension=1, num_keys=2), INTS % 3, Y),
    "argsort": (lambda x: jnp.argsort(x, axis=-1), X),
    "argmax": (lambda x: lax.argmax(x, 1, np.int32), X),
    "argmin": (lambda x: lax.argmin(x, 2, np.int64), X),
    "argmax of integers": (lambda x: lax.argmax(x, 0, np.int32), INTS),
    "argmax of truths": (lambda x: jnp.argmax(x > 0, 0), INTS),
    "cummax": (lambda x: lax.cummax(x, 1), X),
    "cummin": (lambda x: lax.cummin(x, 2, reverse=True), X),
    **{
        f"searchsorted {side}": (
            lambda x, side=side: jnp.searchsorted(jnp.sort(x.ravel()), x - 1, side),
            INTS,
        )
        for side in ("left", "right")
    },
    "cumsum of integers": (lambda x: lax.cumsum(x, 1), INTS),
    "cumprod of integers": (lambda x: lax.cumprod(x, 1, reverse=True), INTS),
    "reduce_max": (lambda x: x.max(1), X),
    "reduce_min": (lambda x: x.min((0, 2)), X),
    "reduce_max of integers": (lambda x: x.max(1), INTS),
    "reduce_max of nothing": (
        lambda x: lax.reduce_max_p.bind(x, axes=(1,), out_sharding=None),
        X[:, :0],
    ),
    "reduce_min of nothing": (
        lambda x: lax.reduce_min_p.bind(x, axes=(1,), out_sharding=None),
        INTS[:, :0],
    ),
    "reduce_and": (lambda x: (x > 0).all(1), X),
    "reduce_or": (lambda x: (x > 0).any(), X),
    "reduce_or of nothing": (lambda x: (x > 0).any(0), X[:0]),
    "reduce_and of integers": (lambda x: lax.reduce_and_p.bind(x, axes=(1,)), INTS),
    "reduce_or of integers": (lambda x: lax.reduce_or_p.bind(x, axes=(1,)), INTS),
    "reduce_xor": (lambda x: lax.reduce_xor_p.bind(x, axes=(1,)), INTS),
    "reduce_sum of integers": (
        lambda x: lax.reduce_sum_p.bind(x, axes=(1,), out_sharding=None),
        INTS,
    ),
    "reduce_prod of integers": (lambda x: lax.reduce_prod_p.bind(x, axes=(0, 1)), INTS),
    "reduce_sum of nothing": (lambda x: x.sum(1), X[:, :0]),
    "cond": (
        lambda x, i: lax.switch(i, [jnp.abs, jnp.negative, lambda y: y * 2], x),
        X,
        np.int32(9),
    ),
    "cond of a truth": (lambda x: lax.cond(x[0, 0, 0] > 0, jnp.abs, jnp.negative, x), X),
    "dot_general of integers": (lambda x, y: jnp.einsum("ijk,ilk->jil", x, y), INTS, INTS[:, :3]),
    "reduce_window_max": (
        lambda x: lax.reduce_window(
            x, -np.inf, lax.max, (1, 3, 2), (1, 2, 1), [(0, 0), (1, 1), (0, 1)]
        ),
        X,
    ),
    "reduce_window_max spread": (
        lambda x: lax.reduce_window(
            x, -np.inf, lax.max, (2, 2, 2), (1, 2, 1), "VALID", None, (1, 3, 2)
        ),
        X,
    ),
    "reduce_window_min": (
        lambda x: lax.reduce_window(x, np.inf, lax.min, (1, 3, 2), (1, 2, 1), "SAME", (1, 2, 1)),
        X,
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_elements_are_moved_compared_and_counted_to_the_bit(name):
    # XLA's copies keep subnormal numbers in some loops, and not in others.
    check(*MOVED[name], zeros=False, absolute=np.finfo(np.float32).tiny)


SUMMED = {
    "reduce_sum": (lambda x: x.sum((0, 2)), 64),
    "reduce_sum of all": (lambda x: x.sum(), 64),
    "reduce": (
        lambda x: lax.reduce(
            (x, x),
            (x[0, 0, 0], x[0, 0, 0]),
            lambda a, b: (a[0] - (-b[0]), lax.max(a[1], b[1])),
            (1,),
        ),
        64,
    ),
    "reduce of nothing": (
        lambda x: lax.reduce(x[:, :0], x[0, 0, 0], lambda a, b: a - (-b), (1,)),
        0,
    ),
    "reduce_prod": (lambda x: x.prod(1), 64),
    "cumsum": (lambda x: lax.cumsum(x, 1), 64),
    "cumsum reversed": (lambda x: lax.cumsum(x, 0, reverse=True), 64),
    "cumprod": (lambda x: lax.cumprod(x, 2), 64),
    "dot_general": (lambda x: jnp.einsum("ijk,ljk->li", x, x + 1), 64),
    "dot_general of batches": (lambda x: jnp.einsum("ijk,ilk->jil", x, x + 1), 64),
    "dot_general of nothing": (lambda x: x[:, :0].reshape(5, 0) @ x[:0, 0], 0),
    "dot_general of vectors": (lambda x: x[0, 0] @ x[1, 1], 64),
    "scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c - r), x[0], x[1:]), 64),
    "scan backwards": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x, reverse=True), 64),
    "scan of nothing": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x[:0]), 0),
    "scan of numbers": (lambda x: lax.scan(lambda c, _: (c + 1, c * 2), x, None, 3), 0),
    "reduce_window_sum": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2), (1, 2, 1), "SAME"),
        64,
    ),
    "jit": (lambda x: jax.jit(jnp.logaddexp)(x, 2.0), 64),
    "gradient": (jax.grad(lambda x: jax.nn.softmax(jax.nn.gelu(x)).max()), 256),
}


@pytest.mark.parametrize("name", SUMMED)
def test_sums_and_products_agree_up_to_rounding(name):
    function, ulps = SUMMED[name]
    for dtype in FLOATS:
        x = tame(dtype, (5, 6, 7))
        check(function, x, ulps=ulps, absolute=64 * np.finfo(dtype).eps)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-39, 3e38])
def test_odd_values_spread_as_in_xla(value):
    x = tame(np.float32, (5, 6, 7))
    x[2, 3, 4] = value
    for name, (function, ulps) in SUMMED.items():
        if name not in ("gradient", "cumprod", "reduce_prod"):
            check(function, x, ulps=max(ulps, 1), absolute=1e-4)


CONVOLUTIONS = {
    "plain": {},
    "strides": {"window_strides": (2, 3)},
    "padding": {"padding": [(2, 1), (0, 3)]},
    "same": {"padding": "SAME"},
    "dilated": {"rhs_dilation": (2, 1)},
    "turned": {"lhs_dilation": (2, 3), "padding": [(1, 1), (2, 2)]},
    "cropped": {"padding": [(-1, 2), (0, -2)]},
    "turned and cropped": {"lhs_dilation": (2, 3), "padding": [(-1, 1), (2, -2)]},
    "groups": {"feature_group_count": 2},
    "order": {"dimension_numbers": ("NHWC", "HWIO", "NHWC")},
    "order of gradients": {"dimension_numbers": ("CHWN", "IHWO", "HWNC")},
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions(name, dtype):
    options = {"window_strides": (1, 1), "padding": "VALID", **CONVOLUTIONS[name]}
    x, w = tame(dtype, (2, 4, 8, 9)), tame(dtype, (6, 4, 3, 2), 1)
    if name == "groups":
        w = w[:, :2]
    if "dimension_numbers" in options:
        first, second, _ = options["dimension_numbers"]
        x = x.transpose(["NCHW".index(each) for each in first])
        w = w.transpose(["OIHW".index(each) for each in second])
    eps = 64 * np.finfo(dtype).eps
    check(functools.partial(lax.conv_general_dilated, **options), x, w, ulps=64, absolute=eps)


WHERE = np.array([[0, 3], [4, -1], [9, 2], [2, 5], [0, 3], [-7, 6], [4, 4]])
GATHERED = {
    "row": (lambda x, i: jnp.take(x, i[:, 0], 0, mode="fill"), "iuf"),
    "row clipped": (lambda x, i: jnp.take(x, i[:, 0], 1, mode="clip"), "biuf"),
    "along": (lambda x, i: jnp.take_along_axis(x, jnp.abs(i[:, :1, None]) % 5, 0), "biuf"),
    "points": (lambda x, i: x.at[i[:, 0], i[:, 1]].get(mode="fill"), "iuf"),
    "points filled": (lambda x, i: x.at[i[:, 0], i[:, 1]].get(mode="fill", fill_value=3), "iuf"),
    "points promised": (lambda x, i: x.at[abs(i[:, 0]) % 5].get(mode="promise_in_bounds"), "biuf"),
    "windows": (
        lambda x, i: jax.vmap(lambda j: lax.dynamic_slice(x, (j[0], j[1], 0), (2, 3, 7)))(i),
        "biuf",
    ),
    "batches": (lambda x, i: jax.vmap(lambda row, j: row[j], (0, 0))(x, i[:5]), "biuf"),
    "batches of places": (lambda x, i: jax.vmap(lambda row, j: row[:, j], (2, 0), 1)(x, i), "iuf"),
    "bytes": (lambda x, i: jnp.take(x, i.astype(np.uint8), 0, mode="fill"), "f"),
    "large": (lambda x, i: jnp.take(x, i.astype(np.uint64), 0, mode="clip"), "f"),
    "nothing": (lambda x, i: jnp.take(x[:, :0], i[:, 0], 0, mode="clip"), "f"),
    "no rows": (lambda x, i: jnp.take(x, i[:0, 0], 0, mode="fill"), "f"),
    "set": (lambda x, i: x.at[i[:, 0]].set(x[:1] * 2, mode="drop"), "iuf"),
    "set points": (lambda x, i: x.at[i[:, 0], :, i[:, 1]].set(x[0, :6, 0] + 1, mode="drop"), "iuf"),
    "set clipped": (lambda x, i: x.at[i[:, 0]].set(x[1], mode="clip"), "biuf"),
    "add": (lambda x, i: x.at[i[:, 0]].add(x[:1], mode="drop"), "iuf"),
    "add points": (lambda x, i: x.at[i[:, 0], i[:, 1]].add(x[0, 0], mode="drop"), "iuf"),
    "multiply": (lambda x, i: x.at[i[:, 0], i[:, 1]].multiply(x[0, 0], mode="drop"), "iuf"),
    "max": (lambda x, i: x.at[i[:, 0], i[:, 1]].max(x[0, 0], mode="drop"), "iuf"),
    "min": (lambda x, i: x.at[i[:, 0], i[:, 1]].min(x[0, 0], mode="clip"), "iuf"),
    "add in batches": (
        lambda x, i: jax.vmap(lambda row, j: row.at[j].add(row[0]), (0, 0))(x, i[:5]),
        "iuf",
    ),
    "set windows": (
        lambda x, i: jax.vmap(
            lambda row, j: lax.dynamic_update_slice(row, row[:2, :3] * 2, (j[0], j[1]))
        )(x, i[:5]),
        "iuf",
    ),
    "add nothing": (lambda x, i: x.at[i[:0, 0]].add(x[0], mode="drop"), "f"),
}


@pytest.mark.parametrize("name", GATHERED)
def test_gather_and_scatter(name):
    function, kinds = GATHERED[name]
    for dtype in {"b": [bool], "i": [np.int32], "u": [np.uint8], "f": FLOATS}[kinds[-1]] + [
        {"b": bool, "i": np.int32, "u": np.uint8}[kind] for kind in kinds[:-1]
    ]:
        check(function, tame(dtype, (5, 6, 7)), WHERE, ulps=2)


def many_calls(count):
    """A function that calls another one so often, with some results left out."""
    rule = jax.jit(lambda x, y: (jnp.sqrt(jnp.abs(x * y)) - x, x + y))

    def function(x, y):
        for _ in range(count):
            x, y = rule(x, y)[0], rule(y, x)[1]
        return x, y, rule(x, jnp.float32(2))

    return function


@pytest.mark.parametrize("count", [1, 3, 40])
def test_calls(count):
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    check(many_calls(count), x, x[::-1].copy(), ulps=4 * count)


def test_a_function_that_is_called_often_is_one_plan():
    few, many = (
        plan_of(jax.jit(many_calls(count)).trace(*[np.ones(3, np.float32)] * 2).jaxpr)
        for count in (200, 400)
    )
    assert len({id(each.plan) for each, _ in many._steps if hasattr(each, "plan")}) <= 2
    assert len(many) > 1.9 * len(few)
    assert many.work > 1.9 * few.work
    assert len(pickle.dumps(many)) < 2.2 * len(pickle.dumps(few))


def test_each_rule_is_compared():
    """Every rule but names for the same primitive is met by some case above."""
    met = set()
    for function, *arguments in [
        *MOVED.values(),
        *(
            (function, *[np.ones(3, dtypes_of(kinds)[0])] * count)
            for function, count, kinds in EXACT.values()
        ),
        *((function, *[np.ones(3, np.float32)] * count) for function, count, _ in NEAR.values()),
        *((function, tame(np.float32, (5, 6, 7))) for function, _ in SUMMED.values()),
        *((function, tame(np.float32, (5, 6, 7)), WHERE) for function, _ in GATHERED.values()),
        (
            lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID"),
            np.ones((1, 1, 3)),
            np.ones((1, 1, 2)),
        ),
    ]:
        met |= names_in(jax.make_jaxpr(function)(*arguments).jaxpr)
    aliases = {"add_any", "copy_p", "scatter_add", "scatter_mul", "scatter_max", "scatter_min"}
    of_later_versions = {"one_minus_square", "unstack"}
    assert {*RULES} - met <= aliases | of_later_versions | {"call"}


def names_in(jaxpr):
    found = {each.primitive.name for each in jaxpr.eqns}
    for each in jaxpr.eqns:
        for value in jax.tree.leaves([*each.params.values()]):
            if hasattr(value, "eqns"):
                found |= names_in(getattr(value, "jaxpr", value))
    return found


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (lax.exp, np.ones(3, np.float16)),
        (lax.exp, np.ones(3, np.complex64)),
        (jnp.linalg.cholesky, np.eye(3)),
        (lambda x: jax.random.uniform(jax.random.key(0), (3,)) + x, np.ones(3)),
        (lambda x: jax.pure_callback(np.sin, x, x), np.ones(3)),
        (lambda x: lax.while_loop(lambda y: y[0] < 9, lambda y: y * 2, x), np.ones(3)),
        (lambda x: lax.sort((x, x), is_stable=False), np.ones(3)),
    ],
    ids=["half", "complex", "linear algebra", "random", "callback", "loop", "unstable sort"],
)
def test_what_has_no_rule_is_left_to_xla(function, argument):
    with pytest.raises(Unknown):
        plan_of(jax.jit(function).trace(argument).jaxpr)
