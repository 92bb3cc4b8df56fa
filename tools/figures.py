"""Writes the tables of figures in the pages from `benchmarks/results`: ``python -m tools.figures``.

A page has a table between ``<!-- figures: NAME -->`` and ``<!-- end -->``, where NAME is a key of
`TABLES`. `make bench` writes the results, and then runs this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
NAMES = ("distributed", "generation", "layers", "performance")
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in NAMES)]
PLACE = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: The settings of a benchmark, in the order of the columns.
SETTINGS = {"1-core": "1 core", "all-cores": "all cores", "gpu": "GPU"}

Rows = dict[str, dict[str, float]]


def results(name: str) -> Rows:
    """The ratios of a benchmark by row and column; empty if it was never run."""
    return _read(name).get("rows", {})


def _read(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(ratio: float | None) -> str:
    """A ratio with two decimals, or three below 0.01; nothing if there is none."""
    return "" if ratio is None else f"{ratio:.{2 if ratio >= 0.01 else 3}f}"


def simple(name: str, title: str, columns: dict[str, str]) -> Callable[[], str]:
    """A table of one benchmark, with titles for some of its columns."""

    def write() -> str:
        rows = [
            [row, *(cell(ratios.get(each)) for each in columns)]
            for row, ratios in results(name).items()
        ]
        return table([title, *columns.values()], rows)

    return write


def by_setting(name: str, columns: dict[str, dict[str, str]]) -> Callable[[], str]:
    """A table of one benchmark with columns for each of its settings."""

    def write() -> str:
        found = {setting: results(f"{name}.{setting}") for setting in columns}
        names = list(dict.fromkeys(row for each in found.values() for row in each))
        head = [""]
        for setting, titles in columns.items():
            first, *others = titles.values()
            head += [f"{SETTINGS[setting]}: {first}", *others]
        rows = [
            [row, *(
                cell(found[setting].get(row, {}).get(column))
                for setting, titles in columns.items()
                for column in titles
            )]
            for row in names
        ]  # fmt: skip
        return table(head, rows)

    return write


def models() -> str:
    """Whole models: a line for each setting."""
    columns = {
        "torch.compile": "torch.compile", "eager": "eager", "compiled": "compiled",
        "no kernels": "compiled, no kernels", "JAX by hand": "JAX by hand", "NNX": "Flax NNX",
    }  # fmt: skip
    rows = []
    for model in results("models.1-core"):
        for setting, title in SETTINGS.items():
            ratios = results(f"models.{setting}").get(model)
            if ratios:
                name = model if setting == "1-core" else ""
                rows.append([name, title, *(cell(ratios.get(each)) for each in columns)])
    return table(["one training step", "on", *columns.values()], rows)


def compiled_steps() -> dict[str, dict[str, float]]:
    """A compiled step's ratio for each model and setting."""
    return {
        model.partition(",")[0]: {
            title: ratios["compiled"]
            for setting, title in SETTINGS.items()
            if (ratios := results(f"models.{setting}").get(model))
        }
        for model in results("models.1-core")
    }


def whole() -> str:
    """Whole models on one core, beside all peers."""
    columns = {
        "compiled": "**flambeau compiled**", "eager": "flambeau eager",
        "torch.compile": "torch.compile", "JAX by hand": "JAX by hand", "NNX": "Flax NNX",
    }  # fmt: skip
    rows = [
        [model, *(cell(ratios.get(each)) for each in columns)]
        for model, ratios in results("models.1-core").items()
    ]
    head = ["one training step, ratio to PyTorch eager, one core", *columns.values()]
    return table(head, rows)


def mlp() -> str:
    """The step of a small perceptron, fastest first."""
    found = {name: each["ratio"] for name, each in results("mlp").items()}
    rows = []
    for name, ratio in sorted(found.items(), key=lambda each: each[1]):
        mark = "**" if name.startswith("flambeau") else ""
        rows.append([f"{mark}{name}{mark}", f"{mark}{ratio:.2f}{mark}"])
    title = "one SGD step of an MLP 64-128-128-128-10, batch 32"
    return table([title, "ratio to hand-written JAX"], rows)


def module() -> str:
    """The extremes of the module system's statements, and building on the meta device."""
    ratios = sorted((each["ratio"], name) for name, each in results("module").items())
    rows = []
    if ratios:
        shown = {"least": 0, "median": len(ratios) // 2, "greatest": -1}
        rows = [[f"{word} of {len(ratios)} statements: {ratios[at][1]}", cell(ratios[at][0])]
                for word, at in shown.items()]  # fmt: skip
    for count, each in results("meta").items():
        rows.append([f"building {count} parameters on the meta device", cell(each["ratio"])])
    return table(["the module system", "ratio to PyTorch"], rows)


def measured() -> str:
    """The machine, versions, commit and date of every file of results."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(RESULTS.glob("*.json")):
        kept = _read(path.stem)
        versions = ", ".join(f"{name} {each}" for name, each in kept["versions"].items())
        key = kept["machine"], f"Python {kept['python']}, {versions}", kept["commit"], kept["date"]
        groups.setdefault(key, []).append(path.stem)
    rows = [[", ".join(names), *key] for key, names in groups.items()]
    return table(["results", "machine", "versions", "commit", "date"], rows)


#: The table of each name.
TABLES: dict[str, Callable[[], str]] = {
    "whole": whole,
    "mlp": mlp,
    "models": models,
    "layers": by_setting("layers", {
        setting: {"torch.compile": "torch.compile", "eager": "eager", "compiled": "compiled",
                  "no kernels": "no kernels"}
        for setting in ("1-core", "all-cores")
    } | {"gpu": {"eager": "eager", "compiled": "compiled"}}),
    "loops": by_setting("loops", {
        "1-core": {"fused": "fused", "eager": "unfused", "compiled": "compiled",
                   "JAX by hand": "JAX by hand"},
        "gpu": {"fused": "fused", "eager": "unfused", "compiled": "compiled"},
    }),
    "module": module,
    "first-step": simple("first_step", "build, first and second step", {
        "flambeau compiled cold": "compiled, cold", "flambeau compiled warm": "warm",
        "flambeau eager cold": "eager, cold", "flambeau eager warm": "warm",
        "JAX by hand warm": "JAX by hand, warm", "PyTorch eager": "PyTorch eager",
        "torch.compile of the model cold": "torch.compile, cold",
        "torch.compile of the model warm": "warm",
    }),
    "large": simple("large", "parameters in bfloat16", {
        "build": "build on meta", "load": "load", "first token": "first token",
        "a token": "a later token", "memory": "memory",
    }),
    "gears": simple("gears", "CPU time of eager code", {
        "flambeau, cold": "interpreted, cold", "flambeau, warm": "warm",
        "flambeau, all compiled, warm": "all compiled, warm",
        "PyTorch eager, cold": "PyTorch eager",
        "JAX by hand, cold": "JAX by hand, cold", "JAX by hand, warm": "warm",
    }),
    "depth": simple("depth", "first call of a compiled step", {
        "compiled": "compiled", "no kernels": "compiled, no kernels",
        "growth": "compiled, to a quarter of the parts",
    }),
    "recompute": simple("recompute", "twelve times", {"memory": "memory", "time": "time"}),
    "scaling": simple("scaling", "on eight CPU devices", {"ratio": "ratio to JAX by hand"}),
    "all-reduce": simple("all_reduce", "eager code", {"ratio": "ratio to JAX by hand"}),
    "generation": by_setting("generation", {
        "1-core": {"torch.compile": "torch.compile", "eager": "eager", "compiled": "compiled"},
    }),
    "measured": measured,
}  # fmt: skip


def written(page: str) -> str:
    """The text of a page with its tables written anew."""
    return PLACE.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path.read_text()))
