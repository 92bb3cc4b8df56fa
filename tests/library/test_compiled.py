"""Libraries that are compiled for PyTorch."""

import pytest

import flambeau


def test_a_compiled_library_is_refused_as_one_for_another_version():
    with pytest.raises(OSError, match=r"_C.so.*compiled for PyTorch.*custom_op"):
        flambeau.ops.load_library("_C.so")
