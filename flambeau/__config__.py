"""The parts of this installation, for reports of errors."""

from __future__ import annotations

import platform
from importlib.metadata import version

from flambeau.core.devices.device import available_devices
from flambeau.threads import get_num_threads
from flambeau.version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions of flambeau, its dependencies and the devices, one per line."""
    versions = {each: version(each) for each in ("jax", "jaxlib", "numpy")}
    facts = {
        "flambeau": __version__,
        **versions,
        "python": platform.python_version(),
        "system": platform.platform(),
        "devices": ", ".join(available_devices()),
    }
    return "".join(f"{name}: {fact}\n" for name, fact in facts.items())


def parallel_info() -> str:
    """The number of threads that an operator may use on the CPU."""
    return f"threads of an operator: {get_num_threads()}\n"
