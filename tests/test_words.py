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
# Private words for things that have a name in the field, in that sense: consistent, fixed,
# loaded from the persistent cache, 1.4x faster, interleaved, tangents, guards, public interface.
PRIVATE = re.compile(
    r"\bof one moment\b"
    r"|\bmend(ed|s|ing)?\b"
    r"|\bway (from|to) the disk\b"
    r"|\b0\.\d+ of (its|the|their) time\b"
    r"|(?<!which )(?<!that )(?<!this )\bin turn\b"
    r"|\bhow (the (others?|inputs?|results?|arguments?|primals?)|each|they|all of them) moves?\b"
    r"|\b(takes?|taken|taking) for granted\b"
    r"|\bpublic face\b",
    re.IGNORECASE,
)
# A command instead of a description, and a clause as the subject: "That nothing is lost costs".
OPENINGS = re.compile(
    r"Let\b|That (?!(is|was)\b)[^.]*?\b(costs?|is|takes|needs|means|makes|follows|holds)\b"
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


def sentences_of(source: str):
    """The docstrings and the blocks of comments of a file, each as one line, with its line."""
    for text, line in docstrings_of(ast.parse(source)):
        yield line, " ".join(text.split())
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start != (block[-1].start[0] + 1, block[-1].start[1]):
            yield block[0].start[0], comment_of(block)
            block = []
        block.append(token)
    if block:
        yield block[0].start[0], comment_of(block)


def comment_of(block: list[tokenize.TokenInfo]) -> str:
    return " ".join(token.string.lstrip("#: ") for token in block)


def private_words_of(source: str):
    """The private words and openings in a file, each with its line."""
    for line, text in sentences_of(source):
        if opening := OPENINGS.match(text):
            yield line, opening.group(0)
        for word in PRIVATE.finditer(text):
            yield line, word.group(0)


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


def test_sentences_have_the_words_of_the_field():
    found = [
        f"{place_of(file, line)}: {word}"
        for file in FILES
        for line, word in private_words_of(file.read_text())
    ]
    assert not found


@pytest.mark.parametrize(
    "sentence",
    [
        "Let calls run eagerly.",
        "That Ctrl-C loses nothing costs two microseconds.",
        "A step of 0.7 of its time.",
        "The values of one moment.",
        "Nobody asks how the others move.",
        "The programs run in turn.",
        "The terms that a program takes for granted.",
        "A program that comes the short way from the disk.",
    ],
)
def test_a_sentence_with_private_words_is_found(sentence):
    assert list(private_words_of(f'"""{sentence}"""\n'))
    assert list(private_words_of(f"# {sentence}\n"))


@pytest.mark.parametrize(
    "sentence",
    [
        "Lets a module announce reads.",
        "That is why the order matters.",
        "The program calls the kernel, which in turn allocates.",
        "JAX decides how it moves memory.",
    ],
)
def test_a_sentence_with_the_words_of_the_field_passes(sentence):
    assert not list(private_words_of(f'"""{sentence}"""\n'))


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
