"""Programs of several processes, which PyTorch connects by Gloo: the same numbers in each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "processes"
# The number of processes of each, and how often they are started again.
PROGRAMS = {"data_parallel": (2, 0), "fully_sharded": (2, 0), "grids": (4, 0), "restarted": (2, 5)}
ROOT = Path(__file__).parents[2]


def test_all_are_run() -> None:
    assert {each.stem for each in FOLDER.glob("*.py")} == {*PROGRAMS}


def run(program: str, folder: Path, *through: str) -> list[dict[str, Any]]:
    """What each process has found."""
    folder.mkdir()
    count, restarts = PROGRAMS[program]
    options = [f"--nproc-per-node={count}", f"--max-restarts={restarts}", "--standalone"]
    launcher = ["-m", "torch.distributed.run", *options, str(FOLDER / f"{program}.py"), str(folder)]
    done = subprocess.run(
        [sys.executable, *through, *launcher],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(count)]


def check_equal(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name, each in expected.items():
            check_equal(found[name], each, f"{where} {name}")
    elif isinstance(expected, list) and not _is_numeric(expected):
        assert len(found) == len(expected), where
        for i, each in enumerate(expected):
            check_equal(found[i], each, f"{where} {i}")
    elif expected is None or isinstance(expected, str | bool):
        assert found == expected, where
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=where)


def _is_numeric(value: list[Any]) -> bool:
    return all(isinstance(each, float) for each in value)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_process_finds_what_it_finds_with_pytorch(program: str, tmp_path: Path) -> None:
    expected = run(program, tmp_path / "torch")
    found = run(program, tmp_path / "flambeau", "-m", "flambeau")
    for rank, each in enumerate(expected):
        check_equal(found[rank], each, f"rank {rank}:")
