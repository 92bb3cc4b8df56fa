"""Environments for programs, and runs in them."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "programs"
CASES = sorted((HERE / "cases").glob("*.py"))
TORCH = "torch==2.13.0"
#: Seconds that one run may take.
LIMIT = 3600


class Failed(Exception):
    """A program did not come to its end, or its packages could not be installed."""


class NotInstalledError(Failed):
    """The packages could not be installed."""


def run_on(side: str, path: Path, folder: Path, other: Path | None = None) -> None:
    """Run the program at ``path``, which leaves its numbers and facts in ``folder``.

    Args:
        side: ``"torch"`` or ``"flambeau"``.
        path: The case.
        folder: Takes ``numbers.npz``, ``facts.json``, ``weights.pt`` and ``log.txt``.
        other: The folder of a run whose weights this one loads.

    Raises:
        Failed: Says the last line of what it printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for each in folder.iterdir():
        each.unlink()
    python = environment(side, path)
    through = ["-m", "flambeau"] if side == "flambeau" else []
    command = [python, *through, HERE / "driver.py", path, folder]
    if other is not None and other != folder:
        command.append(other)
    try:
        done = subprocess.run(
            command,
            env=_variables(side),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"takes more than {LIMIT} s") from error
    (folder / "log.txt").write_text(done.stdout + done.stderr)
    if done.returncode < 0:
        # A process that a signal has ended says nothing of it.
        raise Failed(f"ended by {signal.Signals(-done.returncode).name}")
    if done.returncode:
        raise Failed(_last_line(done.stderr) or f"ended with {done.returncode}")


def environment(side: str, path: Path) -> Path:
    """The Python of an environment that has the packages of the case at ``path``.

    Cases that want the same packages share it. It looks into another one, that of PyTorch or of
    flambeau, and has what these do not have.

    Raises:
        NotInstalledError: Says the last line of what pip printed.
    """
    wanted, instead = _requirements(path)
    folder = BUILD / f"{'+'.join(wanted)}-{side}"
    python = folder / "bin" / "python"
    below = next((_base(side) / "lib").glob("python3*/site-packages"))
    made_for = "\n".join([str(below), *wanted, *instead])
    done = folder / ".done"
    if not done.exists() or done.read_text() != made_for:
        command = [sys.executable, "-m", "venv", "--clear", "--without-pip", folder]
        subprocess.run(command, check=True)
        own = next((folder / "lib").glob("python3*/site-packages"))
        # By `addsitedir`, so that what is installed there for editing counts too.
        (own / "base.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n")
        through = ["-m", "flambeau"] if side == "flambeau" else []
        _pip(python, wanted, side, through)
        if instead:
            # Not through flambeau: JAX would meet what is replaced.
            _pip(python, instead, side, [])
        done.write_text(made_for)
    return python


def _requirements(path: Path) -> tuple[list[str], list[str]]:
    declared: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.startswith(("PACKAGE = ", "REQUIRES = ", "INSTEAD = ")):
            exec(line, declared)
    wanted = [str(declared["PACKAGE"]), *declared.get("REQUIRES", [])]
    return wanted, declared.get("INSTEAD", [])


def _base(side: str) -> Path:
    """An environment with PyTorch, or one with flambeau and without PyTorch."""
    if side == "flambeau" and importlib.util.find_spec("torch") is None:
        return Path(sys.prefix)
    folder = BUILD / f"base-{side}"
    done = folder / ".done"
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        # Tests that run side by side make it once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        _make_base(folder, done, side)
    return folder


def _make_base(folder: Path, done: Path, side: str) -> None:
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        wanted = ["--editable", str(ROOT)] if side == "flambeau" else [TORCH, "numpy"]
        _pip(folder / "bin" / "python", wanted, side, [])
        done.touch()


def _pip(python: Path, wanted: list[str], side: str, through: list[str]) -> None:
    # What flambeau is tested with is not for the packages to follow; the version of PyTorch is, on
    # both sides: pip would else install a newer one beside it for a package's newest version.
    pinned = BUILD / "torch.txt"
    pinned.write_text(f"{TORCH}\n")
    constraint = ROOT / "constraints.txt" if str(ROOT) in wanted else pinned
    command = [python, *through, "-m", "pip", "install", "--quiet", "-c", constraint, *wanted]
    done = subprocess.run(
        command, env=_variables(side), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotInstalledError(f"pip: {_last_line(done.stderr)}")


def _variables(side: str) -> dict[str, str]:
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "FLAMBEAU_AS_TORCH")
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    if side == "flambeau":
        variables["PYTHONPATH"] = str(ROOT)
    quiet = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return variables | quiet


def _last_line(text: str) -> str:
    lines = [each for each in text.splitlines() if each.strip()]
    return lines[-1].strip()[:300] if lines else ""
