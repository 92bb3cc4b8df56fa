"""PyTorch's second way to compute attention in inference, of which there is only one here."""

from flambeau._absent import Absent as _Absent
from flambeau.core.settings import setting

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

__getattr__: _Absent = _Absent(__name__)

_enabled = True


@setting
def get_fastpath_enabled() -> bool:
    """The last argument of `set_fastpath_enabled`."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Accepted for PyTorch's sake: attention is computed in the same way in either case."""
    global _enabled
    _enabled = bool(value)
