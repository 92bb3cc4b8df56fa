"""`tools/look.py` finds links that lead nowhere, without a browser."""

import pytest

from tools import look

PAGES = {
    "index.html": '<link rel="canonical" href="https://example.org/"><h1 id="top">'
    '<a href="guide.html#part">part</a> <a href="https://example.org">elsewhere</a>',
    "folder/guide.html": '<a href="../index.html#top">back</a><img src="../picture.svg">',
}


def problems(folder, **pages):
    (folder / "folder").mkdir(exist_ok=True)
    (folder / "picture.svg").write_text("<svg/>")
    for name, text in {**PAGES, "guide.html": '<h2 id="part">', **pages}.items():
        (folder / name).write_text(text)
    return list(look.broken_links(folder, look.read_pages(folder)))


def test_links_to_pages_anchors_and_the_web_are_no_problem(tmp_path):
    assert not problems(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<a href="gone.html">', "no file for the link /gone.html"),
        ('<a href="index.html#gone">', "no anchor for the link /index.html#gone"),
        ('<a href="#gone">', "no anchor for the link /other.html#gone"),
        ('<img src="gone.png">', "no file for the link /gone.png"),
        ('<script src="https://cdn.example.org/x.js">', "loads https://cdn.example.org/x.js"),
        ('<link rel="stylesheet" href="//cdn.example.org/x.css">', "loads //cdn.example.org/x.css"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path, text, problem):
    (found,) = problems(tmp_path, **{"other.html": text})
    assert found.startswith("other.html: ")
    assert problem in found


def test_without_a_browser_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(look.shutil, "which", lambda name: None)
    monkeypatch.setattr("sys.argv", ["look"])
    assert look.main() == 0
    assert "skipped: none of chromium" in capsys.readouterr().out
