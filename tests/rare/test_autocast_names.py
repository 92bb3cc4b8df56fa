"""Older names of autocast."""

import threading

import pytest

import flambeau


def test_settings_of_a_device_have_older_names():
    with flambeau.autocast("cpu"):
        for name, expected in (
            ("get_autocast_cpu_dtype", flambeau.bfloat16),
            ("get_autocast_gpu_dtype", flambeau.float16),
            ("is_autocast_cpu_enabled", True),
        ):
            with pytest.warns(DeprecationWarning, match=name):
                assert getattr(flambeau, name)() is expected


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_dtype_is_set(kind):
    device_type = {"gpu": "cuda"}.get(kind, kind)
    before = flambeau.get_autocast_dtype(device_type)
    try:
        with pytest.warns(DeprecationWarning, match=f"set_autocast_{kind}_dtype"):
            getattr(flambeau, f"set_autocast_{kind}_dtype")(flambeau.float32)
        assert flambeau.get_autocast_dtype(device_type) is flambeau.float32
    finally:
        flambeau.set_autocast_dtype(device_type, before)


def test_it_is_switched_on():
    try:
        with pytest.warns(DeprecationWarning, match="set_autocast_cpu_enabled"):
            flambeau.set_autocast_cpu_enabled(True)
        assert flambeau.is_autocast_enabled("cpu")
    finally:
        flambeau.set_autocast_enabled("cpu", False)


def test_blocks_are_counted_for_each_thread():
    counts = []
    assert flambeau.autocast_increment_nesting() == 1
    assert flambeau.autocast_increment_nesting() == 2
    other = threading.Thread(target=lambda: counts.append(flambeau.autocast_increment_nesting()))
    other.start()
    other.join()
    assert counts == [1]
    assert flambeau.autocast_decrement_nesting() == 1
    assert flambeau.autocast_decrement_nesting() == 0
    flambeau.clear_autocast_cache()
