"""Whether two objects, one of each library, are the same as far as a reader can see."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import torch

import flambeau
from tests.conformance.documented_examples.running import renamed
from tests.conformance.expression import describe

#: How far values may lie apart, by dtype: relatively, and absolutely.
TOLERANCES = {
    "float64": (1e-7, 1e-8),
    "complex128": (1e-7, 1e-8),
    "float16": (2e-3, 1e-3),
    "bfloat16": (2e-2, 1e-2),
}
SINGLE = (1e-3, 1e-4)

#: How a difference begins that lies in the names of nodes alone.
NODES = "grad_fn:"

_NODE = re.compile(r"grad_fn=<(\w+)>")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def differences(theirs: Any, ours: Any, is_filled: bool = True) -> Iterator[str]:
    """What is not the same, in words; nothing if the two agree.

    Args:
        theirs: An object of PyTorch.
        ours: What flambeau has in its place.
        is_filled: Whether elements have values that can be compared.
    """
    if isinstance(theirs, torch.Tensor):
        yield from _of_tensors(theirs, ours, is_filled)
    elif isinstance(theirs, torch.nn.Module):
        yield from _of_modules(theirs, ours, is_filled)
    elif isinstance(theirs, torch.optim.Optimizer):
        yield from differences(_plain(theirs.param_groups), _plain(ours.param_groups), is_filled)
    elif isinstance(theirs, torch.optim.lr_scheduler.LRScheduler):
        yield from differences(theirs.get_last_lr(), ours.get_last_lr(), is_filled)
    elif isinstance(theirs, np.ndarray | np.generic):
        yield from _of_arrays(theirs, np.asarray(ours), is_filled)
    elif isinstance(theirs, Mapping):
        if _kind(theirs) != _kind(ours) or list(theirs) != list(ours):
            yield f"{theirs!r} and {ours!r}"
        else:
            yield from _of_each(theirs.values(), ours.values(), is_filled)
    elif isinstance(theirs, list | tuple) and not isinstance(theirs, torch.Size):
        if _kind(theirs) != _kind(ours) or len(theirs) != len(ours):
            yield f"{theirs!r} and {ours!r}"
        else:
            yield from _of_each(theirs, ours, is_filled)
    elif isinstance(theirs, float | complex) and type(theirs) is type(ours):
        # Of single precision, if they are elements of a tensor.
        if is_filled and not np.allclose(theirs, ours, *SINGLE, equal_nan=True):
            yield f"{theirs!r} and {ours!r}"
    elif ours is None or theirs is None:
        if ours is not theirs:
            yield f"{theirs!r} and {ours!r}"
    elif _says_what_it_is(theirs) and (is_filled or not isinstance(theirs, int)):
        yield from differing_text(repr(theirs), repr(ours))


def differing_text(theirs: str, ours: str) -> Iterator[str]:
    """What is not the same in two texts, apart from addresses and last digits of numbers."""
    theirs = _ADDRESS.sub("0x", renamed(theirs, flambeau))
    ours = _ADDRESS.sub("0x", ours)
    nodes = [_NODE.findall(text) for text in (theirs, ours)]
    if nodes[0] != nodes[1]:
        yield f"{NODES} {nodes[0]} and {nodes[1]}"
    theirs, ours = (_NODE.sub("", text) for text in (theirs, ours))
    if theirs.split() == ours.split():
        return
    numbers = [[float(each) for each in _NUMBER.findall(text)] for text in (theirs, ours)]
    alike = (
        _words(theirs) == _words(ours)
        and len(numbers[0]) == len(numbers[1])
        and np.allclose(*numbers, rtol=SINGLE[0], atol=2 * SINGLE[1])
    )
    if not alike:
        yield f"{theirs}\nand\n{ours}"


def _words(text: str) -> list[str]:
    return _NUMBER.sub(" 0 ", text).split()


def _says_what_it_is(value: Any) -> bool:
    """Whether a value is to be read, and not to be called or looked into."""
    if isinstance(value, torch.dtype | torch.device):
        return True
    return not (
        callable(value)
        or isinstance(value, types.ModuleType)
        or type(value).__repr__ is object.__repr__
    )


def _kind(value: Any) -> str:
    return type(value).__name__


def _plain(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Groups of an optimizer without what says which implementation is taken."""
    left_out = {"foreach", "fused", "capturable", "differentiable"}
    return [
        {name: _plain_entry(group[name]) for name in sorted(group) if name not in left_out}
        for group in groups
    ]


def _plain_entry(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) else value


def _of_each(theirs: Iterable[Any], ours: Iterable[Any], is_filled: bool) -> Iterator[str]:
    for one, other in zip_longest(theirs, ours):
        yield from differences(one, other, is_filled)


def _of_modules(theirs: Any, ours: Any, is_filled: bool) -> Iterator[str]:
    yield from differing_text(repr(theirs), repr(ours))
    yield from differences(theirs.training, ours.training)
    for members in ("named_parameters", "named_buffers"):
        one, other = (dict(getattr(each, members)()) for each in (theirs, ours))
        if list(one) != list(other):
            yield f"{members} {list(one)} and {list(other)}"
        else:
            yield from _of_each(one.values(), other.values(), is_filled)


def _of_tensors(theirs: Any, ours: Any, is_filled: bool) -> Iterator[str]:
    if not isinstance(ours, flambeau.Tensor):
        yield f"{theirs!r} and {ours!r}"
        return
    if isinstance(theirs, torch.nn.parameter.UninitializedTensorMixin):
        yield from differing_text(repr(theirs), repr(ours))
        return
    if theirs.is_sparse:
        yield from _of_sparse_tensors(theirs, ours, is_filled)
        return
    one, other = describe(_dense(theirs)), describe(ours)
    if one[:4] != other[:4]:
        yield f"{one[:4]} and {other[:4]}"
        return
    if one.elements is not None and other.elements is not None:
        yield from _of_arrays(one.elements, other.elements, is_filled)
    if is_filled:
        yield from differing_text(repr(theirs), repr(ours))
    if theirs.is_leaf and theirs.grad is not None:
        yield from _of_tensors(theirs.grad, ours.grad, is_filled)


def _of_sparse_tensors(theirs: Any, ours: Any, is_filled: bool) -> Iterator[str]:
    one, other = (
        (each.is_sparse, each.is_coalesced(), tuple(each.shape)) for each in (theirs, ours)
    )
    if one != other:
        yield f"{one} and {other}"
        return
    yield from _of_tensors(theirs._indices(), ours._indices(), is_filled)
    yield from _of_tensors(theirs._values(), ours._values(), is_filled)
    if is_filled:
        yield from differing_text(repr(theirs), repr(ours))


def _dense(tensor: Any) -> Any:
    return tensor.resolve_conj().resolve_neg()


def _of_arrays(theirs: Any, ours: Any, is_filled: bool) -> Iterator[str]:
    if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
        yield f"{theirs.dtype}{theirs.shape} and {ours.dtype}{ours.shape}"
    elif theirs.dtype.kind in "OUSM":
        if theirs.tolist() != ours.tolist():
            yield f"{theirs} and {ours}"
    elif is_filled and not _are_close(theirs, ours):
        yield f"{theirs}\nand\n{ours}"


def _are_close(theirs: Any, ours: Any) -> bool:
    if theirs.dtype.kind in "biu":
        return np.array_equal(theirs, ours)
    # Mostly they are equal, and then millions of them are compared at once.
    different = ~((theirs == ours) | ((theirs != theirs) & (ours != ours)))
    relative, absolute = TOLERANCES.get(str(theirs.dtype), SINGLE)
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    one, other = (each[different].astype(wide) for each in (ours, theirs))
    return np.allclose(one, other, relative, absolute, equal_nan=True)
