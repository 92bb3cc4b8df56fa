"""Results as files, from which `tools.figures` writes the tables of the pages.

`make bench` names their folder in the environment variable RESULTS; without it nothing is kept.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

LIBRARIES = ("jax", "torch", "flax", "equinox")


def keep(name: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Write ``name.json`` with the rows, and the machine, versions, commit and date.

    Args:
        name: The benchmark and its setting, such as ``"models.1-core"``.
        rows: For each row a ratio for each column.
    """
    folder = os.environ.get("RESULTS")
    if not folder:
        return
    kept = {
        "machine": _gpu() if name.endswith(".gpu") else _processor(),
        "python": platform.python_version(),
        "versions": {each: version for each in LIBRARIES if (version := _version(each))},
        "commit": _commit(),
        "date": dt.date.today().isoformat(),
        "rows": {
            row: {column: round(ratio, 3) for column, ratio in columns.items()}
            for row, columns in rows.items()
        },
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return f"{next(names, platform.machine())}, {os.cpu_count()} virtual cores"


def _gpu() -> str:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return ", ".join(subprocess.check_output(command, text=True).split("\n")).strip(", ")


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
