"""Sobol's quasirandom sequence, with PyTorch's values."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.draws.sampling import randint
from flambeau.ops.factories.from_data import from_numpy
from flambeau.ops.factories.ranges import arange
from flambeau.random.generator import Generator

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol's sequence in a unit cube, with SciPy's direction numbers of Joe and Kuo.

    The points equal PyTorch's exactly, also for a scrambled sequence with the same seed. See Owen,
    "Scrambling Sobol and Niederreiter-Xing points", Journal of Complexity 14, 1998.

    Args:
        dimension: The number of coordinates, from 1 to 21201.
        scramble: Scramble the bits of each coordinate by a random triangular matrix and a shift.
        seed: The seed of the scrambling; without it, the default generator is used.

    Raises:
        ValueError: ``dimension`` is out of range.

    >>> from flambeau.quasirandom import SobolEngine
    >>> engine = SobolEngine(2)
    >>> engine.draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                "Supported range of dimensionality for SobolEngine is "
                f"[1, {self.MAXDIM}], got {dimension}"
            )
        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        self.num_generated = 0
        directions = _directions(dimension, self.MAXBIT)
        shift = np.zeros(dimension, np.int64)
        if scramble:
            directions, shift = _scrambled(directions, seed)
        self.sobolstate: Tensor = from_numpy(directions)
        self.shift: Tensor = from_numpy(shift)
        self.quasi: Tensor = self.shift.clone()

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next points.

        Args:
            n: The number of points.
            out: The tensor to write to.
            dtype: The dtype of the points, by default the default dtype.

        Returns:
            A tensor of shape ``(n, dimension)``, in [0, 1).
        """
        dtype = dtypes.get_default_dtype() if dtype is None else dtype
        # A float32 cannot represent the last values below 1: it is computed as PyTorch does.
        scale = np.float32 if dtype is dtypes.float32 else np.float64
        points = self._next(n).astype(scale) * scale(2.0**-self.MAXBIT)
        result = from_numpy(points).to(dtype)
        if out is None:
            return result
        out.resize_(result.shape)
        return out.copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``2 ** m`` points, where the total stays a power of 2.

        Raises:
            ValueError: The total number of points would not be a power of 2.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been drawn, and {n} more make {total}; call "
                "reset(), or draw()"
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Restart from the first point."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip the next ``n`` points."""
        self._next(n)
        return self

    def _next(self, n: int) -> np.ndarray:
        """The coordinates of the next points, as integers of `MAXBIT` bits."""
        quasi = self.quasi.numpy()
        if not n:
            return np.zeros((0, self.dimension), np.int64)
        # By the Gray code, consecutive points differ by one direction number, indexed by the lowest
        # zero bit of the previous point's index.
        numbers = np.arange(max(self.num_generated - 1, 0), self.num_generated + n - 1)
        lowest = np.log2(~numbers & (numbers + 1)).astype(np.int64)
        steps = self.sobolstate.numpy()[:, lowest].T
        found = np.bitwise_xor.accumulate(np.concatenate([quasi[None], steps]), axis=0)
        self.quasi = from_numpy(found[-1].copy())
        is_first = not self.num_generated
        self.num_generated += n
        return found if is_first else found[1:]

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _directions(dimension: int, bits: int) -> np.ndarray:
    """The direction numbers of each coordinate, ``(dimension, bits)``."""
    # Importing SciPy takes longer than importing flambeau.
    from scipy.stats import qmc

    engine: Any = qmc.Sobol(dimension, scramble=False, bits=bits)
    return np.array(engine._sv, np.int64)


def _scrambled(directions: np.ndarray, seed: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Direction numbers multiplied by random triangular bit matrices, and random shifts."""
    dimension, bits = directions.shape
    generator = None
    if seed is not None:
        generator = Generator()
        generator.manual_seed(seed)
    shifts = randint(2, (dimension, bits), generator=generator)
    shift = (shifts * 2 ** arange(bits)).sum(1).numpy()
    matrices = randint(2, (dimension, bits, bits), generator=generator).numpy()
    matrices = np.tril(matrices, -1) + np.eye(bits, dtype=np.int64)
    # Both with the most significant bit first.
    powers = np.arange(bits - 1, -1, -1)
    digits = directions[:, :, None] >> powers & 1
    turned = np.einsum("drk,djk->djr", matrices, digits) % 2
    return (turned << powers).sum(-1), np.array(shift)
