"""The pictures of the pages show what the README and the architecture's test say."""

import xml.etree.ElementTree as ET

import pytest

from tests.test_architecture import BELOW, BELOW_IN_CORE
from tools import pictures


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


def test_a_bar_is_as_long_as_the_ratio():
    picture = pictures.models_picture({"small": {"1 core": 0.5, "GPU": 0.125}})
    texts = [each.text for each in ET.fromstring(picture).iter() if each.text]
    assert {"small", "0.50", "0.12", "1 core", "GPU"} <= set(texts)
    assert 'width="200" height="16"' in picture
    assert 'width="50" height="16"' in picture
