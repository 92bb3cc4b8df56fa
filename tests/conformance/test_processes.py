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
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from flambeau.distributed.checkpoint.format_utils import whole_checkpoint

FOLDER = Path(__file__).parent / "processes"
# The number of processes of each, and how often they are started again.
PROGRAMS = {"data_parallel": (2, 0), "fully_sharded": (2, 0), "grids": (4, 0), "restarted": (2, 1)}
ROOT = Path(__file__).parents[2]


def test_all_are_run() -> None:
    assert {each.stem for each in FOLDER.glob("[!_]*.py")} == {*PROGRAMS}


def run(program: str, folder: Path, *through: str) -> list[dict[str, Any]]:
    """What each process has found."""
    folder.mkdir()
    count, restarts = PROGRAMS[program]
    # PyTorch's launcher sometimes waits for ever when it starts processes again, and its processes
    # sometimes abort at exit, while a thread runs: it is called again instead.
    again = restarts if through else 0
    options = [f"--nproc-per-node={count}", f"--max-restarts={again}", "--standalone"]
    launcher = ["-m", "torch.distributed.run", *options, str(FOLDER / f"{program}.py"), str(folder)]
    for _ in range(1 if through else restarts + 3):
        done = subprocess.run(
            [sys.executable, *through, *launcher],
            env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode == 0:
            break
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


def contents_by_torch(folder: Path) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    _load_state_dict(
        whole,
        storage_reader=FileSystemReader(folder),
        planner=_EmptyStateDictLoadPlanner(),
        no_dist=True,
    )
    return as_lists({".".join(map(str, key)): each for key, each in leaves(whole)})


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Any:
    if isinstance(tree, dict) or (isinstance(tree, list) and tree and isinstance(tree[0], dict)):
        for key, each in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(each, (*path, key))
    else:
        yield path, tree


def contents_by_flambeau(folder: Path) -> dict[str, Any]:
    return as_lists(whole_checkpoint(folder))


def as_lists(entries: dict[str, Any]) -> dict[str, Any]:
    return {
        name: each.tolist() if hasattr(each, "tolist") else str(each)
        for name, each in entries.items()
    }


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_process_finds_what_it_finds_with_pytorch(program: str, tmp_path: Path) -> None:
    expected = run(program, tmp_path / "torch")
    found = run(program, tmp_path / "flambeau", "-m", "flambeau")
    for rank, each in enumerate(expected):
        check_equal(found[rank], each, f"rank {rank}:")
    folders = [tmp_path / name / "checkpoint" for name in ("torch", "flambeau")]
    if program == "grids":
        # Each library reads the pieces that the processes of both have written.
        first, *others = [read(each) for read in READERS for each in folders]
        for each in others:
            check_equal(each, first, "checkpoint:")


READERS = [contents_by_torch, contents_by_flambeau]
