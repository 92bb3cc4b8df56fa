"""Private modules of PyTorch's, under the name torch: what is called works, the rest is named."""

import pytest

import flambeau
from flambeau import nn
from flambeau.as_torch.private import (
    _C,
    _custom_ops,
    _dynamo,
    _higher_order_ops,
    _prims_common,
    _tensor_str,
    _utils,
)
from flambeau.as_torch.private._dynamo import _trace_wrapped_higher_order_op as trace_wrapped
from flambeau.as_torch.private._higher_order_ops.associative_scan import associative_scan
from flambeau.as_torch.private._inductor import config as inductor_config
from flambeau.as_torch.private._subclasses import fake_tensor
from flambeau.core.support.format import printoptions
from tests.as_torch.test_installation import run


def test_they_are_there_under_the_name_torch_only():
    out, _ = run(
        "-m",
        "flambeau",
        code="""
        import torch
        print(torch._C._get_tracing_state(), torch._dynamo.config.cache_size_limit)
        import torch._dynamo.exc
        from torch._C import DisableTorchFunctionSubclass
        from torch._dynamo.eval_frame import OptimizedModule
        from torch._subclasses.fake_tensor import is_fake
        from torch._tensor import Tensor
        from torch._tensor_str import PRINT_OPTS
        from torch._jit_internal import _copy_to_script_wrapper
        from torch.multiprocessing.spawn import ProcessRaisedException
        import torch._inductor.config
        import flambeau

        assert Tensor is torch.Tensor is flambeau.Tensor and not is_fake(torch.ones(1))
        assert torch._dynamo.OptimizedModule is OptimizedModule
        assert isinstance(torch.compile(torch.nn.Linear(1, 1)), OptimizedModule)
        assert torch._dynamo.exc.Unsupported is flambeau.CompileError
        assert callable(torch.multiprocessing.spawn)
        assert not hasattr(flambeau, "_C") and not hasattr(flambeau, "_dynamo")
        try:
            torch._C._nothing
        except AttributeError as error:
            print(error)
        """,
    )
    assert out == "None 8\nmodule 'torch._C' has no attribute '_nothing'\n"


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        (("cpu",), {"non_blocking": True}, ("cpu", None, True, None)),
        ((flambeau.float16,), {}, (None, flambeau.float16, False, None)),
        (("cpu", flambeau.float64, True), {}, ("cpu", flambeau.float64, True, None)),
        ((flambeau.ones(1),), {}, ("cpu", flambeau.float32, False, None)),
        (
            (),
            {"device": "cpu", "memory_format": flambeau.channels_last},
            ("cpu", None, False, flambeau.channels_last),
        ),
    ],
)
def test_arguments_of_to_are_understood(args, kwargs, expected):
    where, *rest = _C._nn._parse_to(*args, **kwargs)
    assert [None if where is None else str(where), *rest] == list(expected)


def test_a_transformation_is_noticed():
    seen = []

    def function(x):
        seen.append(_C._are_functorch_transforms_active())
        return x

    flambeau.func.vmap(function)(flambeau.ones(2))
    assert seen == [True]
    assert not _C._are_functorch_transforms_active()


def test_autocast_is_excluded_by_its_key():
    keys = _C.DispatchKeySet(_C.DispatchKey.AutocastCPU) | _C.DispatchKeySet(_C.DispatchKey.CUDA)
    assert keys.has(_C.DispatchKey.CUDA)
    x = flambeau.ones(2, 2)
    with flambeau.autocast("cpu"):
        assert (x @ x).dtype is flambeau.bfloat16
        with _C._ExcludeDispatchKeyGuard(keys):
            assert (x @ x).dtype is flambeau.float32
        with _C._ExcludeDispatchKeyGuard(keys.remove(_C.DispatchKey.AutocastCPU)):
            assert (x @ x).dtype is flambeau.bfloat16


def test_what_pytorch_asks_of_itself():
    assert _C._get_tracing_state() is None
    assert _C._log_api_usage_once("name") is None
    assert _C._get_accelerator().type in ("cpu", "cuda", "tpu")
    assert _C._get_default_device() == "cpu"
    assert not _C._jit_set_profiling_executor(False)
    assert not _C._is_tracing()
    assert not _C._cuda_isInBadFork()


def test_hints_for_tensors_and_functions_change_nothing():
    x = flambeau.ones(2)
    for mark in (_dynamo.mark_dynamic, _dynamo.maybe_mark_dynamic, _dynamo.mark_static):
        assert mark(x, 0) is None
    _dynamo.mark_static_address(x)
    _dynamo.graph_break()
    for hint in (_dynamo.disallow_in_graph, _dynamo.nonstrict_trace, _dynamo.disable, _dynamo.run):
        assert hint(len) is len
    assert _dynamo.utils.is_compile_supported("cuda")
    assert _dynamo.optimize("inductor")(lambda x: x * 2)(x).tolist() == [2, 2]
    with trace_wrapped.TransformGetItemToIndex():
        found = flambeau.func.vmap(lambda i: x[i])(flambeau.tensor([1, 0]))
    assert found.tolist() == [1, 1]


def test_a_compiled_module_is_told_from_others():
    net = nn.Linear(2, 2)
    compiled = flambeau.compile(net)
    assert isinstance(compiled, _dynamo.OptimizedModule)
    assert compiled._orig_mod is net
    assert not isinstance(net, _dynamo.OptimizedModule)


def test_settings_are_kept_and_put_back():
    config = _dynamo.config
    with config.patch(cache_size_limit=64), config.patch("verbose", True):
        assert (config.cache_size_limit, config.verbose) == (64, True)
    assert (config.cache_size_limit, config.verbose) == (8, False)

    @inductor_config.patch({"max_autotune": True, "of_another_version": 1})
    def read():
        return inductor_config.max_autotune, inductor_config.of_another_version

    assert read() == (True, 1)
    assert not inductor_config.max_autotune
    assert not hasattr(inductor_config, "of_another_version")


def test_tensors_without_elements_are_on_the_meta_device():
    with pytest.raises(NotImplementedError, match=r'flambeau\.device\("meta"\)'):
        fake_tensor.FakeTensorMode()
    with flambeau.device("meta"):
        assert not fake_tensor.is_fake(flambeau.ones(2))


def test_kinds_of_dtypes_are_told_apart():
    kinds = [
        _prims_common.is_boolean_dtype, _prims_common.is_integer_dtype,
        _prims_common.is_float_dtype, _prims_common.is_complex_dtype,
    ]  # fmt: skip
    some = [flambeau.bool, flambeau.uint8, flambeau.float16, flambeau.complex64]
    assert [[each for each in some if kind(each)] for kind in kinds] == [[each] for each in some]
    assert _prims_common.is_contiguous_or_false(flambeau.ones(2))
    assert _prims_common.alert_not_deterministic("name") is None
    assert _custom_ops.get_ctx is flambeau.library.get_ctx


def test_private_names_that_packages_import():
    from flambeau.distributions import transforms
    from flambeau.nn.attention.flex_attention import _DEFAULT_SPARSE_BLOCK_SIZE
    from flambeau.nn.modules.transformer import _get_activation_fn

    assert isinstance(transforms.ExpTransform().inv, transforms._InverseTransform)
    assert _get_activation_fn("gelu") is nn.functional.gelu
    with pytest.raises(RuntimeError, match="'relu' or 'gelu'"):
        _get_activation_fn("tanh")
    assert _DEFAULT_SPARSE_BLOCK_SIZE == 128


def test_a_class_writes_the_parts_of_a_tensor_s_text():
    x = flambeau.tensor([[1.0, 2.5], [3.0, 4.0]], requires_grad=True)
    inner = _tensor_str._tensor_str(x, 7)
    assert _tensor_str._add_suffixes(f"tensor({inner}", ["requires_grad=True"], 7, False) == repr(x)
    assert _tensor_str._add_suffixes("Own(1", ["dtype=int"], 4, True) == "Own(1,\n    dtype=int)"
    with printoptions(threshold=5):
        assert _tensor_str.PRINT_OPTS.threshold == 5


def test_the_class_of_the_class_of_tensors():
    assert isinstance(flambeau.Tensor, _C._TensorMeta)


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_gives_all_prefixes_and_their_gradients(length, reverse):
    factors = flambeau.linspace(0.5, 1.5, 2 * length).reshape(2, length)
    values = flambeau.arange(2.0 * length).reshape(2, length).requires_grad_()

    def after(one, other):
        return one[0] * other[0], other[0] * one[1] + other[1]

    _, found = associative_scan(after, (factors, values), 1, reverse=reverse)
    order = range(length)[::-1] if reverse else range(length)
    state, expected = flambeau.zeros(2), [flambeau.zeros(2)] * length
    for each in order:
        state = expected[each] = factors[:, each] * state + values[:, each]
    flambeau.testing.assert_close(found, flambeau.stack(expected, 1))
    gradients = [
        flambeau.autograd.grad(each.square().sum(), values)[0]
        for each in (found, flambeau.stack(expected, 1))
    ]
    flambeau.testing.assert_close(*gradients)


def test_associative_scan_combines_elements_with_dimensions():
    matrices = flambeau.linspace(-1, 1, 3 * 2 * 2).reshape(3, 2, 2)
    found = associative_scan(lambda one, other: {"m": one["m"] @ other["m"]}, {"m": matrices}, 0)
    first, second, third = matrices
    flambeau.testing.assert_close(found["m"][2], first @ second @ third)
    with pytest.raises(ValueError, match="combine_mode must be"):
        associative_scan(lambda one, other: one, matrices, 0, combine_mode="other")
    with pytest.raises(ValueError, match="at least one tensor"):
        associative_scan(lambda one, other: one, (), 0)


def test_tensors_are_laid_into_one_vector_and_taken_from_it():
    tensors = [flambeau.arange(6.0).reshape(2, 3), flambeau.tensor(7.0), flambeau.ones(1)]
    flat = _utils._flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 7, 1]
    parts = _utils._unflatten_dense_tensors(flat * 2, tensors)
    assert [part.shape for part in parts] == [each.shape for each in tensors]
    assert flambeau.equal(parts[0], tensors[0] * 2)


def test_tensors_are_taken_by_type_and_size():
    tensors = [flambeau.ones(2), flambeau.arange(3), flambeau.zeros(2), flambeau.ones(1)]
    lists = [*_utils._take_tensors(tensors, 16)]
    assert [[id(each) for each in found] for found in lists] == [
        [id(tensors[1])],  # 24 bytes
        [id(tensors[0]), id(tensors[2])],
        [id(tensors[3])],
    ]


def test_choices_and_loops_are_there_by_pytorchs_private_name():
    assert _higher_order_ops.cond is flambeau.cond
    assert _higher_order_ops.while_loop is flambeau.while_loop
    assert _higher_order_ops.scan.__module__ == _higher_order_ops.map.__module__
