"""The words of the package and its pages: plain English, and the field's nouns."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "flambeau").rglob("*.py"))
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
# Old words, and names that were once given to mechanisms.
BANNED = re.compile(
    r"\b(anew|kin|shall|hence|whilst|thereof|hereby|dear|twins?|workshop)\b", re.IGNORECASE
)
# Verbs and pronouns in place of the noun for the value.
BANNED_NAMES = {"made", "dice", "twins", "standing", "at_hand", "there", "what", "those"}


def texts_of(source: str):
    """The comments and strings of a file, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], token.string


def docstrings_of(tree: ast.Module):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or "", getattr(node, "lineno", 1)


def names_of(tree: ast.Module):
    """The names of variables, parameters, attributes, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno


def place_of(file: Path, line: int) -> str:
    return f"{file.relative_to(ROOT)}:{line}"


def test_comments_and_texts_have_no_old_words():
    found = [
        f"{place_of(file, line)}: {word}"
        for file in FILES
        for line, text in texts_of(file.read_text())
        for word in BANNED.findall(text)
    ]
    assert not found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_have_no_old_words(page):
    lines = enumerate(page.read_text().splitlines(), 1)
    assert not [f"{number}: {word}" for number, line in lines for word in BANNED.findall(line)]


def test_a_docstring_begins_with_a_noun_or_a_verb():
    begins = re.compile(r"(What|Who|Those that|That which)\b")
    found = [
        f"{place_of(file, line)}: {text.splitlines()[0]}"
        for file in FILES
        for text, line in docstrings_of(ast.parse(file.read_text()))
        if begins.match(text)
    ]
    assert not found


def test_variables_have_a_noun_for_their_name():
    found = [
        f"{place_of(file, line)}: {name}"
        for file in FILES
        for name, line in names_of(ast.parse(file.read_text()))
        if name in BANNED_NAMES
    ]
    assert not found
