"""Running a program that overwrites its inputs: no value is lost, and no reader sees half a step.

A call has four stages, all while `lock` is held:

1. The arrays are taken out of the Cells that the program may overwrite. A thread that reads an
   empty Cell waits for `lock` (`Cell.__getattr__`), so no new reference appears after the
   references were counted.
2. Arrays with other references are copied (`donation.owned`).
3. The program runs. A method of a list stores its results: Python delivers no interrupt between the
   call and the append. JAX's Python code in the first call runs on another thread (`shielded`),
   which no interrupt reaches, and which stores the results in the same list.
4. The results are written to the Cells.

After an exception before stage 4 the arrays are put back; after one in stage 4 the write is
repeated to its end. So an interrupt leaves all Cells either as before the call or as after it.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import starmap
from operator import attrgetter
from typing import Any, TypeVar

import jax

from flambeau.core.devices import headroom
from flambeau.core.types import Cell, Function, Leaf, Tree

_Result = TypeVar("_Result")

#: Held while values are replaced by others computed from them: by optimizer steps, compiled
#: functions that write, and gradient accumulation. A thread that holds it reads consistent values.
lock: Any = threading.RLock()

# The seconds that a fork waits for the step of another thread, which would never finish in the
# child.
_PATIENCE = 10

# After this many failures the write itself is at fault.
_TRIES = 4

_array_of = attrgetter("array")


class _Flight:
    """A call of a program, from taking its arrays to writing its results.

    Attributes:
        cells: The Cells whose arrays the program may overwrite.
        taken: These arrays.
        results: The results of the program, once it has run.
        is_inner: Whether the thread held `lock` before, and goes on holding it.
        started: Not empty if the program runs on another thread.
        ended: The lock that this other thread releases at its end.
    """

    # Rarely anything else; assigning them for each of the many calls of a step would take time.
    started: Sequence[int] = ()
    ended: Any = None

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = cells
        self.is_inner = _is_held()
        self.taken: list[jax.Array] = []
        self.results: list[Tree] = []


# The running call; guarded by `lock`.
_flight: _Flight | None = None

#: Whether the calling thread holds `lock`.
_is_held: Callable[[], bool] = lock._is_owned


def run(
    program: Function,
    cells: Sequence[Cell],
    arrange: Callable[[list[jax.Array]], Sequence[Leaf]],
    write: Callable[[Tree], Tree],
) -> Any:
    """Call a program that may overwrite the arrays of ``cells``; write its results, or neither.

    Args:
        program: A compiled function.
        cells: The Cells whose arrays it may overwrite.
        arrange: Returns the arguments of the program from the arrays of ``cells``, which are empty
            at that time. It copies arrays with other references; see `donation.owned`.
        write: Writes the results to their Cells; must be repeatable.

    Returns:
        The result of ``write``.
    """
    global _flight
    headroom.look()
    flight = _Flight(cells)
    is_inner, taken, results = flight.is_inner, flight.taken, flight.results
    try:
        if not is_inner:
            lock.acquire()
        taken.extend(map(_array_of, cells))
        _flight = flight
        _empty(cells)
        results.extend(starmap(program, (arrange(taken),)))
        written = write(results[0])
        _flight = None
        if not is_inner:
            lock.release()
        return written
    except BaseException as error:
        _finish(flight, write, error)
        raise


def run_beside(
    program: Function,
    read: Callable[[], Sequence[Leaf]],
    write: Callable[[Tree], Tree] | None,
) -> Any:
    """Call a program that overwrites nothing; other threads may read and run steps concurrently.

    Args:
        program: A compiled function.
        read: Returns its arguments, a consistent snapshot.
        write: Writes the results to their Cells, atomically for other threads; must be repeatable.
            ``None`` if there is nothing to write.

    Returns:
        The result of ``write``, or the results.
    """
    headroom.look()
    flight = _Flight(())
    try:
        arguments = alone(read)
        flight.results.extend(starmap(program, (arguments,)))
        return flight.results[0] if write is None else alone(write, flight.results[0])
    except BaseException as error:
        _finish(flight, write, error)
        raise


def finish(write: Callable[[Tree], Tree]) -> None:
    """Call ``write(None)``; if an exception interrupts it, repeat it and then raise that exception.

    Args:
        write: Writes the results; must be repeatable.
    """
    flight = _Flight(())
    flight.results.append(None)
    try:
        alone(write, None)
    except BaseException as error:
        _finish(flight, write, error)
        raise


def again(action: Callable[[], object]) -> None:
    """Call a repeatable action; if an exception interrupts it, call it again.

    The interrupt is dropped: the caller is cleaning up and has an exception of its own to raise.
    """
    for attempt in range(_TRIES):
        try:
            action()
        except BaseException:
            if attempt == _TRIES - 1:
                raise
        else:
            return


def alone(change: Callable[..., _Result], *arguments: object) -> _Result:
    """``change(*arguments)``, called while this thread holds `lock`.

    Unlike a ``with`` block it releases the lock even if a trace function of Python's raises.
    """
    is_inner = _is_held()
    try:
        if not is_inner:
            lock.acquire()
        found = change(*arguments)
        if not is_inner:
            lock.release()
        return found
    except BaseException:
        while not is_inner and _is_held():
            lock.release()
        raise


def shielded(call: Callable[..., tuple[Tree, ...]], arguments: Sequence[Leaf]) -> tuple[Tree, ...]:
    """Call a program through JAX's Python code, as a first call does.

    It runs on another thread, since Python interrupts only the main one. If this thread is
    interrupted while it waits, `run` keeps waiting and gets the results.

    Args:
        call: Returns a tuple that begins with the results.
        arguments: Its arguments.
    """
    flight = _flight
    if flight is None or not _is_held():
        return call(*arguments)
    found: list[tuple[Tree, ...]] = []
    errors: list[BaseException] = []
    started: list[int] = []
    ended = flight.ended = _thread.allocate_lock()
    ended.acquire()
    flight.started = started

    def work() -> None:
        try:
            found.append(call(*arguments))
            flight.results.append(found[0][0])
        except BaseException as error:  # noqa: BLE001 - raised below, on the thread that called.
            errors.append(error)
        finally:
            ended.release()

    try:
        started.extend(starmap(_thread.start_new_thread, ((work, ()),)))
    except RuntimeError as error:
        raise MemoryError(f"{error}: there is no memory for its stack") from None
    with ended:
        pass
    if errors:
        raise errors[0]
    return found[0]


def apart(compute: Callable[..., _Result], *arguments: object) -> _Result:
    """`alone` for a computation that is not part of the enclosing `run`."""

    def hidden() -> _Result:
        global _flight
        flight = _flight
        try:
            _flight = None
            return compute(*arguments)
        finally:
            _flight = flight

    return alone(hidden)


@contextmanager
def between_steps() -> Iterator[None]:
    """A block in which no other thread's step runs, so that all reads see the same step.

    Steps of optimizers, compiled functions that write, and gradients that accumulate wait until the
    block ends. Outside of such a block each tensor is still read whole, but of two tensors one may
    be read before a step and the other after it.

    >>> import flambeau
    >>> model = flambeau.nn.Linear(2, 1)
    >>> with flambeau.compiler.between_steps():
    ...     norms = [each.norm().item() for each in model.parameters()]
    """
    with lock:
        yield


def _before_fork() -> None:
    """Wait for running steps: their Cells would stay empty in the child."""
    tries = 1
    while not lock.acquire(timeout=1) and _flight is not None and tries < _PATIENCE:
        tries += 1


def _after_fork() -> None:
    if _is_held():
        lock.release()
    else:
        # The parent could not take the lock before forking.
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _is_held() and lock.release(),
        after_in_child=_after_fork,
    )


def _empty(cells: Sequence[Cell]) -> None:
    try:
        for cell in cells:
            del cell.array
    except AttributeError:
        # A Cell may occur twice: empty it once.
        for cell in {*cells}:
            if is_full(cell):
                del cell.array


def is_full(cell: Cell) -> bool:
    """Whether a Cell holds an array, without waiting for one."""
    try:
        type(cell).array.__get__(cell)
    except AttributeError:
        return False
    return True


def _finish(flight: _Flight, write: Callable[[Tree], Tree] | None, error: BaseException) -> None:
    """After an exception: write the program's results, or restore its inputs."""

    def settle() -> None:
        global _flight
        if flight.started:
            with flight.ended:
                pass
        if flight.results and write is not None:
            alone(write, flight.results[0])
        else:
            _put_back(flight, error)
        if _flight is flight:
            _flight = None
        while not flight.is_inner and _is_held():
            lock.release()

    again(settle)


def _put_back(flight: _Flight, error: BaseException) -> None:
    lost = []
    for cell, array in zip(flight.cells, flight.taken, strict=False):
        if not is_full(cell):
            cell.array = array
            if array.is_deleted():
                lost.append(f"{array.dtype}{list(array.shape)}")
    if lost:
        some = ", ".join(lost[:8]) + (", ..." if len(lost) > 8 else "")
        error.add_note(
            f"the program failed after it had begun to overwrite {len(lost)} tensors ({some}), "
            "whose values are lost: load them from a checkpoint. With FLAMBEAU_DONATE=0 in the "
            "environment programs overwrite nothing, so that an error loses nothing; a step then "
            "needs memory for the new values beside the old ones"
        )
