"""Random draws by rejection with tensor parameters: gamma, Dirichlet, binomial, von Mises.

The generator gives the two words of a key, and the draw is an operator of the key and the
parameters: one program on each device, eager or compiled, that proposes numbers for all elements at
once until each has accepted one. So the numbers differ from PyTorch's.

The gradient of a gamma draw is the implicit one (Figurnov, Mohamed and Mnih, "Implicit
reparameterization gradients", 2018): the sample changes so that its quantile stays constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.op import function, op
from flambeau.core.support import dtype as dtypes
from flambeau.ops.common.derivatives import with_derivatives
from flambeau.ops.draws.sampling import randint
from flambeau.ops.elementwise.gamma import polygamma_of
from flambeau.ops.elementwise.pointwise import exp
from flambeau.ops.neural.softmax import softmax
from flambeau.random.generator import Generator

__all__ = ["_sample_dirichlet", "_standard_gamma", "binomial", "log_standard_gamma", "von_mises"]


@function
def _standard_gamma(input: Any, generator: Any = None) -> Any:
    """Gamma-distributed numbers of rate 1, with gradients for the concentrations.

    Args:
        input: The concentrations, positive; the result has their shape and dtype.
        generator: See `rand`.
    """
    drawn = exp(log_standard_gamma(input, generator))
    return drawn.clamp(min=dtypes.finfo(drawn.dtype).tiny)


@function
def _sample_dirichlet(input: Any, generator: Any = None) -> Any:
    """Points of a simplex, with gradients for the concentrations in the last dimension."""
    return softmax(log_standard_gamma(input, generator), -1)


@function
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """Numbers of successes in ``count`` trials of probability ``prob``.

    Args:
        count: The numbers of trials, floating point.
        prob: The probabilities, of the same dtype; both broadcast.
        generator: See `rand`.
    """
    require_tensors("binomial", count=count, prob=prob)
    return _binomial(_words(count, generator), count.detach(), prob.detach())


def log_standard_gamma(concentration: Any, generator: Any = None) -> Any:
    """Logarithms of `_standard_gamma`, whose results underflow for small concentrations."""
    require_tensors("_standard_gamma", input=concentration)
    drawn = _log_gamma(_words(concentration, generator), concentration.detach())
    return _following(concentration, drawn)


def von_mises(concentration: Any, generator: Any = None) -> Any:
    """Angles in [-pi, pi] from the von Mises distribution around 0."""
    return _von_mises(_words(concentration, generator), concentration.detach())


def _words(like: Any, generator: Any) -> Any:
    """Two words of 32 bits."""
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a Generator, got {type(generator).__name__}")
    return randint(0, 2**32, (2,), dtype=dtypes.int64, device=like.device, generator=generator)


def _key(words: Any) -> Any:
    return jax.random.wrap_key_data(words.astype(jnp.uint32), impl="threefry2x32")


def _accepted(key: Any, like: Any, propose: Callable[[Any], tuple[Any, Any]]) -> Any:
    """For each element the first accepted proposal.

    Args:
        key: The key of the draw.
        like: Has the shape and dtype of the result.
        propose: Takes a key; returns numbers, and whether each is accepted.
    """

    def is_waiting(state: Any) -> Any:
        _, _, waiting = state
        return waiting.any()

    def again(state: Any) -> Any:
        key, values, waiting = state
        key, now = jax.random.split(key)
        proposed, accepts = propose(now)
        return key, jnp.where(waiting & accepts, proposed, values), waiting & ~accepts

    start = key, jnp.full_like(like, jnp.nan), ~jnp.isnan(like)
    return jax.lax.while_loop(is_waiting, again, start)[1]


@op(widen=True, differentiable=False)
def _log_gamma(words: Array, concentration: Array) -> Array:
    """G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", 2000."""
    key, of_power = jax.random.split(_key(words))
    shape, dtype = concentration.shape, concentration.dtype
    # Below 1, a draw for the concentration plus one is scaled by a power of a uniform.
    is_small = concentration < 1
    d = jnp.where(is_small, concentration + 1, concentration) - 1 / 3
    c = 1 / jnp.sqrt(9 * d)

    def propose(key: Any) -> tuple[Any, Any]:
        of_normal, of_uniform = jax.random.split(key)
        normal = jax.random.normal(of_normal, shape, dtype)
        wait = jax.random.exponential(of_uniform, shape, dtype)
        root = 1 + c * normal
        log_cube = 3 * jnp.log(jnp.where(root > 0, root, 1))
        bound = normal * normal / 2 + d * (1 - jnp.exp(log_cube) + log_cube)
        return jnp.log(d) + log_cube, (root > 0) & (-wait < bound)

    # A concentration that is not positive accepts nothing.
    valid = (concentration > 0) & jnp.isfinite(concentration)
    drawn = _accepted(key, jnp.where(valid, concentration, jnp.nan), propose)
    wait = jax.random.exponential(of_power, shape, dtype)
    return jnp.where(is_small, drawn - wait / concentration, drawn)


@op(widen=True)
def _following(concentration: Array, log_sample: Array) -> Array:
    """The logarithms of samples, with gradients for their concentrations."""
    return _moved(concentration, log_sample)


def _slope(concentration: Any, log_sample: Any) -> Any:
    """The derivative of a sample's logarithm by the concentration, at constant quantile."""
    sample = jnp.exp(log_sample)
    # For small x the distribution function is x^a / gamma(a + 1), up to a relative error of x.
    is_small = sample < jnp.finfo(sample.dtype).eps * 8
    ordinary = jnp.where(is_small, 1, sample)
    slope = jax.lax.random_gamma_grad(concentration, ordinary)  # pyright: ignore[reportCallIssue]
    limit = (polygamma_of(0, concentration + 1) - log_sample) / concentration
    return jnp.where(is_small, limit, slope / ordinary)


@with_derivatives(
    lambda tangent, result, concentration, log_sample: tangent * _slope(concentration, log_sample),
    None,
)
def _moved(concentration: Any, log_sample: Any) -> Any:
    return jnp.broadcast_to(log_sample, concentration.shape)


@op(widen=True, differentiable=False)
def _binomial(words: Array, count: Array, prob: Array) -> Array:
    count, prob = jnp.broadcast_arrays(count, prob)
    drawn = jax.random.binomial(_key(words), count, prob, count.shape, count.dtype)
    return jnp.clip(drawn, 0, count)


@op(widen=True, differentiable=False)
def _von_mises(words: Array, concentration: Array) -> Array:
    """D. J. Best and N. I. Fisher, "Efficient simulation of the von Mises distribution", 1979."""
    shape, dtype = concentration.shape, concentration.dtype
    k = concentration.astype(jnp.float64)
    tau = 1 + jnp.sqrt(1 + 4 * k * k)
    rho = (tau - jnp.sqrt(2 * tau)) / (2 * k)
    # For small concentrations the difference loses all digits; the series is 1 / k + k.
    r = jnp.where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho)).astype(dtype)

    def propose(key: Any) -> tuple[Any, Any]:
        first, second, third = jax.random.uniform(key, (3, *shape), dtype)
        z = jnp.cos(math.pi * first)
        f = (1 + r * z) / (r + z)
        c = concentration * (r - f)
        tiny = jnp.finfo(dtype).tiny
        second = jnp.maximum(second, tiny)
        accepts = (c * (2 - c) > second) | (jnp.log(jnp.maximum(c, tiny) / second) + 1 >= c)
        angle = jnp.arccos(jnp.clip(f, -1, 1))
        return jnp.where(third < 0.5, -angle, angle), accepts

    valid = (concentration > 0) & jnp.isfinite(concentration)
    return _accepted(_key(words), jnp.where(valid, concentration, jnp.nan), propose)
