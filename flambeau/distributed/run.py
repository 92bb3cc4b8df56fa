"""``python -m flambeau.distributed.run --nproc-per-node 2 script.py`` starts several processes.

Each gets ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT`` in its
environment, which `init_process_group` reads. If one fails, the others are terminated, and with
``--max-restarts`` all are started again: a script then resumes from its last checkpoint.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

__all__ = ["main"]

# The seconds for a process to end by itself, after another has failed and after SIGTERM.
_TO_NOTICE, _TO_END = 5.0, 5.0
_LOOK = 0.05
_INTERRUPTED = 130  # The exit code of a launcher that was asked to end.


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the processes, wait for them, and return the exit code.

    Args:
        arguments: The command line arguments.
    """
    options = _parser().parse_args(arguments)
    nodes = int(str(options.nnodes).partition(":")[0])
    if options.max_restarts < 0:
        _parser().error(f"--max-restarts must not be negative, got {options.max_restarts}")
    if not 0 <= options.node_rank < nodes:
        _parser().error(f"--node-rank must be below --nnodes {nodes}, got {options.node_rank}")
    count = _count(options.nproc_per_node)
    address, port = options.master_addr, options.master_port
    if options.rdzv_endpoint:
        host, _, given = options.rdzv_endpoint.rpartition(":")
        address, port = (host, int(given)) if host else (given, port)
    if nodes == 1:
        address = address or "127.0.0.1"
    elif options.max_restarts:
        _parser().error("--max-restarts needs --nnodes 1: machines do not agree on a restart")
    elif not address or not port:
        _parser().error("several machines need --master-addr and --master-port of the first one")
    shared = {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port or _free_port()),
        "WORLD_SIZE": str(nodes * count),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(options.node_rank),
        "GROUP_WORLD_SIZE": str(nodes),
        "TORCHELASTIC_RUN_ID": options.rdzv_id,
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
    }
    command, first = _command(options), options.node_rank * count
    restarts = 0
    while True:
        code = _run(command, {**shared, "TORCHELASTIC_RESTART_COUNT": str(restarts)}, count, first)
        if code in (0, _INTERRUPTED) or restarts == options.max_restarts:
            return code
        restarts += 1
        sys.stderr.write(f"flambeau: restart {restarts} of {options.max_restarts}\n")
        shared["MASTER_PORT"] = str(port or _free_port())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flambeau.distributed.run",
        description="Starts a script in several processes on this machine.",
    )

    def add(name: str, **options: object) -> None:
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", **options)  # type: ignore[arg-type]

    add("nnodes", default="1", help="the number of machines")
    add("nproc-per-node", default="1", help='processes on each machine, or "gpu"')
    add("node-rank", type=int, default=0, help="the number of this machine, from 0")
    add("master-addr", default="", help="the first machine's address")
    add("master-port", type=int, default=0, help="a free port of the first machine")
    add("rdzv-endpoint", default="", help="address:port of the first machine, in one word")
    add("rdzv-backend", default="static", help="accepted: machines meet at the first one")
    add("rdzv-id", default="none", help="a name for the run")
    add("max-restarts", type=int, default=0, help="how often all start again after a failure")
    parser.add_argument("--standalone", action="store_true", help="one machine: the default")
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module")
    add("no-python", action="store_true", help="the script is a program")
    parser.add_argument("script", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")
    return parser


def _count(text: str) -> int:
    if text in ("gpu", "auto"):
        from flambeau import cuda

        return max(1, cuda.device_count())
    if text == "cpu":
        return os.cpu_count() or 1
    count = int(text)
    if count < 1:
        _parser().error(f"--nproc-per-node must be positive, got {count}")
    return count


def _command(options: argparse.Namespace) -> list[str]:
    if options.no_python:
        return [options.script, *options.arguments]
    module = ["-m"] if options.module else []
    return [sys.executable, "-u", *module, options.script, *options.arguments]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(command: list[str], shared: dict[str, str], count: int, first: int) -> int:
    processes: list[subprocess.Popen[bytes]] = []

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        for place in range(count):
            own = {"LOCAL_RANK": str(place), "RANK": str(first + place)}
            processes.append(subprocess.Popen(command, env={**os.environ, **shared, **own}))
        return _wait(processes, first)
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        _end(processes)
        signal.signal(signal.SIGTERM, before)


def _wait(processes: list[subprocess.Popen[bytes]], first: int) -> int:
    """Wait until all have ended successfully, or one has failed; return its exit code."""
    while True:
        codes = [each.poll() for each in processes]
        failed = [place for place, code in enumerate(codes) if code]
        if failed:
            break
        if None not in codes:
            return 0
        time.sleep(_LOOK)
    place = failed[0]
    code = processes[place].returncode
    how = f"with code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
    sys.stderr.write(f"flambeau: process {first + place} has ended {how}; the others are ended\n")
    _await(processes, _TO_NOTICE)
    return code if code > 0 else 128 - code


def _await(processes: list[subprocess.Popen[bytes]], seconds: float) -> None:
    end = time.monotonic() + seconds
    while any(each.poll() is None for each in processes) and time.monotonic() < end:
        time.sleep(_LOOK)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for ask in (subprocess.Popen.terminate, subprocess.Popen.kill):
        for each in processes:
            if each.poll() is None:
                ask(each)
        _await(processes, _TO_END)


if __name__ == "__main__":
    sys.exit(main())
