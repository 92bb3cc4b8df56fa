"""Finding the operator behind a gradient that fails or is NaN."""

from __future__ import annotations

from flambeau.core.support.modes import ContextDecorator
from flambeau.core.support.settings import setting
from flambeau.core.tape import anomaly

__all__ = [
    "detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly",
]  # fmt: skip


class set_detect_anomaly(ContextDecorator):
    """Switch anomaly detection on or off, at once or for a ``with`` block.

    While it is on, every node remembers the lines that led to it. If a node raises an error in
    backward, or gives nan, the error has a note with these lines. Detection applies to all threads
    and slows everything down: use it to find an error, not to train.

    Args:
        mode: Whether detection is on.
        check_nan: Whether a nan among the gradients of a node is an error.
    """

    mode: bool
    check_nan: bool

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode, self.check_nan = bool(mode), bool(check_nan)
        self._before = (anomaly.enabled, anomaly.check_nan)
        anomaly.set_mode(self.mode, self.check_nan)

    def __enter__(self) -> None:
        anomaly.set_mode(self.mode, self.check_nan)

    def __exit__(self, *exception: object) -> None:
        anomaly.set_mode(*self._before)


class detect_anomaly(ContextDecorator):
    """Detect anomalies inside a ``with`` block; see `set_detect_anomaly`.

    >>> import flambeau
    >>> x = flambeau.tensor(0.0, requires_grad=True)
    >>> with flambeau.autograd.detect_anomaly():
    ...     y = x.sqrt() * 0.0
    ...     y.backward()
    Traceback (most recent call last):
    ...
    RuntimeError: SqrtBackward0 gave nan as the gradient of its input 0
    SqrtBackward0 was recorded here (most recent call last):
    ...

    Args:
        check_nan: Whether a nan among the gradients of a node is an error.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan: bool = bool(check_nan)

    def clone(self) -> detect_anomaly:
        """A new manager with the same settings."""
        return self.__class__(self.check_nan)

    def __enter__(self) -> None:
        self._before = (anomaly.enabled, anomaly.check_nan)
        anomaly.set_mode(True, self.check_nan)

    def __exit__(self, *exception: object) -> None:
        anomaly.set_mode(*self._before)


@setting
def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return anomaly.enabled


@setting
def is_anomaly_check_nan_enabled() -> bool:
    """Whether a nan among gradients is an error."""
    return anomaly.check_nan
