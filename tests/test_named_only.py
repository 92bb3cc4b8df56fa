"""Rooms of PyTorch's that are only named: they can be imported, and say at their use what to do."""

import pytest

import flambeau
from flambeau import compiler, masked, nested
from flambeau.nn.attention import bias
from flambeau.utils import collect_env, cpp_extension, deterministic


@pytest.mark.parametrize(
    "call",
    [
        lambda: masked.masked_tensor(1, 2),
        lambda: masked.as_masked_tensor(1, 2),
        lambda: masked.MaskedTensor(1, 2),
        lambda: nested.nested_tensor([]),
        lambda: nested.as_nested_tensor([]),
        lambda: nested.nested_tensor_from_jagged(1),
        lambda: nested.narrow(1, 0, 0, 1),
        lambda: nested.to_padded_tensor(1, 0),
        lambda: cpp_extension.load("a", ["a.cpp"]),
        lambda: cpp_extension.load_inline("a", "int one();"),
        lambda: cpp_extension.CppExtension("a", ["a.cpp"]),
        lambda: cpp_extension.CUDAExtension("a", ["a.cu"]),
        lambda: cpp_extension.SyclExtension("a", ["a.sycl"]),
        lambda: cpp_extension.BuildExtension.with_options(use_ninja=False)(),
    ],
)
def test_a_use_is_an_error_that_says_what_to_do(call):
    with pytest.raises(NotImplementedError, match="flambeau"):
        call()


def test_questions_have_answers():
    assert not masked.is_masked_tensor(flambeau.ones(1))
    assert cpp_extension.CUDA_HOME is None
    assert cpp_extension.include_paths() == cpp_extension.library_paths() == []
    assert isinstance(cpp_extension.is_ninja_available(), bool)
    assert deterministic.fill_uninitialized_memory
    assert "jax" in collect_env.get_pretty_env_info()
    flambeau.set_warn_always(True)
    assert flambeau.is_warn_always_enabled()
    flambeau.set_warn_always(False)
    with compiler.set_stance("force_eager"):
        assert flambeau.compile(lambda x: x * 2)(flambeau.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="stance"):
        compiler.set_stance("sideways")


@pytest.mark.parametrize(("make", "last"), [("upper_left", 0), ("lower_right", 2)])
def test_a_causal_bias_is_a_mask(make, last):
    q, k = flambeau.randn(1, 2, 3, 4), flambeau.randn(1, 2, 5, 4)
    found = getattr(bias, f"causal_{make}")(3, 5)
    assert isinstance(found, bias.CausalBias)
    assert (found.seq_len_q, found.seq_len_kv) == (3, 5)
    mask = flambeau.ones(3, 5, dtype=flambeau.bool).tril(last)
    attention = flambeau.nn.functional.scaled_dot_product_attention
    assert flambeau.equal(attention(q, k, k, attn_mask=found), attention(q, k, k, attn_mask=mask))


def test_a_causal_bias_without_keys_for_all_queries_warns():
    with pytest.warns(UserWarning, match="NaNs"):
        bias.causal_lower_right(3, 2)
    with pytest.raises(RuntimeError, match="queries and keys"):
        bias.causal_upper_left(3)
    with pytest.raises(TypeError, match="CausalVariant"):
        bias.CausalBias(1, 2, 3)
