"""The parts of this installation, for reports of errors."""

from __future__ import annotations

import platform
from importlib.metadata import version

from flambeau.core.device import available_devices
from flambeau.threads import get_num_threads
from flambeau.version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions of flambeau and of what it stands on, and the devices, a line for each."""
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
    """How many threads an operator may use on the CPU."""
    return f"threads of an operator: {get_num_threads()}\n"
