"""The code on the pages runs, and its assertions hold."""

import re
from pathlib import Path

import pytest

import flambeau
from flambeau import nn

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [each.name for each in sorted(ROOT.glob("docs/*.md")) if BLOCK.search(each.read_text())]


def program(text):
    """The code of a page, each line at the number that it has there."""
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        start = text.count("\n", 0, block.start(1))
        code = block[1].splitlines()
        lines[start : start + len(code)] = code
    return "\n".join(lines) + "\n"


def run(page):
    """The names that the code of a page leaves."""
    names = {"__name__": "page"}
    exec(compile(program(page.read_text()), str(page), "exec"), names)
    return names


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(name):
    page = ROOT / "docs" / name
    lines = [line for line in program(page.read_text()).splitlines() if line.strip()]
    # Code without assertions would still run when its results have become wrong.
    assert 20 * sum(line.lstrip().startswith("assert ") for line in lines) >= len(lines)
    run(page)


def test_the_code_of_the_readme_trains_and_loads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    saved = nn.ModuleDict({"hidden": nn.Linear(64, 128), "output": nn.Linear(128, 10)})
    flambeau.save(saved.state_dict(), "model.pt")
    names = run(ROOT / "README.md")
    losses = re.findall(r"tensor\(([\d.]+)", capsys.readouterr().out)
    assert float(losses[1]) < float(losses[0])
    assert names["step"].program_count == 1
    checkpoint = flambeau.load("checkpoint.pt")
    names["optimizer"].load_state_dict(checkpoint["optimizer"])
    assert flambeau.equal(names["model"].output.weight, saved["output"].weight)


def test_lines_keep_their_numbers():
    page = "a\n```python\nx = 1\n```\nb\n```sh\nls\n```\n```python\n1 / 0\n```\n"
    code = program(page)
    assert code.splitlines()[2] == "x = 1"
    assert "ls" not in code
    with pytest.raises(ZeroDivisionError) as error:
        exec(compile(code, "page", "exec"), {})
    assert error.traceback[-1].lineno + 1 == 10
