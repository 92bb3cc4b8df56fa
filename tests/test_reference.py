"""The reference has a page for each public object, which its namespace's page links to."""

import functools
import re

import pytest

from flambeau import nn
from tools import reference

LINK = re.compile(r":doc:`(?:[^<`]*<)?([^>`]+)>?`")


@functools.cache
def pages():
    return reference.pages()


@pytest.mark.parametrize("path", reference.NAMESPACES)
def test_a_namespace_links_to_a_page_for_each_of_its_names(path):
    text = pages()[f"{path}.rst"]
    for name in reference.public_names(path):
        target = re.search(rf":doc:`{name} <([^>]+)>`", text)[1]
        assert f"{target}.rst" in pages()


def test_links_lead_to_pages():
    for text in pages().values():
        assert {f"{target}.rst" for target in LINK.findall(text)} <= set(pages())


def test_no_two_pages_are_one_file_where_case_does_not_count():
    assert len({name.lower() for name in pages()}) == len(pages())


def test_each_group_has_members():
    for path, groups in reference.NAMESPACES.items():
        for title in groups:
            assert f"\n{title}\n---" in pages()[f"{path}.rst"]


def test_a_class_repeats_no_members_of_one_that_has_a_page():
    bases = [each.__name__ for each in nn.Linear.__mro__[1:]]
    option = f"   :inherited-members: {', '.join(bases)}\n"
    assert option in pages()["flambeau.nn.Linear.rst"]
    assert "<flambeau.nn.Module>" in pages()["flambeau.nn.Linear.rst"]
    # Those of its private bases have no other page.
    assert "   :inherited-members: object\n" in pages()["flambeau.nn.Module.rst"]
    assert ":doc:`matmul <flambeau.matmul>`" in pages()["flambeau.Tensor.rst"]


def test_writing_deletes_pages_of_names_that_are_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "pages", lambda: {"index.rst": "Reference\n"})
    (tmp_path / "flambeau.gone.rst").write_text("gone")
    reference.write(tmp_path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        "index.rst": "Reference\n"
    }
