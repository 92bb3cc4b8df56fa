"""The pictures of the pages show what the README and the architecture's test say."""

import xml.etree.ElementTree as ET

import pytest

from tests.test_architecture import BELOW, BELOW_IN_CORE
from tools import pictures

README = """
<!-- models: begin -->
| step | 1 core | 2 cores | H200 |
| --- | --- | --- | --- |
| small | 0.50 | 0.80 to 0.87 (1.64 to 1.86) | |
<!-- models: end -->
"""


def reached(arrows, room):
    """Every room that arrows lead to from a room."""
    below = set(arrows.get(room, ()))
    return below.union(*(reached(arrows, each) for each in below))


@pytest.mark.parametrize(("name", "text"), pictures.pictures().items())
def test_a_picture_is_what_the_tool_draws(name, text):
    assert (pictures.FOLDER / name).read_text() == text
    ET.fromstring(text)


def test_arrows_lead_to_the_rooms_that_may_be_imported():
    assert set(pictures.ROOMS) | {"core"} == set(BELOW)
    for room in pictures.ROOMS:
        assert reached(pictures.ARROWS, room) == reached(BELOW, room) - {"return_types"}


def test_the_folders_of_the_core_are_in_the_order_of_their_imports():
    assert set(pictures.FOLDERS) == set(BELOW_IN_CORE)
    for number, folder in enumerate(pictures.FOLDERS):
        assert BELOW_IN_CORE[folder] <= set(pictures.FOLDERS[number + 1 :])


def test_a_bar_has_the_figure_without_parentheses_and_its_longer_end():
    assert pictures.bars(README) == [
        ("small", [("1 core", "0.50", 0.5), ("2 cores", "0.80 to 0.87", 0.87)])
    ]


def test_a_readme_without_the_table_is_an_error():
    with pytest.raises(ValueError, match="no table"):
        pictures.bars("# flambeau")
