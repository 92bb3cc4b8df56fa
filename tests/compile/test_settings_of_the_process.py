"""Settings of the process that a compiled function asks for are followed, each of them."""

import pytest

import flambeau
from flambeau import backends, nn
from flambeau.autograd import anomaly_mode
from flambeau.core.support import settings
from tests.compile.following import X, check, check_refused

sdp = backends.cuda

# What gives a setting, and what gives it another value.
GETTERS = {
    "deterministic": (
        lambda: flambeau.are_deterministic_algorithms_enabled(),
        lambda on: flambeau.use_deterministic_algorithms(on),
    ),
    "deterministic, warn only": (
        lambda: flambeau.is_deterministic_algorithms_warn_only_enabled(),
        lambda on: flambeau.use_deterministic_algorithms(on, warn_only=on),
    ),
    "deterministic, level": (
        lambda: flambeau.get_deterministic_debug_mode() == 2,
        lambda on: flambeau.set_deterministic_debug_mode(2 if on else 0),
    ),
    "matmul precision": (
        lambda: flambeau.get_float32_matmul_precision() == "medium",
        lambda on: flambeau.set_float32_matmul_precision("medium" if on else "highest"),
    ),
    "anomaly": (
        lambda: flambeau.is_anomaly_enabled(),
        lambda on: anomaly_mode.set_detect_anomaly(on),
    ),
    "anomaly, nan": (
        lambda: not flambeau.is_anomaly_check_nan_enabled(),
        lambda on: anomaly_mode.set_detect_anomaly(False, check_nan=not on),
    ),
    "initial seed": (
        lambda: flambeau.initial_seed() == 7,
        lambda on: flambeau.manual_seed(7 if on else 0),
    ),
    "flash": (lambda: not sdp.flash_sdp_enabled(), lambda on: sdp.enable_flash_sdp(not on)),
    "math": (lambda: not sdp.math_sdp_enabled(), lambda on: sdp.enable_math_sdp(not on)),
    "cudnn": (lambda: not sdp.cudnn_sdp_enabled(), lambda on: sdp.enable_cudnn_sdp(not on)),
    "efficient": (
        lambda: not sdp.mem_efficient_sdp_enabled(),
        lambda on: sdp.enable_mem_efficient_sdp(not on),
    ),
    "half precision": (
        lambda: sdp.fp16_bf16_reduction_math_sdp_allowed(),
        lambda on: sdp.allow_fp16_bf16_reduction_math_sdp(on),
    ),
    "fast path": (
        lambda: not backends.mha.get_fastpath_enabled(),
        lambda on: backends.mha.set_fastpath_enabled(not on),
    ),
    "cudnn.benchmark": (
        lambda: backends.cudnn.benchmark,
        lambda on: setattr(backends.cudnn, "benchmark", on),
    ),
    "cuda.matmul": (
        lambda: backends.cuda.matmul.fp32_precision == "tf32",
        lambda on: setattr(backends.cuda.matmul, "fp32_precision", "tf32" if on else "ieee"),
    ),
    "cudnn.conv": (
        lambda: backends.cudnn.conv.fp32_precision == "tf32",
        lambda on: setattr(backends.cudnn.conv, "fp32_precision", "tf32" if on else "none"),
    ),
    "backends": (
        lambda: backends.fp32_precision == "tf32",
        lambda on: setattr(backends, "fp32_precision", "tf32" if on else "ieee"),
    ),
    "autocast cache": (
        lambda: not flambeau.is_autocast_cache_enabled(),
        lambda on: flambeau.set_autocast_cache_enabled(not on),
    ),
    "autocast dtype": (
        lambda: flambeau.get_autocast_dtype("cpu") is flambeau.float16,
        lambda on: flambeau.set_autocast_dtype(
            "cpu", flambeau.float16 if on else flambeau.bfloat16
        ),
    ),
    "multithreading": (
        lambda: not flambeau.autograd.is_multithreading_enabled(),
        lambda on: flambeau.autograd.set_multithreading_enabled(not on),
    ),
    "crc": (
        lambda: not flambeau.serialization.get_crc32_options(),
        lambda on: flambeau.serialization.set_crc32_options(not on),
    ),
    "folder of models": (
        lambda: flambeau.hub.get_dir() == "/elsewhere",
        lambda on: flambeau.hub.set_dir("/elsewhere" if on else "/hub"),
    ),
    "default dtype": (
        lambda: flambeau.get_default_dtype() is flambeau.float64,
        lambda on: flambeau.set_default_dtype(flambeau.float64 if on else flambeau.float32),
    ),
    "gradients": (
        lambda: not flambeau.is_grad_enabled(),
        lambda on: flambeau.set_grad_enabled(not on),
    ),
}


@pytest.fixture
def put_back():
    """Gives a list of what sets a setting, which is set back at the end."""
    used = []
    yield used
    for set_to in used:
        set_to(False)


@pytest.mark.parametrize("name", GETTERS)
def test_a_setting_that_is_asked_for_is_followed(name, put_back):
    is_set, set_to = GETTERS[name]
    put_back.append(set_to)
    set_to(False)
    check(lambda x: x.detach() * (3.0 if is_set() else 1.0), lambda: set_to(True))


def test_a_setting_that_nobody_asks_for_needs_no_program(put_back):
    put_back.append(GETTERS["flash"][1])
    run = flambeau.compile(lambda x: x * 2)
    run(X)
    sdp.enable_flash_sdp(False)
    run(X)
    assert run.program_count == 1


def test_a_setting_that_the_function_changes_for_a_while_is_that_from_before():
    def function(x):
        before = flambeau.is_anomaly_enabled()
        with flambeau.autograd.set_detect_anomaly(True):
            return x * 2 if flambeau.is_anomaly_enabled() and not before else x

    def inside_only(x):
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            return x * 3 if sdp.math_sdp_enabled() else x

    for each in (function, inside_only):
        run = flambeau.compile(each)
        for _ in range(3):
            assert flambeau.equal(run(X), each(X))
        assert run.program_count == 1


def test_a_setting_that_each_call_leaves_changed_is_refused(put_back):
    put_back.append(GETTERS["fast path"][1])

    def leave(x):
        factor = 2 if backends.mha.get_fastpath_enabled() else 3
        backends.mha.set_fastpath_enabled(factor == 3)
        return x * factor

    check_refused(leave, r"changes get_fastpath_enabled\(\)", X)


def test_an_error_in_a_trace_puts_no_setting_anywhere(put_back):
    put_back.append(GETTERS["crc"][1])

    def fail(x):
        flambeau.serialization.set_crc32_options(False)
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        flambeau.compile(fail)(X)
    assert all(callable(each) and each.__defaults__ is None for each in settings.known)
