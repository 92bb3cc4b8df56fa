"""Whose code it is decides what a compiled function watches: the user's, however it is called."""

import os
import sysconfig

import pytest

import flambeau
from flambeau.compile import errors, ownership
from flambeau.compile.reading import chance
from tests.compile.following import X, check

# Modules of Python's library whose functions differ from call to call.
NAMES = (
    "http", "multiprocessing", "pathlib", "queue", "secrets", "socket", "subprocess", "urllib",
    "uuid",
)  # fmt: skip
SOURCE = "scale = 2.0\n\n\ndef rescale(x):\n    return x * scale\n"


def run_file(file, namespace=None):
    """What the code of ``SOURCE`` defines if it stands in ``file``."""
    namespace = {"__name__": "users"} if namespace is None else namespace
    exec(compile(SOURCE, str(file), "exec"), namespace)
    return namespace


def beside(folder):
    """A folder whose path begins with that of another."""
    return f"{folder.rstrip(os.sep)}-mine"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("as_folder", [True, False])
def test_code_under_the_name_of_a_module_of_python_is_the_users(tmp_path, name, as_folder):
    file = tmp_path / name / "train.py" if as_folder else tmp_path / f"{name}.py"
    namespace = run_file(file)
    check(namespace["rescale"], lambda: namespace.update(scale=7.0))


@pytest.mark.parametrize("name", NAMES)
def test_modules_of_python_are_told_by_their_folder(name):
    library, packages = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")
    for path in (f"{name}.py", os.path.join(name, "__init__.py")):
        assert chance.is_of_chance(os.path.join(library, path))
        assert not chance.is_of_chance(os.path.join(packages, path))
        assert not chance.is_of_chance(os.path.join(library, "mine", path))


@pytest.mark.parametrize("folder", [errors.OWN_FOLDERS[0], sysconfig.get_path("stdlib")])
def test_a_folder_beside_one_of_a_library_is_the_users(folder):
    namespace = run_file(os.path.join(beside(folder), "train.py"))
    assert ownership.is_of_library(compile("0", os.path.join(folder, "train.py"), "exec"))
    check(namespace["rescale"], lambda: namespace.update(scale=7.0))


def test_an_error_names_a_line_in_a_folder_beside_the_package():
    file = os.path.join(beside(errors.OWN_FOLDERS[0]), "train.py")
    namespace = {"__name__": "users"}
    exec(compile("def choose(x):\n    return x if x.sum() > 0 else -x\n", file, "exec"), namespace)
    with pytest.raises(errors.CompileError, match=r"-mine.train\.py, line 2, in choose"):
        flambeau.compile(namespace["choose"], fullgraph=True)(X)


CLASSES = """
class Scaling:
    rate = 2.0
    def scale(self, x):
        return x * self.rate

class Rates(list):
    rate = 2.0
"""


def anonymous():
    """Classes that code without a ``__name__`` makes."""
    namespace = {}
    exec(CLASSES, namespace)
    assert namespace["Scaling"].__module__ == "builtins"
    return namespace["Scaling"], namespace["Rates"]


def test_classes_made_by_code_without_a_name_are_the_users():
    scaling, rates = anonymous()
    held, listed = scaling(), rates([1.0])
    check(lambda x: held.scale(x), lambda: setattr(scaling, "scale", lambda self, x: x * 7))
    check(lambda x: x * scaling.rate, lambda: setattr(scaling, "rate", 7.0))
    check(lambda x: x * listed.rate, lambda: setattr(rates, "rate", 7.0))
    check(lambda x: x * listed.rate, lambda: setattr(listed, "rate", 8.0))
    assert ownership.is_of_library_class(int)
    assert ownership.is_of_library_class(ExceptionGroup)
