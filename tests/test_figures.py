"""The figures of the pages are those of the results."""

import json

import pytest

from tools import figures


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_results(page):
    text = page.read_text()
    assert set(figures.PLACE.findall(text))
    assert figures.written(text) == text


def test_every_table_is_on_a_page():
    texts = [page.read_text() for page in figures.PAGES]
    shown = {found[1] for text in texts for found in figures.PLACE.findall(text)}
    assert shown == set(figures.TABLES)


@pytest.mark.parametrize("path", [*figures.RESULTS.glob("*.json")], ids=lambda path: path.stem)
def test_a_file_of_results_says_where_it_is_from(path):
    kept = json.loads(path.read_text())
    assert all(kept[each] for each in ("machine", "python", "versions", "commit", "date", "rows"))


def test_tables(monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "RESULTS", tmp_path)

    def keep(name, rows):
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": rows}))

    keep("models.1-core", {"Small, 2 layers": {"eager": 0.5, "compiled": 0.25, "no kernels": 2}})
    keep("models.gpu", {"Small, 2 layers": {"compiled": 0.125}})
    assert figures.whole().splitlines()[2:] == ["| Small, 2 layers | 0.25 | 0.50 |  |  |  |"]
    assert figures.compiled_steps() == {"Small": {"1 core": 0.25, "GPU": 0.125}}
    assert figures.models().splitlines()[2:] == [
        "| Small, 2 layers | 1 core |  | 0.50 | 0.25 | 2.00 |  |  |",
        "|  | GPU |  |  | 0.12 |  |  |  |",
    ]
    page = "before\n<!-- figures: whole -->\nold\n<!-- end -->\nafter\n"
    assert figures.written(page) == page.replace("old\n", figures.whole())
