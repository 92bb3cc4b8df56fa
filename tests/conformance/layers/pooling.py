"""Pooling and padding."""

from __future__ import annotations

from tests.conformance.layers.table import normal, row, uniform


def Unpooled(lib, dims):
    """A pooling with indices, and its unpooling, as one layer."""

    class Both(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = getattr(lib.nn, f"MaxPool{dims}d")(2, return_indices=True)
            self.unpool = getattr(lib.nn, f"MaxUnpool{dims}d")(2)

        def forward(self, input):
            return self.unpool(*self.pool(input), output_size=input.shape)

    return Both()


# Pooling

for dims in (1, 2, 3):
    shape = (1, 2, *(6, 5, 4)[:dims])
    for name, options in {
        f"MaxPool{dims}d": {"kernel_size": 2},
        f"AvgPool{dims}d": {"kernel_size": 2, "padding": 1, "stride": 1},
        f"LPPool{dims}d": {"norm_type": 2, "kernel_size": 2},
        f"AdaptiveMaxPool{dims}d": {"output_size": 3},
        f"AdaptiveAvgPool{dims}d": {"output_size": 3},
    }.items():
        row(
            name,
            lambda lib, name=name, options=options: getattr(lib.nn, name)(**options),
            uniform(*shape),
        )
        row(
            f"{name}-unbatched",
            lambda lib, name=name, options=options: getattr(lib.nn, name)(**options),
            uniform(*shape[1:]),
        )
    row(
        f"MaxPool{dims}d-options",
        lambda lib, dims=dims: getattr(lib.nn, f"MaxPool{dims}d")(
            3, stride=2, padding=1, dilation=2, return_indices=True, ceil_mode=True
        ),
        normal(*shape),
    )
    row(
        f"AdaptiveMaxPool{dims}d-indices",
        lambda lib, dims=dims: getattr(lib.nn, f"AdaptiveMaxPool{dims}d")(2, return_indices=True),
        normal(*shape),
    )
    row(
        f"MaxUnpool{dims}d",
        lambda lib, dims=dims: Unpooled(lib, dims),
        normal(1, 2, *(4,) * dims),
    )
row(
    "AvgPool2d-options",
    lambda lib: lib.nn.AvgPool2d(
        (2, 3), padding=1, ceil_mode=True, count_include_pad=False, divisor_override=5
    ),
    normal(1, 2, 5, 5),
)
row("AdaptiveAvgPool2d-none", lambda lib: lib.nn.AdaptiveAvgPool2d((None, 2)), normal(1, 2, 3, 4))
row(
    "FractionalMaxPool2d",
    lambda lib: lib.nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.6), return_indices=True),
    normal(1, 2, 6, 6),
)
row("FractionalMaxPool2d-size", lambda lib: lib.nn.FractionalMaxPool2d(2, 3), normal(1, 2, 6, 6))
row("FractionalMaxPool3d", lambda lib: lib.nn.FractionalMaxPool3d(2, 2), normal(1, 2, 4, 4, 4))
row(
    "FractionalMaxPool3d-windows",
    lambda lib: lib.nn.FractionalMaxPool3d((2, 3, 2), (3, 4, 5), return_indices=True),
    normal(2, 2, 7, 8, 9),
)
for name in ("FractionalMaxPool2d", "FractionalMaxPool3d"):
    row(
        f"{name}-empty",
        lambda lib, name=name: getattr(lib.nn, name)(2, 2),
        normal(0, 2, *(4, 4, 4)[: int(name[-2])]),
    )

# Padding

for dims in (1, 2, 3):
    shape = (1, 2, *(4, 4, 4)[:dims])
    sides = (1, 2, 0, 1, 2, 1)[: 2 * dims]
    for kind in ("Circular", "Reflection", "Replication", "Zero"):
        name = f"{kind}Pad{dims}d"
        row(name, lambda lib, name=name, sides=sides: getattr(lib.nn, name)(sides), normal(*shape))
        row(f"{name}-one", lambda lib, name=name: getattr(lib.nn, name)(1), normal(*shape))
    row(
        f"ConstantPad{dims}d",
        lambda lib, dims=dims: getattr(lib.nn, f"ConstantPad{dims}d")(1, 3.5),
        normal(*shape),
    )
row("ConstantPad2d-negative", lambda lib: lib.nn.ConstantPad2d((-1, 1, 0, -2), 1), normal(2, 4, 4))
