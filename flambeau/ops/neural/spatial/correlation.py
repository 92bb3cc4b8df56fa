"""A convolution as one XLA operator, which JAX can transform."""

from __future__ import annotations

from typing import Any

from jax import lax

from flambeau.ops.neural.spatial.taps import Borders, Numbers

__all__: list[str] = []

#: The layouts by the number of spatial dimensions: input, filters and output.
LAYOUTS = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW"), 3: ("NCDHW", "OIDHW", "NCDHW")}


def cross_correlation(
    input: Any,
    weight: Any,
    stride: Numbers,
    borders: Borders | tuple[tuple[int, int], ...],
    dilation: Numbers,
    groups: int,
) -> Any:
    """The cross-correlation of ``(N, C, *spatial)`` with ``(O, C / groups, *kernel)``.

    The arguments are those of `flambeau.ops.cpu_forms.convolutions.convolve`.
    """
    return lax.conv_general_dilated(
        input,
        weight,
        stride,
        borders,
        rhs_dilation=dilation,
        dimension_numbers=LAYOUTS[len(stride)],
        feature_group_count=groups,
    )
