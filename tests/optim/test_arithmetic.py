"""The element-wise steps of update rules: formulas, and rounding in half precision."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.optim import arithmetic as a

VALUES = st.floats(-8, 8, width=16)
STEPS = {
    "add": (a.add, lambda x, y, z: x + z * y, 3),
    "mul": (a.mul, lambda x, y: x * y, 2),
    "addcmul": (lambda x, y, z: a.addcmul(x, y, y, z), lambda x, y, z: x + z * y * y, 3),
    "lerp": (a.lerp, lambda x, y, z: x + z * (y - x), 3),
    "clamp": (lambda x, y: a.clamp(x, y, y + 1), lambda x, y: np.clip(x, y, y + 1), 2),
}


@pytest.mark.parametrize("name", STEPS)
@given(x=VALUES, y=VALUES, z=VALUES)
def test_the_formula(name, x, y, z):
    function, expected, count = STEPS[name]
    numbers = (x, y, z)[:count]
    result = function(jnp.asarray(x, jnp.float64), *numbers[1:])
    np.testing.assert_allclose(result, expected(*numbers), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@given(x=VALUES, y=VALUES, rate=st.floats(0, 1))
def test_half_precision_is_rounded_once(dtype, x, y, rate):
    one, other = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    result = a.add(one, other, jnp.asarray(rate, jnp.float64))
    precise = jnp.float32(one) + jnp.float32(rate) * jnp.float32(other)
    assert result.dtype == dtype
    assert result == precise.astype(dtype)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_lerp_meets_both_ends_exactly(weight):
    start, end = jnp.asarray([0.1, 1e8], jnp.float32), jnp.asarray([1e8, 0.3], jnp.float32)
    np.testing.assert_array_equal(a.lerp(start, end, weight), end if weight else start)
