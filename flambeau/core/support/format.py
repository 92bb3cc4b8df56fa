"""A tensor as text: the characters of PyTorch's ``repr``, from NumPy arrays.

Only the elements that appear in the text are ever converted to Python numbers. Above
``threshold`` elements that is the first and last ``edgeitems`` along each dimension, so the cost
of printing does not grow with the tensor.

The rules were read off PyTorch 2.13's behaviour (``torch.set_printoptions`` documents the options):

- all the numbers of one tensor share one style and one width;
- floating-point numbers that are all whole are written ``1.``, without digits after the point;
- scientific notation is used when, among the finite numbers other than zero, the largest
  magnitude is above 1e8, the smallest below 1e-4, or their ratio above 1000;
- the real and the imaginary parts of complex numbers each choose their own style and width.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Printable",
    "format_array",
    "get_printoptions",
    "printoptions",
    "set_printoptions",
    "tensor_repr",
]

LARGEST_PLAIN = 1e8
SMALLEST_PLAIN = 1e-4
LARGEST_PLAIN_RATIO = 1000.0
SEPARATOR_WIDTH = len(", ")


@dataclasses.dataclass
class _PrintOptions:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

_options = _PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed from now on, in the whole process.

    An argument that is ``None`` leaves its option unchanged, except ``sci_mode``, which every call
    sets.

    Args:
        precision: digits after the decimal point (4 at first).
        threshold: the number of elements above which only the edges are printed (1000 at first).
        edgeitems: elements printed at each end of a dimension when only the edges are (3 at first).
        linewidth: characters to a line (80 at first).
        profile: ``"default"``, ``"short"`` (2 digits, 2 edge items) or ``"full"`` (everything is
            printed). The other arguments are applied after it.
        sci_mode: ``True`` always uses scientific notation, ``False`` never does, ``None`` lets
            the numbers decide.

    Raises:
        ValueError: the profile is not one of the three; no option has changed then.

    >>> import flambeau
    >>> flambeau.set_printoptions(precision=2)
    >>> flambeau.tensor([1.12345])
    tensor([1.12])
    >>> flambeau.set_printoptions(profile="default")
    >>> flambeau.tensor([1.12345])
    tensor([1.1235])
    """
    if profile is not None and profile not in _PROFILES:
        known = ", ".join(repr(name) for name in _PROFILES)
        raise ValueError(f"profile {profile!r} does not exist; choose one of {known}")
    chosen = dict(_PROFILES[profile]) if profile is not None else {}
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    chosen.update((name, value) for name, value in given.items() if value is not None)
    for name, value in chosen.items():
        setattr(_options, name, value)
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments for :func:`set_printoptions`.

    >>> from flambeau.core.support.format import get_printoptions
    >>> get_printoptions()["edgeitems"]
    3
    """
    return dataclasses.asdict(_options)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Applies :func:`set_printoptions` inside a ``with`` block, then restores the former ones.

    Args:
        **options: the arguments of :func:`set_printoptions`.

    >>> import numpy as np
    >>> from flambeau.core.support.format import format_array, printoptions
    >>> with printoptions(threshold=4, edgeitems=1):
    ...     format_array(np.arange(10), indent=0)
    '[0,  ..., 9]'
    """
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


class Printable(Protocol):
    """The attributes of an array that printing needs. NumPy's and JAX's both have them."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, index: Any, /) -> Any: ...

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray: ...


def format_array(array: Printable, *, indent: int) -> str:
    """The numbers of an array in nested brackets.

    Args:
        array: any shape; boolean, integer, floating-point (those of ``ml_dtypes`` too) or complex.
            When only the edges are printed it is indexed once, and only the outcome is converted
            to NumPy: an array that lives on a device is not transferred whole.
        indent: the column at which the text will begin; the lines after the first align with it.

    >>> import numpy as np
    >>> from flambeau.core.support.format import format_array
    >>> print(format_array(np.array([[1.5, -2.0], [0.0, np.nan]]), indent=0))
    [[ 1.5000, -2.0000],
     [ 0.0000,     nan]]
    """
    shape = tuple(array.shape)
    count = math.prod(shape)
    if count == 0:
        return "[]"
    summarized = count > _options.threshold
    if summarized and shape and not _options.edgeitems:
        return "[...]"
    gaps = tuple(summarized and size > 2 * _options.edgeitems for size in shape)
    printed = _only_edges(array, gaps) if any(gaps) else np.asarray(array)
    texts, width = _element_texts(printed.reshape(-1))
    grid = np.array(texts, dtype=object).reshape(printed.shape)
    return _nest(grid, gaps, width, indent)


def _only_edges(array: Printable, gaps: tuple[bool, ...]) -> np.ndarray:
    edge = _options.edgeitems
    kept = [
        np.r_[:edge, size - edge : size] if gap else np.arange(size)
        for size, gap in zip(array.shape, gaps, strict=True)
    ]
    return np.asarray(array[np.ix_(*kept)])


def _nest(texts: np.ndarray, gaps: tuple[bool, ...], width: int, indent: int) -> str:
    if texts.ndim == 0:
        return texts.item()
    if texts.ndim == 1:
        return _row(texts.tolist(), gaps[0], width, indent)
    blocks = [_nest(block, gaps[1:], width, indent + 1) for block in texts]
    if gaps[0]:
        blocks.insert(_options.edgeitems, "...")
    separator = "," + "\n" * (texts.ndim - 1) + " " * (indent + 1)
    return "[" + separator.join(blocks) + "]"


def _row(texts: list[str], gap: bool, width: int, indent: int) -> str:
    if gap:
        texts.insert(_options.edgeitems, " ...")
    per_line = max(1, math.floor((_options.linewidth - indent) / (width + SEPARATOR_WIDTH)))
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _element_texts(values: np.ndarray) -> tuple[list[str], int]:
    """The text of each of a vector's elements, and the width that they were padded to."""
    if _is_complex(values.dtype):
        return _complex_texts(values.astype(np.complex128))
    if _is_exact(values.dtype):
        texts = [str(value) for value in values.tolist()]
        return _padded(texts, texts)
    return _floating_texts(values.astype(np.float64))


def _is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c" or "complex" in dtype.name


def _is_exact(dtype: np.dtype) -> bool:
    if dtype.kind == "b":
        return True
    try:
        ml_dtypes.iinfo(dtype)
    except ValueError:
        return False
    return True


def _complex_texts(values: NDArray[np.complex128]) -> tuple[list[str], int]:
    real, real_width = _floating_texts(values.real)
    imaginary, imaginary_width = _floating_texts(values.imag)
    texts = [r + _signed(i.lstrip()) + "j" for r, i in zip(real, imaginary, strict=True)]
    return texts, real_width + imaginary_width + len("j")


def _signed(text: str) -> str:
    return text if text.startswith("-") else "+" + text


def _floating_texts(values: np.ndarray) -> tuple[list[str], int]:
    counted = np.isfinite(values) & (values != 0)
    write = _number_style(values[counted])
    texts = [write(value) for value in values.tolist()]
    # The width comes from the finite numbers other than zero alone, as in PyTorch: a longer
    # "-inf" stands out of its column, and rows of zeros may be longer than the line.
    return _padded(texts, [text for text, counts in zip(texts, counted, strict=True) if counts])


def _padded(texts: list[str], measured: list[str]) -> tuple[list[str], int]:
    width = max((len(text) for text in measured), default=1)
    return [text.rjust(width) for text in texts], width


def _number_style(values: np.ndarray) -> Callable[[float], str]:
    """The format for a tensor's elements, chosen from those that are finite and not zero."""
    precision = _options.precision
    if values.size == 0:
        return _whole_number
    if _needs_scientific(values):
        return lambda value: f"{value:.{precision}e}"
    if bool(np.all(values == np.ceil(values))):
        return _whole_number
    return lambda value: f"{value:.{precision}f}"


def _needs_scientific(values: np.ndarray) -> bool:
    if _options.sci_mode is not None:
        return _options.sci_mode
    magnitudes = np.abs(values)
    # Python's floats, since NumPy's warn when the ratio is too large for a float64.
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    return (
        largest / smallest > LARGEST_PLAIN_RATIO
        or largest > LARGEST_PLAIN
        or smallest < SMALLEST_PLAIN
    )


def _whole_number(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else str(value)


def tensor_repr(
    array: Printable | None,
    *,
    shape: tuple[int, ...],
    dtype: str,
    default_dtype: str,
    device: str | None = None,
    grad_fn: str | None = None,
    requires_grad: bool = False,
    parameter: bool = False,
    class_prefix: str = "tensor",
    tangent: str | None = None,
) -> str:
    """The text of ``repr(tensor)``: the numbers, then the properties that they do not show.

    Args:
        array: the values, of the given shape; ``None`` for a tensor that has none (on the meta
            device), which is written ``...`` with its size.
        shape: the tensor's shape.
        dtype: the name to print, ``"flambeau.float16"``. It is left out where the numbers imply
            it: the default floating-point dtype, the complex one that matches it, int64 and bool;
            a tensor without elements or values implies the default floating-point dtype alone.
        default_dtype: the name of the default floating-point dtype, written as ``dtype`` is.
        device: the device to print, ``"cuda:0"`` or ``"meta"``; ``None`` on the CPU, which is not
            printed.
        grad_fn: the name of the node that made the tensor, ``"AddBackward0"``.
        requires_grad: printed where there is no ``grad_fn``.
        parameter: whether the tensor is a ``Parameter``, which is printed as one.
        class_prefix: the text before the bracket; the class's name for a subclass.
        tangent: the tangent of a dual tensor, printed.

    >>> import numpy as np
    >>> from flambeau.core.support.format import tensor_repr
    >>> tensor_repr(
    ...     np.array([1.0, 2.0]),
    ...     shape=(2,),
    ...     dtype="flambeau.float64",
    ...     default_dtype="flambeau.float32",
    ...     requires_grad=True,
    ... )
    'tensor([1., 2.], dtype=flambeau.float64, requires_grad=True)'
    >>> tensor_repr(
    ...     None,
    ...     shape=(2, 3),
    ...     dtype="flambeau.float32",
    ...     default_dtype="flambeau.float32",
    ...     device="meta",
    ... )
    "tensor(..., device='meta', size=(2, 3))"
    """
    opening = class_prefix + "("
    contents = "..." if array is None else format_array(array, indent=len(opening))
    suffixes = [] if device is None else [f"device='{device}'"]
    if _prints_size(array, shape):
        suffixes.append(f"size={tuple(shape)}")
    has_elements = array is not None and math.prod(shape) > 0
    if dtype not in _implied_dtypes(dtype, default_dtype, has_elements):
        suffixes.append(f"dtype={dtype}")
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    text = with_suffixes(opening + contents, suffixes, indent=len(opening))
    if not parameter:
        return text
    return "Parameter containing:\n" + (text if class_prefix == "tensor" else f"Parameter({text})")


def _prints_size(array: Printable | None, shape: tuple[int, ...]) -> bool:
    if array is None:
        return True
    if math.prod(shape) == 0:
        return len(shape) != 1
    return not _options.edgeitems


def _implied_dtypes(dtype: str, default_dtype: str, has_elements: bool) -> tuple[str, ...]:
    if not has_elements:
        return (default_dtype,)
    namespace = dtype[: dtype.rfind(".") + 1]
    default_complex = "complex128" if default_dtype.endswith("float64") else "complex64"
    return (default_dtype, *(namespace + name for name in (default_complex, "int64", "bool")))


def with_suffixes(text: str, suffixes: list[str], *, indent: int, starts_line: bool = False) -> str:
    """``text``, then the suffixes, on new lines where they would not fit; and a bracket.

    Args:
        text: The text before.
        suffixes: Texts to add, after commas.
        indent: Where new lines begin.
        starts_line: Whether the first suffix begins a new line in any case.
    """
    # PyTorch counts the last line as one character longer, which decides where lines break.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if starts_line or column + SEPARATOR_WIDTH + len(suffix) > _options.linewidth:
            starts_line = False
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += SEPARATOR_WIDTH + len(suffix)
    return text + ")"
