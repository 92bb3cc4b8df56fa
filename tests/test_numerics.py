"""How exact and how repeatable computations are."""

import warnings

import pytest

import flambeau
from flambeau import numerics


@pytest.fixture(autouse=True)
def default_settings():
    import jax

    before = jax.config.values["jax_default_matmul_precision"]
    yield
    jax.config.update("jax_default_matmul_precision", before)
    flambeau.use_deterministic_algorithms(False)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_the_precision_that_is_set_is_the_one_that_is_read(precision):
    flambeau.set_float32_matmul_precision(precision)
    assert flambeau.get_float32_matmul_precision() == precision


def test_an_unknown_precision_is_an_error():
    with pytest.raises(ValueError, match="'low' is not one of highest, high, medium"):
        flambeau.set_float32_matmul_precision("low")


def test_a_compiled_function_follows_a_change_of_precision():
    @flambeau.compile
    def traced_with_high(x):
        return x + (flambeau.get_float32_matmul_precision() == "high")

    for precision in ("high", "highest", "high"):
        flambeau.set_float32_matmul_precision(precision)
        assert traced_with_high(flambeau.zeros(())).item() == (precision == "high")


def test_tf32_of_matrix_products_is_their_precision():
    flambeau.backends.cuda.matmul.allow_tf32 = True
    assert flambeau.get_float32_matmul_precision() == "high"
    flambeau.backends.cuda.matmul.allow_tf32 = False
    assert flambeau.get_float32_matmul_precision() == "highest"
    assert not flambeau.backends.cuda.matmul.allow_tf32


def test_determinism_is_given_on_the_cpu(monkeypatch):
    monkeypatch.setattr(numerics, "available_devices", lambda: ["cpu"])
    flambeau.use_deterministic_algorithms(True)
    assert flambeau.are_deterministic_algorithms_enabled()
    assert not flambeau.is_deterministic_algorithms_warn_only_enabled()
    flambeau.use_deterministic_algorithms(False)
    assert not flambeau.are_deterministic_algorithms_enabled()


def test_determinism_on_gpus_needs_a_flag(monkeypatch):
    monkeypatch.setattr(numerics, "available_devices", lambda: ["cpu", "cuda:0"])
    monkeypatch.setenv("XLA_FLAGS", "")
    with pytest.raises(RuntimeError, match="--xla_gpu_deterministic_ops=true"):
        flambeau.use_deterministic_algorithms(True)
    assert not flambeau.are_deterministic_algorithms_enabled()
    with pytest.warns(UserWarning, match="--xla_gpu_deterministic_ops=true"):
        flambeau.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=r"cudnn\.deterministic"):
        flambeau.backends.cudnn.deterministic = True
    monkeypatch.setenv("XLA_FLAGS", "--xla_foo --xla_gpu_deterministic_ops=true")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.use_deterministic_algorithms(True)
        flambeau.backends.cudnn.deterministic = False


@pytest.mark.parametrize(("level", "number"), [("default", 0), ("warn", 1), ("error", 2), (1, 1)])
def test_levels_of_determinism(monkeypatch, level, number):
    monkeypatch.setattr(numerics, "available_devices", lambda: ["cpu"])
    flambeau.set_deterministic_debug_mode(level)
    assert flambeau.get_deterministic_debug_mode() == number


def test_unknown_levels_of_determinism_are_errors():
    with pytest.raises(RuntimeError, match="not one of default, warn and error"):
        flambeau.set_deterministic_debug_mode("loud")
    with pytest.raises(TypeError, match="got float"):
        flambeau.set_deterministic_debug_mode(1.5)


def test_subnormal_numbers_can_only_be_flushed():
    assert flambeau.set_flush_denormal(True)
    assert not flambeau.set_flush_denormal(False)
