"""Worker processes that prepare batches, and the communication with them.

They are new processes, not forks: JAX has threads, which a fork would not copy. In workers JAX uses
only the CPU, since the devices belong to this process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any

import numpy as np

from flambeau.random import manual_seed
from flambeau.utils.data.fetching import Fetch, fetcher

__all__ = ["WorkerInfo", "get_worker_info"]

#: The kinds of reply.
DATA, FAILED, ENDED = "data", "failed", "ended"
# The message that restarts the dataset, sent in place of an index.
_RESTART = "restart"
_SECONDS_TO_END = 5


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """The result of `get_worker_info`.

    Attributes:
        id: The index of the worker, from 0 on.
        num_workers: The number of workers.
        seed: The seed of its random numbers: Python's, and flambeau's default generator.
        dataset: The worker's own copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a `DataLoader`, its `WorkerInfo`; elsewhere ``None``."""
    return _info


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The four words that seed NumPy's generator in a worker of PyTorch's."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4).tolist()


@dataclass(frozen=True)
class Job:
    """The settings that are sent to all workers of a loader once."""

    dataset: Any
    is_iterable: bool
    in_batches: bool
    collate_fn: Fetch
    drop_last: bool
    base_seed: int
    worker_init_fn: Callable[[int], Any] | None
    num_workers: int

    def fetcher(self) -> Fetch:
        """See `fetcher`."""
        return fetcher(
            self.dataset, self.is_iterable, self.in_batches, self.collate_fn, self.drop_last
        )


# In the worker


def work(connection: Connection, job: Job, number: int) -> None:
    """Reply to indices with batches, in order, until the other side closes the connection."""
    global _info
    seed = job.base_seed + number
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(numpy_seed(job.base_seed, number))  # noqa: NPY002 - the user's
    _info = WorkerInfo(number, job.num_workers, seed, job.dataset)
    fetch = _prepared(job, number)
    # Sending blocks until the reader is ready, while more batches can be prepared.
    with ThreadPoolExecutor(1) as sender, contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            kind, index = connection.recv()
            if kind == _RESTART:
                fetch = _prepared(job, number, again=True)
            else:
                sender.submit(connection.send_bytes, _reply(fetch, index, number))
    # The last action of `multiprocessing` in this process.
    Finalize(None, _leave, exitpriority=-100)


def _leave() -> None:
    """Exit this process like a fork: a shutdown of the interpreter would take longer."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(0)


def numpy_seed(base_seed: int, number: int) -> np.ndarray:
    """The four words with which PyTorch seeds NumPy in worker ``number``."""
    entropy = (number, base_seed % 2**32, base_seed >> 32, 0)
    return np.random.SeedSequence(entropy).generate_state(4)


def _prepared(job: Job, number: int, again: bool = False) -> Fetch:
    """The fetching function; a function that raises, if there is none."""
    try:
        if job.worker_init_fn is not None and not again:
            job.worker_init_fn(number)
        return job.fetcher()
    except Exception as error:  # noqa: BLE001 - raised when a batch is asked for
        failure = error

    def fail(index: Any) -> Any:
        raise failure

    return fail


def _reply(fetch: Fetch, index: Any, number: int) -> bytes:
    try:
        return pickle.dumps((DATA, fetch(index)), pickle.HIGHEST_PROTOCOL)
    except StopIteration:
        return pickle.dumps((ENDED, None))
    except Exception as error:  # noqa: BLE001 - raised in the other process
        text = "".join(traceback.format_exception(error))
        return pickle.dumps((FAILED, (_sendable(error), number, text)))


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - such classes have constructors of all kinds
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# In the process of the loader


class WorkerError(Exception):
    """The cause of an exception raised in a worker: its message is the worker's traceback."""


def raise_from_worker(error: Exception, number: int, text: str) -> None:
    """Raise the error that a worker raised."""
    raise error from WorkerError(f"in DataLoader worker process {number}:\n\n{text}")


class CannotBeSentError(Exception):
    """The job of the workers cannot be pickled."""


class Workers:
    """Processes that each reply to indices with batches, in the order in which they are sent.

    They end when this object is freed.

    Args:
        job: The job of the workers.
        context: The ``multiprocessing`` context that starts them.

    Raises:
        CannotBeSentError: The job cannot be pickled.
    """

    stop: Any

    def __init__(self, job: Job, context: Any) -> None:
        self._processes: list[Any] = []
        self._connections: list[Connection] = []
        #: Ends the processes.
        self.stop = weakref.finalize(self, _stop, self._processes, self._connections)
        ends = []
        for number in range(job.num_workers):
            here, remote = context.Pipe()
            process = context.Process(target=work, args=(remote, job, number), daemon=True)
            self._connections.append(here)
            self._processes.append(process)
            ends.append(remote)
        try:
            # Each start blocks until the new process has read the dataset.
            with _on_the_cpu(), ThreadPoolExecutor(job.num_workers) as threads:
                list(threads.map(lambda process: process.start(), self._processes))
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            self.stop()
            raise CannotBeSentError(
                "workers are new processes, so the dataset, collate_fn and worker_init_fn must be "
                "picklable: classes and functions of a module, no lambdas; there was "
                f"{type(error).__name__}: {error}"
            ) from error
        finally:
            for end in ends:
                end.close()

    def send(self, worker: int, index: Any) -> None:
        """Make a worker prepare the sample or batch of ``index``."""
        self._send(worker, ("index", index))

    def restart(self) -> None:
        """Make all workers restart the dataset."""
        for worker in range(len(self._processes)):
            self._send(worker, (_RESTART, None))

    def _send(self, worker: int, message: Any) -> None:
        # A dead worker is reported when its reply is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connections[worker].send(message)

    def receive(self, workers: set[int], timeout: float) -> tuple[int, str, Any]:
        """The next reply of some workers: the worker, the kind, and the content.

        Raises:
            RuntimeError: There was none for ``timeout`` seconds, if that is not 0; or the worker
                has ended.
        """
        open_ends = {self._connections[worker]: worker for worker in workers}
        ready = wait(open_ends, timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        connection: Any = ready[0]
        worker = open_ends[connection]
        try:
            reply = connection.recv_bytes()
        except (EOFError, OSError):
            process = self._processes[worker]
            process.join(_SECONDS_TO_END)
            raise RuntimeError(
                f"DataLoader worker (pid {process.pid}) exited unexpectedly with code "
                f"{process.exitcode}; see its output for the reason. Workers import the main "
                'script: put the code that it runs under `if __name__ == "__main__":`'
            ) from None
        return worker, *pickle.loads(reply)


@contextlib.contextmanager
def _on_the_cpu() -> Iterator[None]:
    """Hide all devices except the CPU from processes that are started in this block."""
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAX_PLATFORMS"]
        else:
            os.environ["JAX_PLATFORMS"] = before


def _stop(processes: list[Any], connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()
    started = [process for process in processes if process.pid is not None]
    for process in started:
        process.join(_SECONDS_TO_END)
        if process.is_alive():
            process.terminate()
            process.join(_SECONDS_TO_END)
