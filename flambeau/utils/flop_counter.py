"""Counting floating-point operations: `torch.utils.flop_counter`."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from flambeau.core.operators.function_modes import TorchFunctionMode
from flambeau.profiler import observing
from flambeau.profiler.flops import backward_flops_of, flops_of, formula
from flambeau.profiler.paths import Paths

__all__ = ["FlopCounterMode", "register_flop_formula"]


class FlopCounterMode(TorchFunctionMode):
    """Counts the floating-point operations inside its block, backward included.

    Matrix products, convolutions and attention are counted by formulas; a multiplication and an
    addition count as two. Compiled functions run eagerly inside, so that their operators are
    counted. Operators inside `flambeau.func.vmap` are counted for one example.

    Args:
        mods: Accepted for compatibility; all modules are tracked.
        depth: The maximum depth of modules in the table; None for all.
        display: Whether the table is printed at the end.
        custom_mapping: More formulas, by operator name; see `register_flop_formula`.

    >>> import flambeau
    >>> from flambeau.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = flambeau.ones(2, 3) @ flambeau.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    depth: int | None
    display: bool
    sees_traces = False

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.depth, self.display = depth, display
        for target, counted in (custom_mapping or {}).items():
            register_flop_formula(target)(counted)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._thread = 0
        # The modules whose forward is running, from the outermost on.
        self._inside: list[str] = []
        self._paths = Paths()
        # The modules of the operators that backward runs through, and their counts.
        self._nodes: dict[Any, tuple[tuple[str, ...], int]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """``func(*args, **kwargs)``: the count is made where operators run."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._thread = threading.get_ident()
        observing.add(self)
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        observing.remove(self)
        self._nodes.clear()
        if self.display and exception[0] is None:
            sys.stdout.write(self.get_table(self.depth) + "\n")

    # Results

    def get_total_flops(self) -> int:
        """The total number of operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """The operations of each operator, by module; ``"Global"`` has all."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A table of modules and operators."""
        deepest = 999999 if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        for name, counts in sorted(
            self.flop_counts.items(), key=lambda each: (each[0] != "Global", each[0])
        ):
            level = 0 if name == "Global" else name.count(".") + 1
            if level > deepest:
                continue
            rows.append(_row(level, name, sum(counts.values()), total))
            rows += [_row(level, f" - {op}", count, total) for op, count in counts.items()]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [
            f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in rows
        ]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

    # Counting

    def around(self, kind: str, subject: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
        """See `flambeau.profiler.observing.Observer`."""
        if threading.get_ident() != self._thread:
            return compute()
        if kind == "backward":
            modules, forward = self._nodes.pop(subject, ((), 0))
            if forward:
                name = f"{subject.kernel.name}_backward"
                self._count(name, modules, backward_flops_of(subject, forward))
            return compute()
        if kind == "module":
            self._inside.append(self._paths.enter(subject))
            try:
                return compute()
            finally:
                self._inside.pop()
        result = compute()
        if kind == "operator":
            flops = flops_of(subject, inputs, result)
            if flops:
                self._count(subject.name, tuple(self._inside), flops)
                first = result[0] if isinstance(result, tuple | list) else result
                if first.grad_fn is not None:
                    self._nodes[first.grad_fn] = (tuple(self._inside), flops)
        return result

    def _count(self, name: str, modules: tuple[str, ...], flops: int) -> None:
        for each in {"Global", *modules}:
            self.flop_counts[each][f"aten.{name}"] += flops


def _row(level: int, name: str, count: int, total: int) -> tuple[str, str, str]:
    share = f"{100 * count / total:.2f}%" if total else "0.00%"
    return f"{' ' * level}{name}", _shown(count), share


def _shown(count: int) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.3f}{unit}"
    return str(count)


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """A decorator that registers a formula for operators: ``formula(*shapes, out_shape=shape)``.

    Args:
        targets: Operators (``flambeau.ops.aten.add``), functions, names, or a list of them.
        get_raw: Not supported: formulas take shapes.

    Raises:
        NotImplementedError: ``get_raw`` is true.
    """
    if get_raw:
        raise NotImplementedError(
            "register_flop_formula(get_raw=True): formulas are given shapes; leave get_raw out"
        )

    def register(counted: Callable[..., Any]) -> Callable[..., Any]:
        def of_shapes(shapes: Any, result: Any, static: Any) -> float:
            return counted(*shapes, out_shape=result)

        for each in targets if isinstance(targets, list | tuple) else [targets]:
            formula(each if isinstance(each, str) else each.__name__)(of_shapes)
        return counted

    return register
