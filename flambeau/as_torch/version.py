"""`torch.version` under flambeau."""

from flambeau.as_torch.torch_version import TorchVersion

__version__ = TorchVersion("2.13.0+flambeau")

#: Like `flambeau.version`: JAX brings its own CUDA.
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"
