"""`torch._custom_ops`: older names of `flambeau.library`."""

from flambeau._absent import Absent as _Absent
from flambeau.library import get_ctx, impl_abstract, infer_schema

__all__ = ["get_ctx", "impl_abstract", "infer_schema"]

__getattr__ = _Absent("flambeau._custom_ops")
