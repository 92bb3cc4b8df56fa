"""Names that are imported when they are first asked for."""

import subprocess
import sys

import pytest

import flambeau
from flambeau import _lazy


def test_importing_the_package_leaves_out_what_few_use():
    code = (
        "import sys, flambeau; "
        "rare = {'fft', 'special', 'signal', 'cuda', 'ops.signals.fourier', "
        "'ops.elementwise.special_functions', 'ops.signals.short_time_fourier', 'rare.histograms', "
        "'rare.functional_forms', 'numerics', 'distributions', 'ops.draws.rejection_draws'}; "
        "print(sorted(name for name in rare if f'flambeau.{name}' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_that_is_listed_is_there():
    for name in dir(flambeau):
        getattr(flambeau, name)
    assert {*_lazy._MODULES, *_lazy._HOMES, *_lazy._METHODS} <= set(dir(flambeau))


def test_a_function_that_was_asked_for_once_is_an_attribute():
    first = flambeau.hann_window
    assert vars(flambeau)["hann_window"] is first is flambeau.hann_window


def test_in_place_operators_are_the_methods():
    x = flambeau.tensor([-1.0, 2.0])
    assert flambeau.relu_(x) is x
    assert x.tolist() == [0, 2]


def test_a_method_whose_module_is_not_imported_yet_works_at_once():
    code = (
        "import flambeau; before = flambeau.Tensor.histogram; "
        "print(flambeau.tensor([0.0, 1.0]).histogram(2).hist.tolist(), "
        "flambeau.Tensor.histogram is before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1.0, 1.0] False"


def test_an_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match="'flambeau' has no attribute 'nothing'"):
        _ = flambeau.nothing
