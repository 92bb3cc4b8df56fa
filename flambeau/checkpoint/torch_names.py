"""The names of dtypes, layouts and storages in PyTorch's files.

Storages of the older dtypes have a class each, such as ``torch.FloatStorage``; storages of newer
dtypes are bytes, with the dtype stored beside them.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.devices import layout as layouts
from flambeau.core.devices.layout import layout, memory_format
from flambeau.core.support.dtype import ALL_DTYPES, complex32, dtype

__all__: list[str] = []

DTYPES: dict[str, dtype] = {each.name: each for each in (*ALL_DTYPES, complex32)}
_OTHERS: list[Any] = list(vars(layouts).values())
LAYOUTS: dict[str, layout] = {each.name: each for each in _OTHERS if isinstance(each, layout)}
MEMORY_FORMATS: dict[str, memory_format] = {
    each.name: each for each in _OTHERS if isinstance(each, memory_format)
}

_CLASSES = {
    "bool": "BoolStorage",
    "uint8": "ByteStorage",
    "int8": "CharStorage",
    "int16": "ShortStorage",
    "int32": "IntStorage",
    "int64": "LongStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
#: The storage class of a dtype; newer dtypes have none.
CLASS_OF: dict[dtype, str] = {DTYPES[name]: cls for name, cls in _CLASSES.items()}
#: The dtype of a storage class.
DTYPE_OF: dict[str, dtype] = {cls: of for of, cls in CLASS_OF.items()}
UNTYPED = "UntypedStorage"


def are_versions(metadata: Any) -> bool:
    """Whether a value can be a state dict's ``_metadata``: a dict for each module's name."""
    return isinstance(metadata, dict) and all(
        isinstance(name, str) and isinstance(facts, dict) for name, facts in metadata.items()
    )
