"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.core.programs import finishing
from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.ops.reductions.many import split_to_shapes
from flambeau.ops.shapes.shape import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, concatenated, ``(elements,)``.

    Raises:
        TypeError: The parameters are on different devices.

    >>> import flambeau
    >>> from flambeau.nn.utils import parameters_to_vector
    >>> parameters_to_vector([flambeau.zeros(2, 2), flambeau.ones(1)])
    tensor([0., 0., 0., 0., 1.])
    """
    parameters = list(parameters)
    _check_devices(parameters)
    return cat([each.reshape(-1) for each in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of a vector into the parameters, in order.

    Args:
        vec: ``(elements,)``; surplus elements are ignored.
        parameters: The parameters.

    Raises:
        TypeError: ``vec`` is not a Tensor, or the parameters are on different devices.
        RuntimeError: The vector is too short. No parameter is changed then.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters() takes a Tensor, got {type(vec).__name__}")
    parameters = list(parameters)
    _check_devices(parameters)
    needed = sum(each.numel() for each in parameters)
    if vec.dim() != 1 or vec.numel() < needed:
        raise RuntimeError(
            f"vector_to_parameters() needs a vector of {needed} elements, "
            f"got shape {list(vec.shape)}"
        )
    with no_grad():
        values = split_to_shapes(vec.detach(), tuple([tuple(each.shape) for each in parameters]))

        def write(_: object) -> None:
            for each, value in zip(parameters, values, strict=True):
                if each.dtype == value.dtype:
                    each._store(value._read())
                else:
                    each.data = value

        finishing.finish(write)


def _check_devices(parameters: list[Tensor]) -> None:
    devices = {str(each.device): None for each in parameters}
    if len(devices) > 1:
        raise TypeError(f"the parameters are on several devices: {', '.join(devices)}")
