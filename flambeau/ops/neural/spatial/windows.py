"""The windows of pooling and folding, and the elements at each tap."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.ops.common.dims import is_open
from flambeau.ops.neural.spatial.convolution import per_dimension
from flambeau.ops.neural.spatial.taps import UNROLLED_TAPS, taps, windows

__all__: list[str] = []


class Windows:
    """The windows of a pooling over the trailing ``spatial`` dimensions.

    Attributes:
        sizes: Spatial sizes of the input.
        outputs: The number of windows along each dimension.

    With ``bounded`` a window must begin inside the input or half a window before it.
    """

    def __init__(
        self, name: str, input: Any, spatial: int, kernel: Any, stride: Any, padding: Any,
        dilation: Any, ceil_mode: bool, bounded: bool = True,
    ) -> None:  # fmt: skip
        if input.ndim not in (spatial + 1, spatial + 2):
            raise RuntimeError(
                f"{name}(): the input must be {spatial + 1}-d or {spatial + 2}-d, "
                f"got shape {list(input.shape)}"
            )
        self.spatial = spatial
        self.kernel: tuple[int, ...] = per_dimension(name, "kernel_size", kernel, spatial)
        given = stride is not None and stride != ()
        self.stride: tuple[int, ...] = (
            per_dimension(name, "stride", stride, spatial) if given else self.kernel
        )
        self.padding: tuple[int, ...] = per_dimension(name, "padding", padding, spatial)
        self.dilation: tuple[int, ...] = per_dimension(name, "dilation", dilation, spatial)
        self.sizes: Any = input.shape[-spatial:]
        self._check(name, input, bounded)
        self.outputs: tuple[int, ...] = tuple(self._count(i, ceil_mode) for i in range(spatial))
        if any(each <= 0 for each in self.outputs):
            raise RuntimeError(
                f"{name}(): windows of size {list(self.kernel)} do not fit into an input of shape "
                f"{list(input.shape)}: the output would have size {list(self.outputs)}"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Windows) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def _check(self, name: str, input: Any, bounded: bool) -> None:
        for argument in ("kernel", "stride", "dilation"):
            if min(getattr(self, argument)) <= 0:
                values = list(getattr(self, argument))
                raise RuntimeError(f"{name}(): {argument} must be positive, got {values}")
        limits = self.kernel if bounded else [2 * each for each in self.padding]
        if any(not 0 <= 2 * p <= k for p, k in zip(self.padding, limits, strict=True)):
            raise RuntimeError(
                f"{name}(): padding must be from 0 to half of kernel_size, got "
                f"{list(self.padding)} for {list(self.kernel)}"
            )
        if 0 in input.shape[1 if input.ndim == self.spatial + 2 else 0 :]:
            raise RuntimeError(
                f"{name}(): only the batch may be empty, got shape {list(input.shape)}"
            )

    def _count(self, i: int, ceil_mode: bool) -> int:
        size, stride, padding = self.sizes[i], self.stride[i], self.padding[i]
        room = size + 2 * padding - self.dilation[i] * (self.kernel[i] - 1) - 1
        count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
        # A last window that begins in the padding after the input is dropped. Windows longer than
        # their distance do not begin there, whatever the size, which may be open.
        is_short = self.dilation[i] * (self.kernel[i] - 1) + 1 < stride + padding
        if ceil_mode and is_short and (count - 1) * stride >= size + padding:
            count -= 1
        return count

    def are_open(self) -> bool:
        """Whether `jax.export` leaves a size along which the windows move open."""
        return any(map(is_open, self.sizes))

    def borders(self) -> list[tuple[int, int]]:
        """Padding before and after, such that the last window fits; negative if it crops."""
        return [
            (p, (n - 1) * s + d * (k - 1) + 1 - size - p)
            for p, n, s, d, k, size in zip(
                self.padding, self.outputs, self.stride, self.dilation, self.kernel, self.sizes,
                strict=True,
            )
        ]  # fmt: skip

    def positions(self, i: int) -> np.ndarray:
        """Input positions along dimension ``i``, ``(outputs, kernel)``; some are outside."""
        starts = np.arange(self.outputs[i]) * self.stride[i] - self.padding[i]
        return starts[:, None] + np.arange(self.kernel[i]) * self.dilation[i]

    def inside(self, i: int) -> np.ndarray:
        """Whether each of `positions` is inside the input."""
        positions = self.positions(i)
        return (positions >= 0) & (positions < self.sizes[i])

    def padded(self, input: Any, value: Any) -> Any:
        """``input`` padded with ``value`` on all sides, as far as the windows reach."""
        borders = self.borders()
        if not any(map(any, borders)):
            return input
        none = [(0, 0, 0)] * (input.ndim - self.spatial)
        return lax.pad(input, value, [*none, *((a, b, 0) for a, b in borders)])

    def taps(self, input: Any, value: Any) -> list[Any]:
        """For each tap of the window, the elements that all windows have there."""
        return taps(
            self.padded(input, value), self.kernel, self.outputs, self.stride, self.dilation
        )

    def all(self, input: Any, value: Any) -> Any:
        """All windows: ``(..., taps, *outputs)``."""
        return windows(
            self.padded(input, value), self.kernel, self.outputs, self.stride, self.dilation
        )

    def gathered(self, input: Any, value: Any) -> Any:
        """All windows, flattened: ``(..., *outputs, taps)``."""
        return jnp.moveaxis(self.all(input, value), input.ndim - self.spatial, -1)

    def pick(self, input: Any, place: Any) -> Any:
        """From each window the element at its ``place``, a tap index in the order of `taps`.

        Linear in ``input``, and written so that its transpose, the gradient of max pooling, is a
        gather: each element of the input reads the windows that it is in. A scatter from each
        window to its elements takes XLA several times as long on the CPU.
        """
        if math.prod(self.kernel) > UNROLLED_TAPS:
            found = self.gathered(input, np.zeros((), input.dtype))
            return jnp.take_along_axis(found, place[..., None], -1)[..., 0]
        lead = input.ndim - self.spatial
        reach = [
            (k - 1) * d // s
            for k, d, s in zip(self.kernel, self.dilation, self.stride, strict=True)
        ]
        # The padded input, split into cells of one stride: window w begins at the start of cell w.
        cells = [
            max(n + m, -(-(size + p) // s))
            for n, m, size, p, s in zip(
                self.outputs, reach, self.sizes, self.padding, self.stride, strict=True
            )
        ]
        phases = self._phases(input, cells)
        borders = [(m, c - n, 0) for m, c, n in zip(reach, cells, self.outputs, strict=True)]
        places = lax.pad(place, np.array(-1, place.dtype), [(0, 0, 0)] * lead + borders)
        picked = 0
        for number, offsets in enumerate(itertools.product(*map(range, self.kernel))):
            steps = [o * d for o, d in zip(offsets, self.dilation, strict=True)]
            shifts = [step // s for step, s in zip(steps, self.stride, strict=True)]
            within = tuple(step % s for step, s in zip(steps, self.stride, strict=True))
            window = tuple(
                slice(m - shift, m - shift + c)
                for m, shift, c in zip(reach, shifts, cells, strict=True)
            )
            seen = jnp.where(places[(..., *window)] == number, phases[within], 0)
            moved = [(m - shift, shift, 0) for m, shift in zip(reach, shifts, strict=True)]
            zero = np.zeros((), input.dtype)
            picked = picked + lax.pad(seen.astype(input.dtype), zero, [(0, 0, 0)] * lead + moved)
        inner = tuple(slice(m, m + n) for m, n in zip(reach, self.outputs, strict=True))
        return jnp.asarray(picked)[(..., *inner)]

    def _phases(self, input: Any, cells: list[int]) -> Any:
        """``(*stride, ..., *cells)``: the padded input by the position within a cell."""
        lead = input.ndim - self.spatial
        borders = [
            (p, c * s - size - p, 0)
            for p, c, s, size in zip(self.padding, cells, self.stride, self.sizes, strict=True)
        ]
        padded = lax.pad(input, np.zeros((), input.dtype), [(0, 0, 0)] * lead + borders)
        pairs = itertools.chain(*zip(cells, self.stride, strict=True))
        split = padded.reshape(padded.shape[:lead] + tuple(pairs))
        order = (*range(lead + 1, split.ndim, 2), *range(lead), *range(lead, split.ndim, 2))
        return split.transpose(order)
