"""`Timer`, which runs a statement and waits for its result."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

import jax

from flambeau.utils.benchmark.measurement import Measurement, TaskSpec


def timer() -> float:
    """The process's clock in seconds, read after all JAX computations."""
    jax.effects_barrier()
    for device in jax.local_devices():
        # An array that is put on a device arrives after the preceding computations.
        jax.device_put(0, device).block_until_ready()
    return time.perf_counter()


class Timer:
    """Measures a Python statement.

    If the statement is an expression, a run ends when the tensors in its value are computed. A
    first run, in which programs are compiled, is not measured.

    Args:
        stmt: The statement.
        setup: Code that runs before.
        global_setup: More code that runs before.
        timer: The clock.
        globals: Names for the statement.
        label: The measured operation; for `Compare`.
        sub_label: The case.
        description: The variant.
        env: The environment.
        num_threads: Accepted for compatibility; XLA's threads are set before it starts.
        language: Python only.

    Raises:
        NotImplementedError: ``language`` is another one.

    >>> import flambeau
    >>> from flambeau.utils.benchmark import Timer
    >>> measured = Timer("x + 1", globals={"x": flambeau.ones(2)}).timeit(3)
    >>> measured.number_per_run, len(measured.times)
    (3, 1)
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = "python",
    ) -> None:  # fmt: skip
        if str(language).lower() not in ("python", "py", "language.python"):
            raise NotImplementedError(f"Timer measures Python, not {language}")
        names = dict(globals or {})
        names["_wait_for"] = _wait_for
        self._task_spec = TaskSpec(stmt, setup, label, sub_label, description, env, num_threads)
        prepared = f"{global_setup}\n{setup}" if global_setup else setup
        self._timer = timeit.Timer(_waiting(stmt), prepared, timer, names)
        self._is_warm = False

    def timeit(self, number: int = 1000000) -> Measurement:
        """Run the statement ``number`` times, as one measurement."""
        self._warm_up()
        return Measurement(number, [self._timer.timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not available, as in PyTorch.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measure blocks of runs for at least ``min_run_time`` seconds."""
        self._warm_up()
        number = self._block()
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Measure until the interquartile range is below ``threshold`` times the median."""
        self._warm_up()
        number = self._block()
        times: list[float] = []
        while sum(times) < max_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
            found = Measurement(number, times, self._task_spec)
            if (
                len(times) > 3
                and sum(times) > min_run_time
                and found.iqr < threshold * found.median
            ):
                break
        return Measurement(number, times, self._task_spec)

    def _warm_up(self) -> None:
        if not self._is_warm:
            self._timer.timeit(1)
            self._is_warm = True

    def _block(self) -> int:
        """The number of runs that takes long enough for the clock."""
        number = 1
        while self._timer.timeit(number) < 1e-3 and number < 1 << 20:
            number *= 2
        return number


def _waiting(stmt: str) -> str:
    """The statement with a wait for its value, if it has one."""
    try:
        compile(stmt, "<stmt>", "eval")
    except SyntaxError:
        return stmt
    return f"_wait_for({stmt.strip()})"


def _wait_for(value: Any) -> None:
    from flambeau.core.values.tensor import Tensor

    if isinstance(value, Tensor) and isinstance(value._read(), jax.Array):
        value._read().block_until_ready()
    elif isinstance(value, tuple | list):
        for each in value:
            _wait_for(each)
