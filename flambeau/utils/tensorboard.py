"""Files for TensorBoard: `SummaryWriter`, which tensorboardX writes.

Importing this module without tensorboardX is an ImportError, as it is in PyTorch without
tensorboard.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flambeau.core.tensor import Tensor

try:
    _SummaryWriter: Any = import_module("tensorboardX").SummaryWriter
except ImportError as error:
    raise ImportError(
        "flambeau.utils.tensorboard needs tensorboardX, which writes TensorBoard's files without "
        "PyTorch: pip install tensorboardX"
    ) from error

__all__ = ["SummaryWriter"]


def _in_numpy(value: Any) -> Any:
    """A value with NumPy arrays in the place of tensors."""
    if isinstance(value, Tensor):
        # NumPy has no bfloat16.
        plain = value.detach().float() if value.is_floating_point() else value.detach()
        return plain.cpu().numpy()
    if isinstance(value, dict):
        return {key: _in_numpy(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_in_numpy, value))
    return value


def _taking_tensors(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        own = getattr(super(SummaryWriter, self), name)
        return own(*map(_in_numpy, args), **{key: _in_numpy(e) for key, e in kwargs.items()})

    method.__name__ = name
    return method


class SummaryWriter(_SummaryWriter):
    """tensorboardX's writer, which takes tensors too."""

    def add_graph(self, *args: Any, **kwargs: Any) -> None:
        """Graphs of modules are not written.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "add_graph() needs TorchScript, which is not there; jax.make_jaxpr shows a program"
        )


for _name in [each for each in dir(_SummaryWriter) if each.startswith("add_")]:
    if _name != "add_graph":
        setattr(SummaryWriter, _name, _taking_tensors(_name))
