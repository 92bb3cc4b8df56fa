"""Run the tests that depend on Python's bytecode or JAX's private names on other versions.

    python -m tools.pythons [--versions 3.12 3.13] [--workers 2]

Each supported Python on the path or in pyenv, other than the running one, is tested with the newest
JAX that pip installs, and the running one with the oldest that `pyproject.toml` allows. Each pair
has its own virtual environment under `.venv-pythons`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".venv-pythons"
SUPPORTED = ["3.11", "3.12", "3.13", "3.14"]
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
#: The tests that read bytecode, hook function entry, or use private names of JAX.
SELECTION = [
    "tests/test_architecture.py",
    *(f"tests/core/test_{name}.py" for name in ("programs", "store", "trace", "tensor")),
    *(f"tests/compile/test_{name}.py" for name in ("program", "reads", "interrupted_traces")),
]
# Packages that JAX depends on, in the version that it requires.
_OF_JAX = ("jax", "jaxlib", "ml_dtypes", "numpy", "scipy")
_IS_RIGHT = "import sys; sys.exit('%d.%d' % sys.version_info[:2] != sys.argv[1])"


def interpreter(version: str) -> str | None:
    """An interpreter of that version; ``None`` if none can be started."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [
        shutil.which(f"python{version}"),
        *sorted(map(str, pyenv.glob(f"{version}.*/bin/python"))),
    ]
    for each in filter(None, found):
        if subprocess.run([each, "-c", _IS_RIGHT, version], capture_output=True).returncode == 0:
            return each
    return None


def oldest_jax() -> str:
    """The oldest supported JAX, as a requirement."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bound,) = [each for each in project["dependencies"] if re.match(r"jax\b", each)]
    return bound.replace(">=", "==")


def constraints() -> str:
    """The tested versions of everything but JAX's own dependencies."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return "\n".join(each for each in lines if each.split("==")[0] not in _OF_JAX)


def environment(python: str, name: str, jax: str) -> Path:
    """Create a virtual environment for the tests of flambeau; returns its interpreter.

    Args:
        python: The interpreter to create it with.
        name: The name of its folder.
        jax: The requirement for JAX.
    """
    folder = FOLDER / name
    made = folder / "bin" / "python"
    if not made.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    held = FOLDER / "constraints.txt"
    held.write_text(constraints())
    install = [made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--upgrade", "pip>=25.1"], check=True)
    subprocess.run(
        [*install, "--constraint", held, "--editable", ".", "--group", "test", jax],
        cwd=ROOT, check=True,
    )  # fmt: skip
    return made


def main() -> None:
    """Run the selection on each pair of versions; exit with 1 if a test fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--versions", nargs="*", default=SUPPORTED)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    failed = []
    for version in options.versions:
        is_running = version == RUNNING
        python = sys.executable if is_running else interpreter(version)
        jax = oldest_jax() if is_running else "jax"
        if python is None:
            print(f"Python {version}: not found, not tested", flush=True)
            continue
        made = environment(python, f"{version}-{'oldest' if is_running else 'newest'}", jax)
        shown = "import jax; print(jax.__version__)"
        jax = subprocess.check_output([made, "-c", shown], text=True).strip()
        print(f"Python {version} with JAX {jax}", flush=True)
        tests = [made, "-m", "pytest", "-q", "--numprocesses", str(options.workers), *SELECTION]
        # What XLA optimizes is the same for all.
        flags = subprocess.check_output([made, "-m", "tests.fuzz.quick_xla"], cwd=ROOT, text=True)
        variables = {**os.environ, "XLA_FLAGS": flags}
        if subprocess.run(tests, cwd=ROOT, env=variables, check=False).returncode:
            failed.append(f"Python {version} with JAX {jax}")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
