"""A plugin that runs each test several times in the third gear: ``pytest -p tests.repeated``.

A sequence of eager calls is fused from its second repetition on, so the last runs of a test follow
the programs of the first. Tests that cannot run twice fail with ``FLAMBEAU_FUSE=0`` as well, which
the environment may set.
"""

from __future__ import annotations

import os

import pytest

from flambeau.core.fusion import stream
from flambeau.core.programs.gears import settings

TIMES = 5


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Run the test, all but the last time."""
    stream.boundary()
    if settings.fuse:
        settings.fuse = int(os.environ.get("FLAMBEAU_FUSE", "2"))
    arguments = {each: pyfuncitem.funcargs[each] for each in pyfuncitem._fixtureinfo.argnames}
    for number in range(TIMES - 1):
        own = dict(arguments)
        if "tmp_path" in own:
            own["tmp_path"] = arguments["tmp_path"] / f"time {number}"
            own["tmp_path"].mkdir()
        pyfuncitem.obj(**own)
        stream.boundary()
