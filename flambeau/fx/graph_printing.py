"""Printing graphs."""

from __future__ import annotations

from typing import Any


class GraphPrinting:
    """The methods of `Graph` that print it."""

    nodes: Any

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    def print_tabular(self) -> None:
        """Print the nodes as a table; needs the package tabulate.

        Raises:
            ImportError: tabulate is not installed.
        """
        try:
            from tabulate import tabulate  # type: ignore[import-not-found]
        except ImportError as error:
            raise ImportError(
                "print_tabular() needs the package tabulate (pip install tabulate); "
                "print(graph) shows the same without it"
            ) from error
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        table = tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"])
        print(table)  # noqa: T201 - what the method is for
