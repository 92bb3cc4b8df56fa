"""The quick look of a guard at what stands outside a function."""

import os
import subprocess
import sys

import pytest

import flambeau
from flambeau.compile.guarding.guard import OutsideSnapshot
from flambeau.compile.guarding.places import Outside


class Settings:
    """Makes the list again at each look, and holds a number."""

    def __init__(self):
        self.rates = [1.0, 2.0]
        self.scale = 3.0

    @property
    def copied(self):
        return list(self.rates)


def settled(*places):
    snapshot = OutsideSnapshot()
    snapshot.update(places)
    snapshot.settle()
    return snapshot


def test_values_made_at_each_look_leave_the_others_their_quick_look():
    settings = Settings()
    copied, scale = Outside(settings, None, ("copied",)), Outside(settings, None, ("scale",))
    snapshot = settled(copied, scale)
    for _ in range(3):
        assert snapshot.holds()
    assert [*snapshot.unsteady] == [copied]
    assert snapshot.are_same()
    settings.scale = float("3.0")  # an equal number, once
    assert snapshot.holds()
    assert [*snapshot.unsteady] == [copied]
    assert snapshot.are_same()
    settings.rates.append(1.0)
    assert not snapshot.holds()
    settings.rates.pop()
    assert snapshot.holds()
    settings.scale = 4.0
    assert not snapshot.holds()


def test_after_many_exchanges_all_is_compared():
    settings = [Settings() for _ in range(12)]
    places = [Outside(each, None, ("rates",)) for each in settings]
    snapshot = settled(*places)
    for each in settings:
        each.rates = list(each.rates)
        assert snapshot.holds()
    assert [*snapshot.unsteady] == places
    settings[5].rates[0] = 2.0
    assert not snapshot.holds()


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_installed_packages_are_told_by_every_folder_of_theirs(tmp_path, folder):
    package = tmp_path / folder / "scaling"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def scale(x):\n    return x * 2\n")
    code = (
        "import scaling; from flambeau.compile import ownership; "
        "print(ownership.is_of_library(scaling.scale.__code__), "
        "ownership.is_of_package(scaling.__file__))"
    )
    root = os.path.dirname(os.path.dirname(flambeau.__file__))
    path = os.pathsep.join((root, str(package.parent)))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.split() == ["True", "True"], done.stderr
