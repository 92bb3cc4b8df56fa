"""Editors and type checkers see what flambeau binds at run time.

`make lint` runs pyright on `typed_lines.py`, beside this file.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.core.values.tensor import Tensor
from tools import stubs

ROOT = Path(__file__).parent.parent
METHODS = (ROOT / "flambeau" / "core" / "values" / "tensor_methods.pyi").read_text()


def declared_in(text):
    return set(re.findall(r"^\s*def (\w+)\(", text, re.MULTILINE))


def test_stubs_say_what_the_package_has():
    # In a process of its own, since modules that other tests import become names of the package.
    command = [sys.executable, "-m", "tools.stubs", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stub_that_lacks_an_operator_is_stale(monkeypatch, tmp_path):
    path = tmp_path / "fft.pyi"
    path.write_text("".join(stubs.gathered("flambeau.fft").splitlines(keepends=True)[:-2]))
    monkeypatch.setattr(stubs, "ROOT", tmp_path)
    monkeypatch.setattr(stubs, "stubs", lambda: {path: stubs.gathered("flambeau.fft")})
    assert stubs.stale() == ["fft.pyi"]


@pytest.mark.parametrize("name", ["exp", "exp_", "sum", "stft", "resize_", "new_zeros", "view"])
def test_methods_of_every_origin_are_declared(name):
    assert hasattr(Tensor, name)
    assert name in declared_in(METHODS)


@pytest.mark.parametrize(
    ("module", "file", "names"),
    [
        (flambeau, "flambeau/__init__.pyi", ["zeros", "exp", "hann_window", "relu_", "kl_div"]),
        (F, "flambeau/nn/functional/__init__.pyi", ["gelu", "cross_entropy", "conv2d"]),
    ],
)
def test_functions_of_every_origin_are_declared(module, file, names):
    declared = declared_in((ROOT / file).read_text())
    assert all(hasattr(module, name) for name in names)
    assert declared.issuperset(names)


def test_operators_are_declared_with_out_and_with_the_aliases_of_their_parameters():
    (line,) = re.findall(r"^    def sum\(.*$", METHODS, re.MULTILINE)
    assert re.search(r"\bout: _Tensor \| None = None", line)
    assert "axis: " in line
    assert "keepdims: " in line


def test_a_module_with_a_stub_holds_no_code_that_the_stub_hides():
    names = stubs.GATHERING
    for name in names:
        source = stubs._path_of(name).with_suffix(".py").read_text()
        assert not re.search(r"^(?:async )?def |^class ", source, re.MULTILINE), name
