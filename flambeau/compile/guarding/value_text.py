"""Short texts for frozen values (see `freezing.freeze`), for explanations."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from flambeau.core.support.identity import MISSING, Same
from flambeau.core.values.tensor import Tensor

# Cut the text of a value after this many characters.
_LONGEST = 80

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)


class Plain(str):
    """A text that `text_of` returns as it is."""

    __slots__ = ()


def text_of(value: Any) -> str:
    """A short text for a value from `freeze`, `spec_of` or a signature."""
    try:
        text = _text_of(value)
    except Exception:  # noqa: BLE001 (any method of a user's object may fail)
        text = "a value that has no text"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _text_of(value: Any) -> str:
    if isinstance(value, Plain):
        return str(value)
    if isinstance(value, Same):
        return _text_of_object(value.value)
    if isinstance(value, tuple) and len(value) == 2:
        kind, content = value
        if kind is None or kind is np.void:
            return text_of_content(content)
        return _text_of_container(kind, content)
    return repr(value)


def text_of_content(content: Any) -> str:
    """The uncut text of an object, a number, or a tuple of these."""
    if isinstance(content, Same):
        return _text_of_object(content.value)
    if content and isinstance(content[0], type):
        kind, number = content[:2]
        is_text = isinstance(number, str) and not issubclass(kind, str)
        return number if is_text else _text_of(number) if isinstance(number, Same) else repr(number)
    parts = [*map(_text_of, content)]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _text_of_container(kind: Any, content: Any) -> str:
    if isinstance(content, tuple) and len(content) == 2 and isinstance(content[0], Same):
        content = content[1]
    if kind is dict:
        items = [f"{_text_of_key(name)}: {_text_of(each)}" for name, each in content]
        return "{" + ", ".join(items) + "}"
    if kind is np.ndarray:
        return f"a NumPy array of {content[0]}{[*content[1]]}"
    if kind is set:
        return "{" + ", ".join(sorted(map(_text_of, content))) + "}" if content else "set()"
    if isinstance(content, tuple):
        joined = ", ".join(map(_text_of, content))
        return f"[{joined}]" if kind is list else f"{kind.__name__}([{joined}])"
    return f"a {kind.__name__}"


def _text_of_key(name: Any) -> str:
    return repr(name) if isinstance(name, str) else _text_of(name)


def _text_of_object(value: Any) -> str:
    if value is MISSING:
        return "absent"
    if isinstance(value, Tensor):
        return text_of_tensor(value)
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, _FUNCTIONS):
        return f"the function {value.__qualname__.rpartition('<locals>.')[2]}"
    return f"an object of class {type(value).__name__}"


def text_of_tensor(tensor: Any) -> str:
    """The dtype and shape of a tensor."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    return f"a {type(tensor).__name__} of {dtype}{list(tensor.shape)}"
