"""Private and rare names of PyTorch that packages read, most of them at import only."""

import warnings

import pytest

import flambeau
from flambeau import nn
from flambeau.as_torch.private import _C, _functorch, _utils
from flambeau.as_torch.private._dynamo.utils import warn_once
from flambeau.as_torch.private._higher_order_ops import out_dtype
from flambeau.cuda import nvtx
from flambeau.distributed import fsdp
from flambeau.distributed._tensor.experimental import implicit_replication
from flambeau.distributed.optim import ZeroRedundancyOptimizer
from flambeau.utils import _contextlib, _foreach_utils, _python_dispatch, checkpoint
from flambeau.utils.data._utils import pin_memory, worker


def test_types_and_dtypes_can_be_named():
    assert not isinstance(flambeau.ones(1), flambeau.TensorType)
    assert issubclass(flambeau.ListType, flambeau.Type)
    assert repr(flambeau.qint8) == "flambeau.qint8"
    with pytest.raises(TypeError, match="no quantized tensors"):
        flambeau.zeros(1, dtype=flambeau.quint8)
    assert not isinstance(flambeau.ones(1), flambeau.cuda.FloatTensor)
    assert repr(flambeau.cuda.FloatTensor) == "<class 'flambeau.cuda.FloatTensor'>"
    assert isinstance(nn.ConvTranspose1d(1, 1, 1), nn.modules.conv._ConvTransposeMixin)
    assert not isinstance(nn.Linear(1, 1), flambeau.ao.quantization.ObserverBase)


def test_groups_of_processes_are_asked_for_before_they_exist():
    module = flambeau.distributed.distributed_c10d
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        module._get_default_group()


def test_fully_sharded_data_parallel_refuses_policies():
    with pytest.raises(NotImplementedError, match="leave out mixed_precision"):
        fsdp.FullyShardedDataParallel(nn.Linear(1, 1), mixed_precision=fsdp.MixedPrecision())
    with pytest.raises(NotImplementedError, match="cpu_offload"):
        fsdp.FullyShardedDataParallel(nn.Linear(1, 1), cpu_offload=fsdp.CPUOffload(True))


def test_parameters_on_cpus_are_offloaded_as_they_are():
    mesh = flambeau.distributed.init_device_mesh("cpu", (1,))
    layer = nn.Linear(2, 2)
    fsdp.fully_shard(layer, mesh=mesh, offload_policy=fsdp.CPUOffloadPolicy())
    assert isinstance(layer, fsdp.FSDPModule)
    assert layer(flambeau.ones(1, 2)).shape == (1, 2)


def test_a_selectively_checkpointed_layer_has_its_gradients():
    layer = nn.Linear(2, 2)
    x = flambeau.ones(1, 2)

    def contexts():
        return checkpoint.create_selective_checkpoint_contexts(
            lambda ctx, op: checkpoint.CheckpointPolicy.MUST_SAVE
        )

    checkpoint.checkpoint(layer, x, context_fn=contexts, use_reentrant=False).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_flag_says_whether_gpus_are_initialized():
    assert flambeau.cuda._initialized is flambeau.cuda.is_initialized()


def test_spans_of_nvtx_are_counted():
    assert [nvtx.range_push("a"), nvtx.range_push("b")] == [0, 1]
    assert [nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()] == [1, 0, -1]
    with nvtx.range("{}", 3):
        nvtx.mark("here")


def test_tensors_are_grouped_by_dtype():
    first, second = flambeau.ones(1), flambeau.ones(1, dtype=flambeau.int64)
    groups = _foreach_utils._group_tensors_by_device_and_dtype(
        [[first, second], [None, second]], with_indices=True
    )
    (lists, places), (others, other_places) = groups.values()
    assert lists[0][0] is first
    assert lists[1] == [None]
    assert others[1][0] is second
    assert (places, other_places) == ([0], [1])


def test_decorators_and_warnings():
    class one(_contextlib._NoParamDecoratorContextManager):
        def __enter__(self):
            entered.append(1)

        def __exit__(self, *exception):
            pass

    entered = []
    assert one(lambda: 2)() == 2
    assert _contextlib.context_decorator(one, lambda: 3)() == 3
    assert entered == [1, 1]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            warn_once("once in a test of private names")
    assert len(heard) == 1


def test_loaders_and_operators():
    # The words of NumPy's SeedSequence.
    assert worker._generate_state(0, 0) == [2968811710, 3677149159, 745650761, 2884920346]
    found = pin_memory.pin_memory({"a": [flambeau.ones(1), "text"]})
    assert found["a"][1] == "text"
    product = out_dtype(
        flambeau.mm, flambeau.int32, *[flambeau.ones(1, 1, dtype=flambeau.int8)] * 2
    )
    assert product.dtype is flambeau.int32


def test_names_that_do_nothing_say_so_when_called():
    assert not _C._functorch.is_batchedtensor(flambeau.ones(1))
    with pytest.raises(NotImplementedError, match=r"func\.vmap"):
        _C._functorch._add_batch_dim(flambeau.ones(1), 0, 1)
    with pytest.raises(NotImplementedError, match=r"func\.vmap"):
        _functorch.vmap._maybe_remove_batch_dim("f", flambeau.ones(1), 1, 1, 0)
    assert _functorch.vmap._get_name(len) == "len"
    with pytest.raises(NotImplementedError, match="__torch_function__"):
        _python_dispatch.return_and_correct_aliasing(None, (), {}, None)


def test_views_and_open_modes_are_told():
    x = flambeau.ones(2)
    assert _C._is_alias_of(x, x[:1])
    assert not _C._is_alias_of(x, flambeau.ones(2))
    assert not _C._is_torch_function_mode_enabled()
    with flambeau.overrides.BaseTorchFunctionMode():
        assert _C._is_torch_function_mode_enabled()


def test_the_module_of_a_device_is_found_by_its_name():
    assert _utils._get_device_module("cpu") is flambeau.cpu


def test_formulas_of_divergences_are_found_by_their_classes():
    normal = flambeau.distributions.Normal
    assert (normal, normal) in flambeau.distributions.kl._KL_REGISTRY


def test_a_plain_tensor_beside_one_on_a_mesh_needs_no_leave():
    with implicit_replication():
        assert flambeau.ones(1).item() == 1


def test_settings_of_state_dicts_can_be_made():
    settings = fsdp.fully_sharded_data_parallel.StateDictSettings(
        fsdp.StateDictType.FULL_STATE_DICT,
        fsdp.FullStateDictConfig(rank0_only=True),
        fsdp.FullOptimStateDictConfig(),
    )
    assert settings.optim_state_dict_config.offload_to_cpu
    assert not settings.state_dict_config.offload_to_cpu


def test_what_is_absent_says_so_when_called():
    layer = nn.Linear(1, 1)
    with pytest.raises(NotImplementedError, match="fully_shard"):
        ZeroRedundancyOptimizer(layer.parameters())
    with pytest.raises(NotImplementedError, match="symbolic_trace"):
        flambeau.jit._get_trace_graph(layer, (flambeau.ones(1),))
