"""Processes that run one function each, and whose errors are raised in the parent."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.support.warning import warn

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "spawn", "start_processes",
]  # fmt: skip


class ProcessException(Exception):
    """A process has failed.

    Attributes:
        msg: The message.
        error_index: The process's index.
        pid: The process's id.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function of a process has raised an exception; the message has its traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process has ended by a signal or an exit code.

    Attributes:
        exit_code: The code.
        signal_name: The name of the signal, if a signal ended the process.
    """

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        given = self.msg, self.error_index, self.pid, self.exit_code, self.signal_name
        return type(self), given


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], report: str) -> None:
    """The main function of a process: call the function and write its exception to a file."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        # The parent process received the interrupt too.
        pass
    except Exception:  # noqa: BLE001
        Path(report).write_bytes(traceback.format_exc().encode(errors="replace"))
        sys.exit(1)


class ProcessContext:
    """Running processes, which `join` waits for.

    Attributes:
        processes: The processes.
        error_files: The files to which the processes write their exceptions.
    """

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels: dict[Any, int] = {each.sentinel: i for i, each in enumerate(processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [each.pid for each in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes; if one fails, terminate the others.

        Args:
            timeout: The maximum number of seconds to wait.
            grace_period: The seconds that the others have to exit before they are terminated.

        Returns:
            Whether all have ended.

        Raises:
            ProcessRaisedException: The function of a process raised an exception.
            ProcessExitedException: A process ended by a signal or an exit code.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait([*self.sentinels], timeout)
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                self._end_others(grace_period)
                raise self._error_of(index, process)
        return not self.sentinels

    def _end_others(self, grace_period: float | None) -> None:
        until = time.monotonic() + (grace_period or 0)
        for each in self.processes:
            each.join(max(0.0, until - time.monotonic()))
            if each.is_alive():
                each.terminate()
            each.join()

    def _error_of(self, index: int, process: Any) -> ProcessException:
        report = Path(self.error_files[index])
        content = report.read_bytes() if report.exists() else b""
        if content:
            message = f"process {index} ended with this error:\n{content.decode(errors='replace')}"
            return ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            message = f"process {index} terminated with signal {name}"
            return ProcessExitedException(message, index, process.pid, code, name)
        message = f"process {index} terminated with exit code {code}"
        return ProcessExitedException(message, index, process.pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start processes that call ``fn(index, *args)``.

    Args:
        fn: A picklable function, defined in a module.
        args: Its other arguments, which are pickled.
        nprocs: The number of processes.
        join: Whether to wait for them.
        daemon: Whether the processes end with this one.
        start_method: The start method. JAX may hang after a ``"fork"``.

    Returns:
        The process context, unless ``join``.

    Raises:
        ProcessRaisedException: The function of a process raised an exception.
        ProcessExitedException: A process ended by a signal or an exit code.
    """
    start = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for index in range(nprocs):
        with tempfile.NamedTemporaryFile(prefix="flambeau-error-", delete=False) as file:
            report = file.name
        process: Any = start.Process(  # type: ignore[attr-defined]
            target=_run, args=(fn, index, args, report), daemon=daemon
        )
        process.start()
        processes.append(process)
        reports.append(report)
    context = ProcessContext(processes, reports)
    if not join:
        return context
    try:
        while not context.join():
            pass
    finally:
        for each in reports:
            Path(each).unlink(missing_ok=True)
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with the start method ``"spawn"``."""
    if start_method != "spawn":
        warn(
            f"spawn() starts processes by 'spawn', not by {start_method!r}; see start_processes()",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
