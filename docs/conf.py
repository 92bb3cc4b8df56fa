"""How `make docs` builds the pages and the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flambeau
from tools import reference

project = "flambeau"
author = "the flambeau contributors"
release = version = flambeau.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"flambeau {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The sources would be written beside each page, and nobody reads them.
html_copy_source = False
html_show_copyright = False
# The reference and the search list the names already.
html_use_index = False
exclude_patterns = ["_build"]
# A name in single backticks is code, in docstrings as in Markdown.
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
# A method without a docstring of its own is described where it is inherited from.
autodoc_inherit_docstrings = False
napoleon_use_rtype = False
# The errors of a docstring are links by their last name, which several namespaces may have.
suppress_warnings = ["ref.python"]
napoleon_use_ivar = True
myst_heading_anchors = 3
# `tools/reference.py` writes lists of its own.
toc_object_entries = False


def setup(app: Any) -> None:
    """Write the reference before the pages are read."""
    app.connect("builder-inited", lambda _: reference.write(Path(__file__).parent / "reference"))
