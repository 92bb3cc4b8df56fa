"""Attention by cuDNN: when it is chosen, and the programs for GPUs that come of it.

JAX writes programs for devices that are not there, so these need no GPU; what it asks of GPUs and
of cuDNN is answered here.
"""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.nn.attention import SDPBackend, sdpa_kernel
from flambeau.ops.native import attention as native
from flambeau.ops.neural import fused_attention
from flambeau.ops.neural.attention import attention

RANDOM = np.random.default_rng(0)
SHAPE = (2, 4, 64, 32)
SEEN = jnp.asarray(RANDOM.random((64, 64)) > 0.3).at[0].set(False)


def arrays(shape=SHAPE, dtype=jnp.bfloat16):
    return [jnp.asarray(RANDOM.standard_normal(shape), dtype) for _ in range(3)]


def attend(query, key, value, mask=None, is_causal=False, scale=None):
    return attention(query, key, value, mask, None, 0.0, is_causal, scale)


@pytest.fixture
def a_gpu(monkeypatch):
    monkeypatch.setattr(fused_attention, "cuda_capability", lambda: (9, 0))
    monkeypatch.setattr(native, "takes", lambda *_: False)
    fused = pytest.importorskip(
        "jax._src.cudnn.fused_attention_stablehlo", reason="this JAX asks for cuDNN elsewhere"
    )
    monkeypatch.setattr(fused, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(fused, "check_compute_capability", lambda capability: True)
    monkeypatch.setattr(fused, "is_cuda_compute_capability_equal", lambda capability: False)


def kernels(function, *args):
    """The kernels of cuDNN's in a program for a GPU, and whether it has exponentials of its own."""
    text = jax.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    return set(re.findall(r"__cudnn\$fmha(\w+)", text)), "exponential" in text


def loss(*args, **options):
    return attend(*args, **options).astype(jnp.float32).sum()


FORMS = {
    "plain": (attend, arrays(), {"Softmax"}),
    "causal": (lambda *args: attend(*args, is_causal=True), arrays(), {"Softmax"}),
    "a mask": (attend, [*arrays(), SEEN], {"ScaleBiasSoftmax"}),
    "a scale that varies": (
        lambda *args: attend(*args[:3], scale=args[3]), [*arrays(), jnp.float32(0.2)], {"Softmax"}
    ),
    "gradients": (
        jax.grad(loss, (0, 1, 2)), arrays(), {"Softmax", "SoftmaxBackward"}
    ),
    "gradients with a mask": (
        jax.grad(loss, (0, 1, 2)), [*arrays(), SEEN],
        {"ScaleBiasSoftmax", "ScaleBiasSoftmaxBackward"},
    ),
    "vmap": (jax.vmap(attend), arrays((3, *SHAPE)), {"Softmax"}),
    "more batches": (attend, arrays((3, *SHAPE)), {"Softmax"}),
    "no batch": (attend, arrays(SHAPE[1:]), {"Softmax"}),
    "shared heads": (attend, [*arrays()[:1], *arrays((1, 4, 64, 32))[1:]], {"Softmax"}),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_programs_for_gpus_call_cudnn_and_those_for_cpus_do_not(form, a_gpu):
    function, args, expected = FORMS[form]
    assert kernels(function, *args) == (expected, False)
    on_cpu = jax.jit(function)
    lowered = on_cpu.trace(*args).lower(lowering_platforms=("cpu",))
    assert "cudnn" not in lowered.as_text()
    args = jax.device_put(args, jax.devices("cpu")[0])
    found = on_cpu(*args)
    with sdpa_kernel(SDPBackend.MATH):
        expected = jax.jit(function)(*args)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_choice_is_part_of_a_program(a_gpu):
    args = arrays()
    with sdpa_kernel(SDPBackend.MATH):
        assert kernels(attend, *args) == (set(), True)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert kernels(attend, *args) == ({"Softmax"}, False)


ODD = jnp.ones((63, 64), bool)
REFUSED = {
    "single precision": (arrays(dtype=jnp.float32), None, None, False),
    "an odd head": (arrays((2, 4, 64, 12)), None, None, False),
    "a large head": (arrays((1, 1, 8, 136)), None, None, False),
    "numbers to add": (arrays(), jnp.zeros((64, 64)), None, False),
    "odd lengths with a mask": ([arrays((2, 4, 63, 32))[0], *arrays()[1:]], ODD, None, False),
    "causal, of two lengths": ([arrays((2, 4, 62, 32))[0], *arrays()[1:]], None, None, True),
    "dropout": (arrays(), None, SEEN, False),
    "no heads": (arrays((64, 32)), None, None, False),
    "nothing": (arrays((0, 4, 64, 32)), None, None, False),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cudnn_cannot_do_is_xlas(case, a_gpu):
    given, mask, kept, is_causal = REFUSED[case]
    assert fused_attention.takes(*arrays(), None, None, False)
    assert not fused_attention.takes(*given, mask, kept, is_causal)


@pytest.mark.parametrize("capability", [(0, 0), (7, 5)])
def test_older_gpus_and_none_have_xlas(capability, monkeypatch):
    monkeypatch.setattr(fused_attention, "cuda_capability", lambda: capability)
    assert not fused_attention.takes(*arrays(), None, None, False)


def test_what_sdpa_kernel_refuses():
    with pytest.raises(TypeError, match="SDPBackend, got 'x'"), sdpa_kernel("x"):
        pass
    with pytest.raises(ValueError, match="at least one kernel"), sdpa_kernel([]):
        pass


@pytest.mark.skipif(not flambeau.cuda.is_available(), reason="this machine has no GPU")
def test_cudnn_and_xla_agree_on_a_gpu():
    leaves = [
        flambeau.randn(SHAPE, device="cuda", dtype=flambeau.bfloat16, requires_grad=True)
        for _ in range(3)
    ]

    def gradients():
        found = flambeau.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
        return [found.detach(), *flambeau.autograd.grad(found.float().square().sum(), leaves)]

    by_cudnn = gradients()
    with sdpa_kernel(SDPBackend.MATH):
        by_xla = gradients()
    for ours, theirs in zip(by_cudnn, by_xla, strict=True):
        np.testing.assert_allclose(ours.float().cpu(), theirs.float().cpu(), rtol=0.05, atol=0.05)
