"""Files from strangers: `flambeau.load` of valid files that have been changed.

``python -m tests.fuzz.files --seconds 600 --seed 1`` searches, ``--file INDEX --seed 1`` writes
one file of a search to standard output. A disagreement is

- a crash: the process that reads the files ends;
- an error that is no `CheckpointError`, or whose message is longer than a page;
- more memory than `flambeau.checkpoint.Limits` lets a file claim: ten times the file, and 128 MiB;
- more than five seconds.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import numpy as np

import flambeau
from flambeau.checkpoint import CheckpointError, load, read_metadata
from tests.fuzz.file_mutations import mutated
from tests.fuzz.report import Disagreement, Report, main

SECONDS = 5.0
# When a file that takes too long ends the process.
LONGEST = 60.0
TIMES_THE_FILE, AT_LEAST = 10, 128 << 20
# What the allocator and XLA may keep for later, whatever the file.
SLACK = 32 << 20
# How much the process may have in all, so that a defect does not take the machine's memory.
ADDRESS_SPACE = 4 << 30
LONGEST_MESSAGE = 3000
BATCH = 200
PAGE = resource.getpagesize()


def input_of(seed: int, index: int) -> bytes:
    """One file of a search, the same whatever has been made before."""
    return mutated(Random(f"{seed} {index}"))


def judged(data: bytes, random: Random, folder: Path) -> tuple[str, str]:
    """What became of a file, and what is wrong with that, or nothing."""
    before, highest = _resident(), _highest()
    begin = time.perf_counter()
    outcome, wrong = _outcome(data, random, folder)
    seconds = time.perf_counter() - begin
    allowed = TIMES_THE_FILE * len(data) + AT_LEAST + SLACK
    if not wrong and seconds > SECONDS:
        wrong = f"{seconds:.1f} seconds"
    # What the process has had at most grows only where a file takes more than all before.
    if not wrong and _highest() > highest and _highest() - before > allowed:
        wrong = f"{(_highest() - before) >> 20} MiB for a file of {len(data)} bytes"
    return outcome, wrong


def _outcome(data: bytes, random: Random, folder: Path) -> tuple[str, str]:
    try:
        if random.random() < 0.05:
            path = folder / "file.bin"
            path.write_bytes(data)
            found = load(path)
        elif random.random() < 0.05:
            found = read_metadata(io.BytesIO(data))
        else:
            found = load(io.BytesIO(data))
        return "read", _wrong_values(found)
    except CheckpointError as error:
        if isinstance(error.__cause__, MemoryError):
            return "refused", f"{ADDRESS_SPACE} bytes of memory are not enough"
        if len(str(error)) > LONGEST_MESSAGE:
            return "refused", f"a message of {len(str(error))} characters"
        return type(error).__name__, ""
    except Exception as error:  # noqa: BLE001 - errors of every other type are searched for
        return "other errors", f"{type(error).__name__}: {error!s:.200}"


def _wrong_values(found: Any) -> str:
    """What is wrong with the tensors that a small part of the content holds."""
    waiting, seen = [found], 0
    while waiting and seen < 50:
        value, seen = waiting.pop(), seen + 1
        if isinstance(value, dict):
            waiting.extend(list(value.values())[:50])
        elif isinstance(value, list | tuple):
            waiting.extend(value[:50])
        elif isinstance(value, flambeau.Tensor) and not value.is_meta and value._view is None:
            array = np.asarray(value.jax())
            if array.shape != tuple(value.shape):
                return f"elements of shape {array.shape} for {tuple(value.shape)}"
            if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
                return "a bool that is neither 0 nor 1"
    return ""


def _resident() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE


def _highest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def work(seed: int, start: int, end: int, progress: BinaryIO) -> None:
    """Judge files in this process; a line of JSON for each batch."""
    space = int(Path("/proc/self/statm").read_bytes().split()[0]) * PAGE + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    with tempfile.TemporaryDirectory() as folder:
        for first in range(start, end, BATCH):
            last = min(first + BATCH, end)
            report = Report("files", seed)
            for index in range(first, last):
                progress.seek(0)
                progress.write(struct.pack("<Q", index))
                progress.flush()
                faulthandler.dump_traceback_later(LONGEST, exit=True)
                _judge_one(seed, index, Path(folder), report)
            faulthandler.cancel_dump_traceback_later()
            found = [(each.title, each.program) for each in report.disagreements]
            sys.stdout.write(json.dumps([last, dict(report.counts), found]) + "\n")
            sys.stdout.flush()


def _judge_one(seed: int, index: int, folder: Path, report: Report) -> None:
    data = input_of(seed, index)
    outcome, wrong = judged(data, Random(f"{seed} {index} ways"), folder)
    report.counts["files"] += 1
    report.counts[outcome] += 1
    if wrong:
        report.disagreements.append(shown(seed, index, data, wrong))


def shown(seed: int, index: int, data: bytes, wrong: str) -> Disagreement:
    """A file, and what is wrong."""
    program = "import io\nimport flambeau\n"
    if len(data) <= 4000:
        program += f"flambeau.load(io.BytesIO({data!r}))\n"
    else:
        program = f"python -m tests.fuzz.files --seed {seed} --file {index} > file.bin\n"
    return Disagreement(f"seed {seed}, file {index}: {wrong}", program)


# How many files a process judges: each begins with the same memory.
PROCESS = 50_000


def run(seconds: float | None, seed: int, limit: int | None, first: int = 0) -> Report:
    """Search for that long, in one process after the other."""
    report = Report("files", seed)
    begin, index = time.monotonic(), first
    stop = None if seconds is None else begin + seconds
    limit = sys.maxsize if limit is None else first + limit
    while index < limit and (stop is None or time.monotonic() < stop):
        index = _run_process(report, seed, index, min(limit, index + PROCESS), stop)
    report.seconds = time.monotonic() - begin
    return report


def worker_command(seed: int, start: int, end: int, progress: str) -> list[str]:
    """What judges these files in a process of its own."""
    command = [sys.executable, "-m", "tests.fuzz.files", "--seed", str(seed)]
    return [*command, "--work", str(start), str(end), progress]


def _run_process(report: Report, seed: int, start: int, end: int, stop: float | None) -> int:
    """Judge files in one process; give the number of the first that it has not judged."""
    with tempfile.NamedTemporaryFile() as progress:
        command = worker_command(seed, start, end, progress.name)
        index = start
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for line in worker.stdout:
                index = report.add_line(line)
                if stop is not None and time.monotonic() > stop:
                    worker.kill()
                    return index
        sys.stderr.write(f"# {index} files\n")
        if worker.returncode != 0:
            (crashed,) = struct.unpack("<Q", progress.read().ljust(8, b"\0")[:8])
            crashed = max(crashed, index)
            wrong = f"the process ended with {worker.returncode}"
            # The files of the batch before it were judged, but not counted.
            report.counts["files"] += crashed + 1 - index
            found = shown(seed, crashed, input_of(seed, crashed), wrong)
            report.disagreements.append(found)
            sys.stderr.write(f"{found}\n")
            return crashed + 1
        return index


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--work", nargs=3, default=None)
    parser.add_argument("--file", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    known = parser.parse_known_args()[0]
    if known.file is not None:
        sys.stdout.buffer.write(input_of(known.seed, known.file))
    elif known.work is not None:
        with open(known.work[2], "r+b") as file:
            work(known.seed, int(known.work[0]), int(known.work[1]), file)
    else:
        sys.exit(main(run))
