"""What an installation says of itself."""

import jax
import numpy as np

import flambeau


def test_an_installation_tells_its_versions_and_devices():
    lines = dict(line.split(": ", 1) for line in flambeau.__config__.show().splitlines())
    assert lines["flambeau"] == flambeau.__version__
    assert (lines["jax"], lines["numpy"]) == (jax.__version__, np.__version__)
    assert "cpu" in lines["devices"]


def test_threads_are_counted():
    assert f"{flambeau.get_num_threads()}\n" in flambeau.__config__.parallel_info()


def test_the_package_is_built_with_no_gpu_library():
    assert flambeau.version.cuda is flambeau.version.hip is None
