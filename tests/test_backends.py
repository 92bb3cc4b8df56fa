"""Settings of libraries: what is kept, what is put back, and what XLA follows."""

import pytest

import flambeau
from flambeau import backends


@pytest.fixture(autouse=True)
def _precision():
    """Puts back what tests set for the whole process."""
    before = flambeau.get_float32_matmul_precision()
    yield
    flambeau.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("name", "flag", "value"),
    [
        ("cudnn", "benchmark", True), ("cudnn", "enabled", False), ("mkldnn", "enabled", False),
        ("nnpack", "enabled", False), ("miopen", "immediate", True),
        ("opt_einsum", "strategy", "greedy"), ("cudnn", "benchmark_limit", 3),
    ],
)  # fmt: skip
def test_a_block_has_other_settings_and_puts_them_back(name, flag, value):
    library = getattr(backends, name)
    before = getattr(library, flag)
    assert before != value
    with library.flags(**{flag: value}):
        assert getattr(library, flag) == value
    assert getattr(library, flag) == before
    old = library.set_flags(**{f"_{flag}": value})
    assert before in old
    assert getattr(library, flag) == value
    setattr(library, flag, before)


def test_settings_are_put_back_after_an_error():
    with pytest.raises(KeyError):  # noqa: SIM117
        with backends.cudnn.flags(benchmark=True):
            raise KeyError
    assert backends.cudnn.benchmark is False


def test_exact_products_are_a_demand_and_others_a_permission():
    flambeau.set_float32_matmul_precision("high")
    assert backends.cuda.matmul.allow_tf32
    assert backends.fp32_precision == backends.cuda.matmul.fp32_precision == "tf32"
    with backends.cudnn.flags(allow_tf32=False):
        assert not backends.cuda.matmul.allow_tf32
    assert flambeau.get_float32_matmul_precision() == "high"
    backends.cudnn.conv.fp32_precision = "ieee"
    assert flambeau.get_float32_matmul_precision() == "highest"
    backends.cudnn.conv.fp32_precision = "tf32"
    backends.cudnn.allow_tf32 = True
    # What is allowed for convolutions is not allowed for products.
    assert flambeau.get_float32_matmul_precision() == "highest"
    backends.cudnn.conv.fp32_precision = "none"
    backends.fp32_precision = "tf32"
    assert flambeau.get_float32_matmul_precision() == "high"
    with backends.flags(fp32_precision="ieee"):
        assert backends.fp32_precision == "ieee"
    assert backends.fp32_precision == "tf32"


def test_unknown_words_are_refused():
    for holder in (backends, backends.cuda.matmul, backends.cudnn.conv, backends.mkldnn):
        with pytest.raises(RuntimeError, match="Unknown precision: x"):
            holder.fp32_precision = "x"
    with pytest.raises(RuntimeError, match="expects a bool, but got str"):
        backends.cudnn.benchmark = "a"
    with pytest.raises(RuntimeError, match="qnnpack is not a valid value for quantized engine"):
        backends.quantized.engine = "qnnpack"
    assert backends.quantized.engine in backends.quantized.supported_engines


def test_libraries_that_are_not_called_are_not_available():
    absent = ("kleidiai", "mkl", "mkldnn", "mps", "nnpack", "openmp", "cusparselt")
    assert not any(getattr(backends, name).is_available() for name in absent)
    assert not backends.mps.is_macos_or_newer(14, 0)
    assert backends.opt_einsum.is_available()
    assert hasattr(backends.opt_einsum.get_opt_einsum(), "contract")
    assert backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    with backends.mkldnn.verbose(backends.mkldnn.VERBOSE_ON), backends.mkl.verbose(1):
        pass


def test_kernels_of_attention_are_forbidden_together():
    from flambeau.ops.neural import fused_attention

    cuda = backends.cuda
    with cuda.sdp_kernel(enable_flash=False, enable_mem_efficient=False, enable_cudnn=False):
        assert not cuda.flash_sdp_enabled()
        assert cuda.math_sdp_enabled()
        assert not fused_attention.enabled.value
    assert cuda.flash_sdp_enabled()
    assert fused_attention.enabled.value
    cuda.enable_flash_sdp(False)
    assert fused_attention.enabled.value
    cuda.enable_mem_efficient_sdp(False)
    cuda.enable_cudnn_sdp(False)
    assert not fused_attention.enabled.value
    for enable in (cuda.enable_flash_sdp, cuda.enable_mem_efficient_sdp, cuda.enable_cudnn_sdp):
        enable(True)
    assert fused_attention.enabled.value


def test_what_is_on_the_cpu_is_computed_by_xla():
    x = flambeau.ones(1, 2, 8, dtype=flambeau.bfloat16)
    params = backends.cuda.SDPAParams(x, x, x, None, 0.0, False, False)
    assert not backends.cuda.can_use_flash_attention(params)
    assert not backends.cuda.can_use_efficient_attention(params, debug=True)
    assert not backends.cudnn.is_acceptable(x)
    assert backends.cudnn.version() is None
