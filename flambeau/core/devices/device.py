"""Devices under PyTorch's names, mapped to JAX's.

``cpu``, ``cuda[:i]`` and ``tpu[:i]`` hold arrays; ``meta`` holds shapes and dtypes only.
"""

from __future__ import annotations

import functools

import jax
from jax.sharding import Sharding

from flambeau.core.support import world
from flambeau.core.support.modes import ContextDecorator, modes
from flambeau.core.types import DeviceLike, JaxDevice

# The platform names under which JAX knows each of our device types.
_JAX_PLATFORMS = {"cpu": ("cpu",), "cuda": ("cuda", "gpu", "rocm"), "tpu": ("tpu",)}
# PyTorch's other types of devices. Programs make them and compare with them; JAX has none of them.
_ELSEWHERE = (
    "fpga", "hip", "hpu", "ideep", "ipu", "lazy", "maia", "mkldnn", "mps", "mtia", "opencl",
    "opengl", "privateuseone", "ve", "vulkan", "xla", "xpu",
)  # fmt: skip
#: Whether this process has asked for any device but the first CPU.
others_in_use: bool = False
_TYPE_OF_JAX_PLATFORM = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}


class device(ContextDecorator):
    """The place of a tensor; as a context manager, the place of new tensors from factories.

    Args:
        type: ``"cpu"``, ``"cuda"``, ``"tpu"`` or ``"meta"``, optionally with ``":index"``; another
            device; or the index of a ``cuda`` device. PyTorch's other types, such as ``"mps"``, can
            be named; to put a tensor there is an error.
        index: The index among devices of this type; ``None`` means the first (or the current one).

    Raises:
        RuntimeError: The type is unknown, or the index is given twice or is negative.

    >>> import flambeau
    >>> with flambeau.device("meta"):
    ...     weight = flambeau.empty(3, 4)
    >>> weight.device
    device(type='meta')
    """

    type: str
    index: int | None

    def __init__(self, type: str | int | device, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index if index is None else index
        elif isinstance(type, int):
            type, index = "cuda", type
        elif not isinstance(type, str):
            raise TypeError(
                f"device() takes a string, an integer or a device, got {_class_name(type)}"
            )
        name, colon, digits = type.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(f"device index given twice: in {type!r} and as index={index}")
            if not digits.isdecimal():
                raise RuntimeError(f"invalid device string {type!r}: expected e.g. 'cuda:0'")
            index = int(digits)
        if name not in _JAX_PLATFORMS and name != "meta" and name not in _ELSEWHERE:
            expected = ", ".join((*_JAX_PLATFORMS, "meta"))
            raise RuntimeError(
                f"Expected one of {expected} device type at start of device string: {name!r} is an "
                "unknown device type"
            )
        if index is not None and index < 0:
            raise RuntimeError(f"device index must not be negative, got {index}")
        self.type, self.index = name, index
        self._entered: list[device | None] = []

    def __enter__(self) -> device:
        self._entered.append(modes.device)
        modes.device = self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.device = self._entered.pop()

    @functools.cached_property
    def jax_device(self) -> JaxDevice:
        """The JAX device with this name.

        Raises:
            RuntimeError: This machine has no such device; the message lists those it has.
        """
        global others_in_use
        found = _devices_of(self.type)
        index = self.index or 0
        others_in_use = others_in_use or self.type != "cpu" or index > 0
        if index >= len(found):
            raise RuntimeError(
                f"device '{self}' is not available: this machine has "
                f"{', '.join(available_devices())}"
            )
        return found[index]

    def clone(self) -> device:
        """A new context manager for the same device."""
        return device(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[type[device], tuple[str, int | None]]:
        return device, (self.type, self.index)


CPU = device("cpu")
META = device("meta")


def as_device(value: DeviceLike) -> device:
    """``value`` as a device; ``None`` gives the current default."""
    if value is None:
        return modes.device or _global_default
    if isinstance(value, str):
        return _named(value)
    return value if isinstance(value, device) else device(value)


@functools.lru_cache(maxsize=256)
def _named(name: str) -> device:
    return device(name)


_global_default = CPU


def set_default_device(device: device | str | int | None) -> None:
    """Set the device on which factories put new tensors; ``None`` restores the CPU.

    Raises:
        RuntimeError: The device does not exist on this machine.
    """
    global _global_default
    chosen = CPU if device is None else as_device(device)
    if chosen.type != "meta":
        _ = chosen.jax_device  # fails if there is none
    if chosen != _global_default:
        _global_default = chosen
        world.bump()


def get_default_device() -> device:
    """The device on which factories put new tensors on this thread."""
    return modes.device or _global_default


@functools.cache
def _devices_of(type: str) -> tuple[JaxDevice, ...]:
    for platform in _JAX_PLATFORMS.get(type, ()):
        try:
            return tuple(jax.local_devices(backend=platform))
        except RuntimeError:
            continue
    return ()


def available_devices() -> list[str]:
    """The names of all devices on this machine, ``meta`` excepted."""
    return [
        type if type == "cpu" and i == 0 else f"{type}:{i}"
        for type in _JAX_PLATFORMS
        for i in range(len(_devices_of(type)))
    ]


@functools.cache
def from_jax_device(found: JaxDevice) -> device:
    """The flambeau device for a JAX one. CPUs are all ``cpu`` unless there are several."""
    type = _TYPE_OF_JAX_PLATFORM[found.platform]
    theirs = _devices_of(type)
    if found not in theirs:
        # A device of another process: its index among the devices of that process.
        each = jax.devices(found.platform)
        theirs = tuple(e for e in each if e.process_index == found.process_index)
    index = theirs.index(found)
    return CPU if (type, index) == ("cpu", 0) else device(type, index)


@functools.lru_cache(maxsize=1024)
def of_sharding(sharding: Sharding) -> device:
    """The first device of a JAX sharding."""
    known = sharding.addressable_devices or sharding.device_set
    return from_jax_device(min(known, key=lambda each: each.id))


def _class_name(value: object) -> str:
    return value.__class__.__name__
