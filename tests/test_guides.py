"""The code in the guides runs, and its assertions hold."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = ["functional.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program(text):
    """The code of a page, each line at the number that it has there."""
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        start = text.count("\n", 0, block.start(1))
        code = block[1].splitlines()
        lines[start : start + len(code)] = code
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", GUIDES)
def test_the_code_of_a_guide_runs_from_top_to_bottom(name):
    page = DOCS / name
    code = program(page.read_text())
    assert code.count("assert ") > 10
    exec(compile(code, str(page), "exec"), {"__name__": "guide"})


def test_lines_keep_their_numbers():
    page = "a\n```python\nx = 1\n```\nb\n```sh\nls\n```\n```python\n1 / 0\n```\n"
    code = program(page)
    assert code.splitlines()[2] == "x = 1"
    assert "ls" not in code
    with pytest.raises(ZeroDivisionError) as error:
        exec(compile(code, "page", "exec"), {})
    assert error.traceback[-1].lineno + 1 == 10
