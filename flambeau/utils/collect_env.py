"""Information about the machine for a bug report: ``python -m flambeau.utils.collect_env``."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import NamedTuple

import jax

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main", "pretty_str"]

_PACKAGES = ("flambeau", "jax", "jaxlib", "numpy")


class SystemEnv(NamedTuple):
    """Information about a machine, as texts."""

    versions: str
    python_version: str
    os: str
    devices: str


def get_env_info() -> SystemEnv:
    """The versions of packages and Python, the system, and JAX's devices."""
    versions = ", ".join(f"{each} {metadata.version(each)}" for each in _PACKAGES)
    devices = ", ".join(map(str, jax.devices()))
    return SystemEnv(versions, sys.version.replace("\n", " "), platform.platform(), devices)


def pretty_str(envinfo: SystemEnv) -> str:
    """`get_env_info` as lines of text."""
    return "\n".join(f"{name}: {value}" for name, value in envinfo._asdict().items())


def get_pretty_env_info() -> str:
    """The information about this machine as lines of text."""
    return pretty_str(get_env_info())


def main() -> None:
    """Print them."""
    sys.stdout.write(f"{get_pretty_env_info()}\n")


if __name__ == "__main__":
    main()
