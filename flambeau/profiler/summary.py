"""`summary`: the shapes, parameters and operations of a model, by module."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import flambeau.profiler.calls as watching
from flambeau.core.programs.gears import gears
from flambeau.core.support.modes import no_grad
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.uninitialized import is_lazy
from flambeau.profiler import text, tree
from flambeau.profiler.by_module import profile
from flambeau.profiler.diagram import Diagram, diagram
from flambeau.random import fork_rng
from flambeau.utils._pytree import tree_leaves


@dataclasses.dataclass(frozen=True)
class SummaryRow:
    """One module; its numbers include those of the modules inside it.

    Attributes:
        path: Its path in the model; ``""`` for the model.
        class_name: Its class.
        depth: The number of modules around it.
        calls: How often it was called; ``None`` without example arguments.
        output: The shapes that its first call returned, in tuples and dictionaries; ``None`` if it
            was not called.
        params: The elements of its parameters; a shared parameter counts once.
        trainable: Those of parameters that require grad.
        bytes: The bytes of its parameters and buffers.
        flops: The floating-point operations of all its calls; ``None`` without example arguments.
        time_share: The time of all its calls as a part of the whole call's; ``None`` unless timed.
    """

    path: str
    class_name: str
    depth: int
    calls: int | None
    output: Any
    params: int
    trainable: int
    bytes: int
    flops: int | None
    time_share: float | None


class Summary:
    """The result of `summary`; ``str()`` of it is a table, and a notebook shows a tree to open.

    Attributes:
        rows: A `SummaryRow` for each module, in the order of registration.
        depth: The depth to which rows are shown.
        total_params: The elements of all parameters; a shared parameter counts once.
        trainable_params: Those of parameters that require grad.
        total_bytes: The bytes of all parameters and buffers.
        total_flops: The floating-point operations of a call; ``None`` without example arguments.
    """

    def __init__(
        self,
        model: Module,
        watch: watching.Watch | None,
        depth: int | None,
        shares: Mapping[str, float] | None,
    ) -> None:
        self.depth = depth
        self._edges = () if watch is None else tuple(watch.edges)
        self._has_calls = watch is not None
        calls = {} if watch is None else watch.calls
        shaped = model if watch is None else watch.model
        self._uninitialized = sum(map(is_lazy, [*shaped.parameters(), *shaped.buffers()]))
        self.rows: list[SummaryRow] = [
            _row(path, module, calls.get(path, watching.Calls()), self._has_calls, shares)
            for path, module in shaped.named_modules()
        ]
        whole = self.rows[0]
        self.total_params: int = whole.params
        self.trainable_params: int = whole.trainable
        self.total_bytes: int = whole.bytes
        self.total_flops: int | None = whole.flops

    def shown(self) -> list[SummaryRow]:
        """The rows to `depth`."""
        return [each for each in self.rows if self.depth is None or each.depth <= self.depth]

    def __str__(self) -> str:
        rows = self.shown()
        columns = [
            ("Module", [each.path or "(model)" for each in rows]),
            ("Class", [each.class_name for each in rows]),
        ]
        if self._has_calls:
            columns.append(("Output", [tree.output_text(each) for each in rows]))
        names = len(columns)
        columns += [
            ("Params", [f"{each.params:,}" for each in rows]),
            ("Size", [text.size(each.bytes) for each in rows]),
        ]
        if self._has_calls:
            columns.append(("FLOPs", [text.count(each.flops or 0) for each in rows]))
        if rows[0].time_share is not None:
            columns.append(("Time", [tree.time_text(each) for each in rows]))
        if any((each.calls or 0) > 1 for each in rows):
            columns.append(("Calls", [str(each.calls) for each in rows]))
        lines = text.table(columns, names)
        return "\n".join([*lines, lines[1], *self._totals()])

    __repr__ = __str__

    def _totals(self) -> Iterator[str]:
        frozen = self.total_params - self.trainable_params
        yield (
            f"Parameters: {self.total_params:,} ({self.trainable_params:,} trainable, "
            f"{frozen:,} frozen)"
        )
        yield f"Parameters and buffers: {text.size(self.total_bytes)}"
        if self._uninitialized:
            yield f"Without a shape yet, and not counted: {self._uninitialized}"
        if self.total_flops is not None:
            yield f"Floating-point operations of a call: {text.count(self.total_flops)}"

    def _repr_html_(self) -> str:
        lines = tree.html_of(self.shown())
        totals = "<br>".join(map(escape, self._totals()))
        return f'<div style="font-family:monospace">{lines}<p>{totals}</p></div>'

    def diagram(self) -> Diagram:
        """The flow of data between the modules, as Mermaid's text or SVG; see `Diagram`.

        Raises:
            ValueError: The summary was made without example arguments.
        """
        if not self._has_calls:
            raise ValueError(
                "diagram() needs a call of the model: give summary(model, *args) example arguments"
            )
        return diagram(self.rows, self.depth, self._edges)


@trimmed
def summary(
    model: Module, *args: Any, depth: int | None = None, timed: bool = False, **kwargs: Any
) -> Summary:
    """The shapes, parameters, bytes and floating-point operations of a model, by module.

    The model is called with the example arguments, in its present mode, but nothing is computed and
    nothing changes: the call is traced, and the trace is undone. So models and arguments may be on
    the meta device, and lazy modules stay uninitialized; a copy has their shapes. Hooks run as in
    any call. If the model asks for a tensor's value, a copy of it is called, which does compute.

    Matrix products, convolutions and attention are counted, as in `utils.flop_counter`; a
    multiplication and an addition count as two.

    Args:
        model: The model.
        args: Example arguments. Without any, the model is not called.
        depth: The depth of modules to show; ``None`` for all. The totals include all modules.
        timed: Also call a copy of the model twice, eagerly and without gradients, and show the part
            of the second call's time that each module takes. `profile` shows more.
        kwargs: Example keyword arguments.

    Raises:
        TypeError: ``model`` is not a module, or ``depth`` not an integer.
        ValueError: ``depth`` is negative; or ``timed`` without example arguments, or with a tensor
            without values: on the meta device, or uninitialized.
        Exception: The model's own, as in an ordinary call.

    >>> import flambeau
    >>> from flambeau import nn
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    >>> flambeau.summary(model, flambeau.empty(2, 3, device="meta"))
    Module   Class       Output  Params  Size  FLOPs
    -------  ----------  ------  ------  ----  -----
    (model)  Sequential  [2, 4]      16  64 B     48
    0        Linear      [2, 4]      16  64 B     48
    1        ReLU        [2, 4]       0   0 B      0
    -------  ----------  ------  ------  ----  -----
    Parameters: 16 (16 trainable, 0 frozen)
    Parameters and buffers: 64 B
    Floating-point operations of a call: 48
    """
    if not isinstance(model, Module):
        raise TypeError(f"summary(): model must be an nn.Module, got {type(model).__name__}")
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int)):
        raise TypeError(f"summary(): depth must be an int or None, got {type(depth).__name__}")
    if depth is not None and depth < 0:
        raise ValueError(f"summary(): depth must not be negative, got {depth}")
    shares = _time_shares(model, args, kwargs) if timed else None
    watch = watching.watched(model, args, kwargs) if args or kwargs else None
    return Summary(model, watch, depth, shares)


def _time_shares(model: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, float]:
    """The part of a call's time that each module takes, by path."""
    if not (args or kwargs):
        raise ValueError("summary(): timed=True needs example arguments to call the model with")
    leaves = [*tree_leaves((args, kwargs)), *model.parameters(), *model.buffers()]
    for each in leaves:
        if isinstance(each, Tensor) and (is_lazy(each) or each.is_meta):
            raise ValueError(
                "summary(): timed=True needs values, but a tensor is on the meta device or "
                "uninitialized; give a materialized model and arguments, or leave timed out"
            )
    # A compiled module is one program; its modules are timed eagerly.
    plain = getattr(model, "_orig_mod", model)
    copied, copied_args, copied_kwargs = copy.deepcopy((plain, args, kwargs))
    # Evaluation without a compiler, as of first calls, has other shares.
    with fork_rng(), no_grad(), gears(interpret=False):
        copied(*copied_args, **copied_kwargs)
        with profile() as profiled:
            copied(*copied_args, **copied_kwargs)
    totals = {each.path: each.total for each in profiled.rows()}
    root = type(copied).__name__
    whole = totals[root] or 1.0
    return {
        path: totals.get(f"{root}.{path}" if path else root, 0.0) / whole
        for path, _ in copied.named_modules()
    }


def _row(
    path: str,
    module: Module,
    calls: watching.Calls,
    has_calls: bool,
    shares: Mapping[str, float] | None,
) -> SummaryRow:
    parameters = [each for each in module.parameters() if not is_lazy(each)]
    buffers = [each for each in module.buffers() if not is_lazy(each)]
    return SummaryRow(
        path=path,
        class_name=type(getattr(module, "_orig_mod", module)).__name__,
        depth=path.count(".") + 1 if path else 0,
        calls=calls.count if has_calls else None,
        output=calls.output,
        params=sum(each.numel() for each in parameters),
        trainable=sum(each.numel() for each in parameters if each.requires_grad),
        bytes=sum(each.nbytes for each in (*parameters, *buffers)),
        flops=calls.flops if has_calls else None,
        time_share=None if shares is None else shares.get(path, 0.0),
    )
