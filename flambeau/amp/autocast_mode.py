"""`autocast`: operators in a lower precision where it is safe."""

from __future__ import annotations

from typing import Any

from flambeau.amp.policies import LOWER, POLICIES, SINGLE
from flambeau.core.devices.device import available_devices, device
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.support.dtype import bfloat16, dtype, float16, float32, float64
from flambeau.core.support.modes import ContextDecorator, autocast_by, modes
from flambeau.core.support.settings import setting
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor

__all__ = [
    "autocast",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]

# For functions with an argument that has the name of the class.
_DTYPE = dtype
_LOWER = (bfloat16, float16)
# The default dtypes of `autocast`, until `set_autocast_dtype` says otherwise.
_dtypes = {
    "cpu": bfloat16, "cuda": float16, "tpu": bfloat16,
    # Devices of PyTorch's that JAX lacks, but programs ask about.
    "hpu": bfloat16, "ipu": float16, "mps": float16, "mtia": float16, "xla": bfloat16,
    "xpu": float16,
}  # fmt: skip
_cache_enabled = True


class _State:
    """The dtypes that a thread's operators are cast to: `modes.autocast`.

    Args:
        dtypes: The lower precision for tensors on each type of device.
    """

    def __init__(self, dtypes: dict[str, dtype]) -> None:
        self.dtypes = dtypes

    def __eq__(self, other: object) -> bool:
        # Compiled functions compare it.
        return isinstance(other, _State) and self.dtypes == other.dtypes

    def __hash__(self) -> int:
        return hash(frozenset(self.dtypes.items()))

    def cast(self, kernel: Kernel, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs of an operator in the precision in which it runs."""
        tensors = [each for each in inputs if isinstance(each, Tensor) and is_castable(each)]
        if not tensors:
            return inputs
        where = tensors[0].device.type
        policy = POLICIES.get(where, {}).get(kernel.name)
        if policy is None or where not in self.dtypes:
            return inputs
        if policy == LOWER:
            target = self.dtypes[where]
        elif policy == SINGLE or any(each.dtype is float32 for each in tensors):
            target = float32
        else:
            target = tensors[0].dtype
        with autocast_by(None):
            return tuple(
                each.to(target) if isinstance(each, Tensor) and is_castable(each) else each
                for each in inputs
            )


def is_castable(tensor: Tensor) -> bool:
    """Whether a tensor has a dtype that `autocast` may convert."""
    return tensor.dtype.is_floating_point and tensor.dtype is not float64


class autocast(ContextDecorator):
    """Operators inside choose their precision: lower for products, single for losses and the like.

    The precision of each operator is PyTorch's choice for the type of device; all other operators
    keep the dtypes of their inputs. See
    https://docs.pytorch.org/docs/2.13/amp.html#autocast-op-reference

    Parameters are not changed: they are converted at each use, and their gradients have their own
    precision. Use it around the forward and the loss, not around `backward`. Context manager and
    decorator, per thread; it works inside a compiled function and around one.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` or ``"tpu"``: the devices of the affected tensors.
        dtype: `bfloat16` or `float16`; by default bfloat16, on ``"cuda"`` float16.
        enabled: ``False`` disables autocast inside an enclosing block.
        cache_enabled: Accepted for compatibility: nothing is cached, since a cached parameter would
            be stale after a change.

    Raises:
        ValueError: ``device_type`` is not a str.
        RuntimeError: There is no such type of device. For types that are never supported
            (``"mps"``, ``"xpu"``), it warns and does nothing.

    >>> import flambeau
    >>> layer = flambeau.nn.Linear(2, 2)
    >>> with flambeau.autocast("cpu"):
    ...     result = layer(flambeau.ones(1, 2))
    >>> result.dtype, layer.weight.dtype
    (flambeau.bfloat16, flambeau.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        check_device_type("autocast", device_type)
        self.device = device_type
        self.fast_dtype: dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self.cache_enabled = cache_enabled
        if enabled and not is_autocast_available(device_type):
            enabled = _disabled(f"there is no device of type '{device_type}' here")
        elif enabled and self.fast_dtype not in _LOWER:
            enabled = _disabled(f"dtype={self.fast_dtype!r} is neither bfloat16 nor float16")
        self.enabled: bool = bool(enabled)
        self._before: list[_State | None] = []

    def clone(self) -> autocast:
        """A new manager with the same settings."""
        return type(self)(self.device, self.fast_dtype, self.enabled, self.cache_enabled)

    def __enter__(self) -> autocast:
        before = modes.autocast
        self._before.append(before)
        modes.autocast = _changed(before, self.device, self.fast_dtype if self.enabled else None)
        return self

    def __exit__(self, *exception: object) -> None:
        modes.autocast = self._before.pop()


def _disabled(why: str) -> bool:
    warn(f"autocast does nothing: {why}", UserWarning)
    return False


def _changed(state: _State | None, device_type: str, to: dtype | None) -> _State | None:
    dtypes = {} if state is None else dict(state.dtypes)
    dtypes.pop(device_type, None)
    if to is not None:
        dtypes[device_type] = to
    return _State(dtypes) if dtypes else None


def check_device_type(name: str, device_type: Any) -> None:
    """Refuse an unknown type of device, for the function of this name."""
    if not isinstance(device_type, str):
        raise ValueError(f"{name}(): device_type is a str, got {type(device_type).__name__}")
    if device_type not in _dtypes:
        known = ", ".join(map(repr, _dtypes))
        raise RuntimeError(f"{name}(): there is no device_type {device_type!r}; there are {known}")


def is_autocast_available(device_type: str) -> bool:
    """Whether there are devices of a type: ``"cpu"``, ``"cuda"`` or ``"tpu"``."""
    return device_type in _dtypes and any(
        device(each).type == device_type for each in available_devices()
    )


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this thread is inside `autocast` for a type of device; by default ``"cuda"``."""
    where = "cuda" if device_type is None else device_type
    check_device_type("is_autocast_enabled", where)
    return modes.autocast is not None and where in modes.autocast.dtypes


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch `autocast` on or off for a type of device; for ``"cuda"`` if none is given."""
    if enabled is None:
        device_type, enabled = "cuda", device_type  # pyright: ignore[reportAssignmentType]
    check_device_type("set_autocast_enabled", device_type)
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_autocast_enabled(): enabled must be a bool, got {type(enabled).__name__}"
        )
    where = str(device_type)
    modes.autocast = _changed(modes.autocast, where, get_autocast_dtype(where) if enabled else None)


def get_autocast_dtype(device_type: str) -> dtype:
    """The lower precision for a type of device: that of the active `autocast`, or the default."""
    check_device_type("get_autocast_dtype", device_type)
    inside = {} if modes.autocast is None else modes.autocast.dtypes
    return inside.get(device_type, dict(_chosen_dtypes())[device_type])


@setting
def _chosen_dtypes() -> tuple[tuple[str, dtype], ...]:
    return (*_dtypes.items(),)


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set the lower precision for a type of device, in the active `autocast` and by default."""
    check_device_type("set_autocast_dtype", device_type)
    if not isinstance(dtype, _DTYPE):
        raise TypeError(f"set_autocast_dtype(): dtype must be a dtype, got {type(dtype).__name__}")
    _dtypes[device_type] = dtype
    if is_autocast_enabled(device_type):
        modes.autocast = _changed(modes.autocast, device_type, dtype)


@setting
def is_autocast_cache_enabled() -> bool:
    """The last argument of `set_autocast_cache_enabled`; nothing is cached in either case."""
    return _cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Accepted for compatibility; see ``cache_enabled`` of `autocast`."""
    global _cache_enabled
    _cache_enabled = bool(enabled)
