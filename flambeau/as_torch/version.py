"""`torch.version`, where flambeau stands in."""

from flambeau.as_torch.torch_version import TorchVersion

__version__ = TorchVersion("2.13.0+flambeau")

#: As `flambeau.version` has them: JAX brings its own.
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"
