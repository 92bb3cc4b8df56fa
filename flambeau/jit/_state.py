"""Whether TorchScript is on, under the name of PyTorch's private module."""

from types import SimpleNamespace

#: Its ``enabled`` is what ``PYTORCH_JIT=0`` sets; here nothing is in TorchScript either way.
_enabled = SimpleNamespace(enabled=True)
