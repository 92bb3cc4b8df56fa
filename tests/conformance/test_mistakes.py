"""Tracebacks of beginners' mistakes have no more frames of the library than PyTorch's."""

import traceback
import warnings
from pathlib import Path

import pytest
import torch

from flambeau.core.support import tracebacks
from tests.test_mistakes import BEFORE, MISTAKES

# PyTorch has no `summary`, no error for `to(3.5)`, and compiles with a compiler of C++.
WITHOUT = ("flambeau.summary", "net.to(3.5)", "flambeau.compile")


def frames_of(code, folders):
    """How many frames of the traceback lie in the folders; ``None`` if there is no error."""
    names = {"__name__": "__main__"}
    exec(BEFORE_OF[folders], names)
    try:
        exec(compile(code, "cell", "exec"), names)
    except Exception as error:  # noqa: BLE001 (any error counts)
        files = [each.filename for each in traceback.extract_tb(error.__traceback__)]
        return sum(each.startswith(folders) for each in files)
    return None


TORCH = (str(Path(torch.__file__).parent),)
BEFORE_OF = {
    tracebacks.OWN_FOLDERS: BEFORE,
    TORCH: BEFORE.replace("from flambeau import nn, ones", "from torch import nn, ones").replace(
        "flambeau", "torch"
    ),
}


@pytest.mark.parametrize(
    "mistake", [e[2] for e in MISTAKES if not any(each in e[2] for each in WITHOUT)]
)
def test_there_are_no_more_frames_than_pytorchs(mistake, monkeypatch, tmp_path):
    monkeypatch.setattr(tracebacks, "is_full", False)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = frames_of(mistake, tracebacks.OWN_FOLDERS)
        theirs = frames_of(mistake.replace("flambeau", "torch"), TORCH)
    assert own <= theirs
