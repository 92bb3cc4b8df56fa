"""Files for TensorBoard: `SummaryWriter`, which tensorboardX writes.

Importing this module without tensorboardX raises an ImportError, as PyTorch does without
tensorboard.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trees import map_tensors

try:
    _SummaryWriter: Any = import_module("tensorboardX").SummaryWriter
except ImportError as error:
    raise ImportError(
        "flambeau.utils.tensorboard needs tensorboardX, which writes TensorBoard's files without "
        "PyTorch: pip install tensorboardX"
    ) from error

__all__ = ["SummaryWriter"]


def _in_numpy(tensor: Tensor) -> Any:
    # NumPy has no bfloat16.
    plain = tensor.detach().float() if tensor.is_floating_point() else tensor.detach()
    return plain.cpu().numpy()


def _taking_tensors(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        own = getattr(super(SummaryWriter, self), name)
        args, kwargs = map_tensors(_in_numpy, (args, kwargs), dict | list | tuple)
        return own(*args, **kwargs)

    method.__name__ = name
    return method


class SummaryWriter(_SummaryWriter):
    """tensorboardX's writer, which accepts tensors too."""

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
