"""Linear maps, convolutions and normalization."""

from __future__ import annotations

from tests.conformance.layers.table import normal, row

# Linear maps

row("Identity", lambda lib: lib.nn.Identity(1, x=2), normal(2, 4))
row("Linear", lambda lib: lib.nn.Linear(4, 3), normal(2, 4))
row("Linear-no-bias", lambda lib: lib.nn.Linear(4, 3, bias=False), normal(2, 4))
row("Linear-double", lambda lib: lib.nn.Linear(4, 3, dtype=lib.float64), normal(4).astype("f8"))
row("Linear-larger", lambda lib: lib.nn.Linear(7, 5), normal(2, 2, 7))
row("Bilinear", lambda lib: lib.nn.Bilinear(4, 3, 2), normal(2, 4), normal(2, 3))
row(
    "Bilinear-no-bias", lambda lib: lib.nn.Bilinear(4, 3, 2, bias=False), normal(2, 4), normal(2, 3)
)
row("LazyLinear", lambda lib: lib.nn.LazyLinear(3), normal(2, 4))
row("LazyLinear-no-bias", lambda lib: lib.nn.LazyLinear(3, bias=False), normal(2, 4))

# Convolutions

row("Conv1d", lambda lib: lib.nn.Conv1d(2, 4, 3), normal(2, 2, 6))
row("Conv1d-unbatched", lambda lib: lib.nn.Conv1d(2, 4, 3, padding="same"), normal(2, 6))
row(
    "Conv1d-dilated",
    lambda lib: lib.nn.Conv1d(2, 4, 2, stride=2, padding=1, dilation=2, groups=2, bias=False),
    normal(2, 2, 6),
)
row("Conv1d-valid", lambda lib: lib.nn.Conv1d(2, 4, 3, padding="valid"), normal(2, 2, 6))
row("Conv2d", lambda lib: lib.nn.Conv2d(2, 4, 3), normal(2, 2, 5, 5))
row(
    "Conv2d-options",
    lambda lib: lib.nn.Conv2d(4, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=2, groups=2),
    normal(2, 4, 6, 5),
)
row("Conv2d-unbatched", lambda lib: lib.nn.Conv2d(2, 2, 2, padding="same"), normal(2, 4, 4))
for mode in ("reflect", "replicate", "circular"):
    row(
        f"Conv2d-{mode}",
        lambda lib, mode=mode: lib.nn.Conv2d(2, 2, 3, padding=(1, 2), padding_mode=mode),
        normal(1, 2, 4, 4),
    )
row(
    "Conv1d-same-circular",
    lambda lib: lib.nn.Conv1d(2, 2, 4, padding="same", padding_mode="circular"),
    normal(1, 2, 6),
)
row("Conv3d", lambda lib: lib.nn.Conv3d(2, 2, 2, padding=1), normal(1, 2, 3, 3, 3))
row("ConvTranspose1d", lambda lib: lib.nn.ConvTranspose1d(2, 3, 3), normal(2, 2, 4))
row(
    "ConvTranspose1d-size",
    lambda lib: lib.nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1),
    normal(2, 2, 4),
    call={"output_size": (8,)},
)
row(
    "ConvTranspose2d",
    lambda lib: lib.nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2),
    normal(2, 4, 3, 3),
)
row(
    "ConvTranspose2d-size",
    lambda lib: lib.nn.ConvTranspose2d(2, 2, 2, stride=3, dilation=2, bias=False),
    normal(2, 3, 3),
    call={"output_size": (2, 10, 11)},
)
row("ConvTranspose3d", lambda lib: lib.nn.ConvTranspose3d(2, 2, 2), normal(1, 2, 2, 2, 2))
row("Conv1d-empty", lambda lib: lib.nn.Conv1d(4, 4, 3, groups=2), normal(0, 4, 6))
row(
    "Conv2d-empty",
    lambda lib: lib.nn.Conv2d(2, 2, 3, padding=1, padding_mode="replicate"),
    normal(0, 2, 4, 4),
)
row("Conv3d-empty", lambda lib: lib.nn.Conv3d(2, 4, 2, padding="same"), normal(0, 2, 3, 3, 3))
row("ConvTranspose2d-empty", lambda lib: lib.nn.ConvTranspose2d(2, 2, 2), normal(0, 2, 3, 3))
row(
    "ConvTranspose3d-empty",
    lambda lib: lib.nn.ConvTranspose3d(4, 3, (3, 1, 1), stride=2),
    normal(0, 4, 4, 3, 5),
)
row("LazyConv1d", lambda lib: lib.nn.LazyConv1d(4, 3, groups=2), normal(2, 2, 6))
row("LazyConv2d", lambda lib: lib.nn.LazyConv2d(4, 3, bias=False), normal(2, 5, 5))
row("LazyConv3d", lambda lib: lib.nn.LazyConv3d(2, 2, padding=1), normal(1, 2, 3, 3, 3))
row("LazyConvTranspose1d", lambda lib: lib.nn.LazyConvTranspose1d(3, 3), normal(2, 2, 4))
row("LazyConvTranspose2d", lambda lib: lib.nn.LazyConvTranspose2d(2, 3, 2), normal(2, 4, 3, 3))
row("LazyConvTranspose3d", lambda lib: lib.nn.LazyConvTranspose3d(2, 2), normal(1, 2, 2, 2, 2))
row("Fold", lambda lib: lib.nn.Fold((4, 5), (2, 3), padding=1, stride=(2, 1)), normal(1, 12, 15))
row("Unfold", lambda lib: lib.nn.Unfold((2, 3), padding=1, stride=(2, 1)), normal(1, 2, 4, 5))

# Normalization

for dims, shape in ((1, (4, 3)), (1, (2, 3, 4)), (2, (2, 3, 2, 2)), (3, (2, 3, 2, 2, 2))):
    name = f"BatchNorm{dims}d"
    row(f"{name}-{len(shape)}", lambda lib, name=name: getattr(lib.nn, name)(3), normal(*shape))
    row(
        f"Lazy{name}-{len(shape)}",
        lambda lib, name=name: getattr(lib.nn, f"Lazy{name}")(),
        normal(*shape),
    )
for name, options in {
    "momentum": {"momentum": 0.3, "eps": 1e-3},
    "average": {"momentum": None},
    "no-affine": {"affine": False},
    "no-bias": {"bias": False},
    "no-statistics": {"track_running_stats": False},
}.items():
    row(
        f"BatchNorm2d-{name}",
        lambda lib, options=options: lib.nn.BatchNorm2d(3, **options),
        normal(2, 3, 2, 2),
    )
for dims, shape in ((1, (0, 3)), (2, (0, 3, 2, 2)), (3, (2, 3, 0, 2, 2))):
    row(
        f"BatchNorm{dims}d-empty",
        lambda lib, dims=dims: getattr(lib.nn, f"BatchNorm{dims}d")(3, momentum=1.0),
        normal(*shape),
    )
row("GroupNorm-empty", lambda lib: lib.nn.GroupNorm(2, 4), normal(0, 4, 3))
row("LayerNorm-empty", lambda lib: lib.nn.LayerNorm(4), normal(0, 4))
row("SyncBatchNorm", lambda lib: lib.nn.SyncBatchNorm(3), normal(2, 3, 2, 2))
row(
    "convert_sync_batchnorm",
    lambda lib: lib.nn.SyncBatchNorm.convert_sync_batchnorm(
        lib.nn.Sequential(lib.nn.BatchNorm1d(3), lib.nn.ReLU())
    ),
    normal(4, 3),
)
for dims in (1, 2, 3):
    shape = (2, 3, *(2, 3, 2)[:dims])
    name = f"InstanceNorm{dims}d"
    row(name, lambda lib, name=name: getattr(lib.nn, name)(3), normal(*shape))
    row(
        f"{name}-affine",
        lambda lib, name=name: getattr(lib.nn, name)(3, affine=True, track_running_stats=True),
        normal(*shape),
    )
    row(f"{name}-unbatched", lambda lib, name=name: getattr(lib.nn, name)(3), normal(*shape[1:]))
    row(
        f"Lazy{name}",
        lambda lib, name=name: getattr(lib.nn, f"Lazy{name}")(affine=True, bias=False),
        normal(*shape),
    )
row("LayerNorm", lambda lib: lib.nn.LayerNorm(4), normal(2, 4))
row("LayerNorm-two", lambda lib: lib.nn.LayerNorm([3, 4], eps=1e-3), normal(2, 3, 4))
row("LayerNorm-no-bias", lambda lib: lib.nn.LayerNorm((4,), bias=False), normal(2, 4))
row("LayerNorm-plain", lambda lib: lib.nn.LayerNorm(4, elementwise_affine=False), normal(2, 4))
row("GroupNorm", lambda lib: lib.nn.GroupNorm(2, 4), normal(2, 4, 3))
row("GroupNorm-no-bias", lambda lib: lib.nn.GroupNorm(2, 4, bias=False), normal(2, 4, 3))
row("GroupNorm-plain", lambda lib: lib.nn.GroupNorm(4, 4, affine=False), normal(2, 4, 3))
row("RMSNorm", lambda lib: lib.nn.RMSNorm(4), normal(2, 4))
row("RMSNorm-eps", lambda lib: lib.nn.RMSNorm([3, 4], eps=1e-3), normal(2, 3, 4))
row("RMSNorm-plain", lambda lib: lib.nn.RMSNorm(4, elementwise_affine=False), normal(2, 4))
row("LocalResponseNorm", lambda lib: lib.nn.LocalResponseNorm(3, alpha=0.5), normal(2, 5, 3))
