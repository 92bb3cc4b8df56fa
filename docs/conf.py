"""How `make docs` builds the pages and the reference."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import flambeau

project = "flambeau"
author = "the flambeau contributors"
release = version = flambeau.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.mermaid",
]
html_theme = "furo"
exclude_patterns = ["_build"]
# A name in single backticks is code, in docstrings as in Markdown.
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
napoleon_use_rtype = False
napoleon_use_ivar = True
myst_heading_anchors = 3
# Pictures of the architecture.
myst_fence_as_directive = ["mermaid"]

# The namespaces that the reference lists, a page each.
NAMESPACES = [
    "flambeau", "flambeau.nn", "flambeau.nn.functional", "flambeau.nn.init", "flambeau.nn.utils",
    "flambeau.optim", "flambeau.optim.lr_scheduler", "flambeau.autograd", "flambeau.func",
    "flambeau.linalg", "flambeau.fft", "flambeau.special", "flambeau.compiler",
    "flambeau.checkpoint", "flambeau.distributed", "flambeau.distributions", "flambeau.utils.data",
]  # fmt: skip
REFERENCE = Path(__file__).parent / "reference"


def public_names(namespace: Any) -> list[str]:
    """The documented functions and classes of a namespace, without its modules."""
    names = getattr(namespace, "__all__", None) or dir(namespace)
    found = []
    for name in sorted(names):
        value = getattr(namespace, name, None)
        is_own = (getattr(value, "__module__", None) or "").startswith("flambeau")
        if not name.startswith("_") and callable(value) and is_own and inspect.getdoc(value):
            found.append(name)
    return found


def page(path: str, listed: dict[int, str]) -> str:
    """The page of one namespace, as reStructuredText.

    Args:
        path: The namespace.
        listed: What earlier pages describe, by identity; this page refers to them.
    """
    namespace = import_module(path)
    lines = [path, "=" * len(path), "", f".. py:module:: {path}", ""]
    for name in public_names(namespace):
        value, full = getattr(namespace, name), f"{path}.{name}"
        if id(value) in listed:
            lines += [f"``{full}`` is `{listed[id(value)]}`.", ""]
            continue
        listed[id(value)] = full
        lines += [f".. autoclass:: {full}", "   :members:", ""] if inspect.isclass(value) else [
            f".. autofunction:: {full}", "",
        ]  # fmt: skip
    return "\n".join(lines)


def write_reference(_: Any) -> None:
    """Write a page for each namespace, where it has changed."""
    REFERENCE.mkdir(exist_ok=True)
    listed: dict[int, str] = {}
    pages = {f"{path}.rst": page(path, listed) for path in NAMESPACES}
    entries = "\n".join(f"   {path}" for path in NAMESPACES)
    pages["index.rst"] = f"Reference\n=========\n\n.. toctree::\n   :maxdepth: 1\n\n{entries}\n"
    for name, text in pages.items():
        file = REFERENCE / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def setup(app: Any) -> None:
    """Write the reference before the pages are read."""
    app.connect("builder-inited", write_reference)
