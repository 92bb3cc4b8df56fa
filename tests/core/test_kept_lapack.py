"""Programs that call LAPACK run in a process that finds them on disk and traces none."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import flambeau
print(flambeau.linalg.svdvals(flambeau.ones(2, 2, dtype=flambeau.float64)).sum().item())
"""


def test_a_second_process_runs_what_the_first_has_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FLAMBEAU_CACHE", raising=False)
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        assert abs(float(ran.stdout) - 2) < 1e-12
