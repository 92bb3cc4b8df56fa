"""Passes over graphs."""

from flambeau._absent import Absent as _Absent
from flambeau.fx.passes import shape_prop as shape_prop

__getattr__: _Absent = _Absent(__name__)
