"""What scripts ask about accelerators, on machines without and with one."""

import time
import types
from importlib import import_module

import pytest

import flambeau
from flambeau.core.devices.device import available_devices

GPUS = sum(name.startswith("cuda") for name in available_devices())
without = pytest.mark.skipif(GPUS > 0, reason="this machine has a GPU")
needs_gpu = pytest.mark.skipif(not GPUS, reason="this machine has no GPU")


def test_the_count_is_that_of_the_devices():
    assert flambeau.cuda.device_count() == GPUS
    assert flambeau.cuda.is_available() == flambeau.cuda.is_initialized() == (GPUS > 0)
    assert flambeau.cuda.is_bf16_supported() == flambeau.backends.cuda.is_built() == (GPUS > 0)
    assert flambeau.backends.cudnn.is_available() == (GPUS > 0)
    assert not flambeau.backends.mps.is_available()


def test_what_every_script_calls_works_without_a_gpu_too():
    flambeau.cuda.manual_seed(0)
    flambeau.cuda.manual_seed_all(0)
    flambeau.cuda.seed()
    flambeau.cuda.seed_all()
    flambeau.cuda.empty_cache()
    flambeau.cuda.ipc_collect()
    flambeau.accelerator.empty_cache()
    flambeau.cuda.set_rng_state_all(flambeau.cuda.get_rng_state_all())
    assert flambeau.cuda.memory_allocated() >= 0
    assert flambeau.cuda.max_memory_allocated() >= 0


@pytest.mark.parametrize("name", ["xpu", "mps", "mtia"])
def test_other_devices_are_not_available(name):
    module = getattr(flambeau, name)
    assert not module.is_available()
    assert module.device_count() == 0
    module.manual_seed(0)
    if name != "mps":
        module.manual_seed_all(0)
        assert not module.is_initialized()
    with pytest.raises(AttributeError, match="devices are JAX's"):
        _ = module.synchronize


def test_streams_of_a_device_are_one():
    stream, other = flambeau.Stream("cpu"), flambeau.Stream("cpu", priority=-1)
    assert stream == other
    assert (hash(stream), stream.stream_id, stream.device_index) == (hash(other), 0, 0)
    x = flambeau.ones(2)
    with stream as entered:
        assert entered is stream
        x.record_stream(stream)
    stream.wait_stream(other)
    stream.wait_event(other.record_event())
    stream.synchronize()
    assert stream.query()
    assert not stream.is_capturing()
    assert repr(stream) == "<Stream device=cpu>"
    with flambeau.cuda.stream(None), flambeau.cuda.StreamContext(stream):
        assert not flambeau.cuda.is_current_stream_capturing()


def test_events_measure_the_time_between_them():
    begin, end = (flambeau.Event("cpu", enable_timing=True) for _ in range(2))
    assert begin.query()
    begin.record()
    time.sleep(0.02)
    flambeau.Stream("cpu").record_event(end)
    end.synchronize()
    assert end.query()
    assert 10 < begin.elapsed_time(end) < 2000
    begin.wait()
    begin.record()
    assert begin.elapsed_time(end) < 0


def test_events_that_cannot_tell_the_time_say_so():
    event = flambeau.Event("cpu", enable_timing=True)
    with pytest.raises(ValueError, match="enable_timing=True"):
        event.elapsed_time(flambeau.Event("cpu"))
    with pytest.raises(ValueError, match="be recorded"):
        event.elapsed_time(event)


def test_events_are_recorded_outside_of_compiled_functions():
    event = flambeau.Event("cpu")

    def function(x):
        event.record()
        return x * 2

    with pytest.raises(flambeau.CompileError, match="no streams and no events"):
        flambeau.compile(function, fullgraph=True)(flambeau.ones(2))
    assert flambeau.func.vmap(function)(flambeau.ones(2)).tolist() == [2, 2]
    assert event.query() is True


def test_graphs_of_cuda_are_compiled_functions():
    for make in (flambeau.cuda.CUDAGraph, lambda: flambeau.cuda.graph(None)):
        with pytest.raises(RuntimeError, match=r"flambeau\.compile"):
            make()
    x = flambeau.ones(1, 2)
    net = flambeau.nn.Linear(2, 2)
    expected = net(x)
    module, double = flambeau.cuda.make_graphed_callables((net, lambda x: x * 2), ((x,), (x,)))
    assert module is net
    assert flambeau.allclose(net(x), expected)
    assert double(x).tolist() == [[2, 2]]
    assert double.program_count == 1


@needs_gpu
def test_streams_and_events_of_a_gpu():
    stream = flambeau.cuda.current_stream()
    assert stream == flambeau.cuda.default_stream(0) == flambeau.accelerator.current_stream()
    flambeau.cuda.set_stream(stream)
    begin, end = (flambeau.cuda.Event(enable_timing=True) for _ in range(2))
    x = flambeau.ones(4000, 4000, device="cuda")
    begin.record()
    y = x @ x @ x
    end.record(stream)
    assert begin.elapsed_time(end) > 0
    assert y.jax().is_ready()
    stream.synchronize()
    # Other processes may use the GPU as well.
    assert any(stream.query() for _ in range(1000))


@without
def test_streams_of_a_gpu_need_one():
    makes = [
        flambeau.cuda.Stream, flambeau.cuda.Event, flambeau.cuda.current_stream,
        flambeau.accelerator.current_stream,
    ]  # fmt: skip
    for make in makes:
        with pytest.raises(RuntimeError):
            make()


@without
@pytest.mark.parametrize(
    "name", ["current_device", "init", "synchronize", "get_device_name", "mem_get_info",
             "get_device_capability", "get_device_properties", "get_rng_state"]
)  # fmt: skip
def test_asking_for_a_gpu_that_is_not_there_says_so(name):
    with pytest.raises(RuntimeError, match="'cuda' is not available"):
        getattr(flambeau.cuda, name)()


@without
def test_there_is_no_accelerator():
    if len({name.partition(":")[0] for name in available_devices()}) > 1:
        pytest.skip("this machine has another accelerator")
    assert flambeau.accelerator.current_accelerator() is None
    assert not flambeau.accelerator.is_available()
    assert flambeau.accelerator.device_count() == 0
    for name in ("synchronize", "current_device_index", "memory_allocated", "get_memory_info",
                 "max_memory_allocated"):  # fmt: skip
        with pytest.raises(RuntimeError, match="no accelerator"):
            getattr(flambeau.accelerator, name)()
    with pytest.raises(RuntimeError, match="no accelerator"):
        flambeau.accelerator.set_device_index(0)
    flambeau.accelerator.set_device_index(-1)
    with flambeau.accelerator.device_index(None):
        assert flambeau.ones(1).device.type == "cpu"


def test_an_accelerator_is_asked_by_index_or_device(monkeypatch):
    accelerator = flambeau.accelerator
    stats = {"bytes_in_use": 3, "peak_bytes_in_use": 5, "bytes_limit": 10}
    gpu = types.SimpleNamespace(memory_stats=lambda: stats)
    monkeypatch.setattr(accelerator, "current_accelerator", lambda: flambeau.device("cuda"))
    monkeypatch.setattr(flambeau.device, "jax_device", gpu)
    for place in (None, 0, "cuda", "cuda:1", flambeau.device("cuda", 0)):
        assert accelerator.memory_allocated(place) == 3
        assert accelerator.max_memory_allocated(place) == 5
        assert accelerator.get_memory_info(place) == (7, 10)
    with pytest.raises(ValueError, match="accelerator of this machine is cuda, got 'cpu'"):
        accelerator.memory_allocated("cpu")
    for first in (0, "cuda:0"):
        accelerator.set_device_index(first)
    with accelerator.device_index(0):
        pass
    with pytest.raises(RuntimeError, match="name 'cuda:1' explicitly"):
        accelerator.device_index(1).__enter__()
    for unclear in (None, "cuda"):
        with pytest.raises(ValueError, match=f"a device with one, got {unclear}"):
            accelerator.set_device_index(unclear)


def test_another_gpu_cannot_be_made_the_current_one():
    with pytest.raises(RuntimeError, match="CUDA_VISIBLE_DEVICES"):
        flambeau.cuda.set_device(1)
    with pytest.raises(ValueError, match="expected a cuda device, got 'cpu'"):
        flambeau.cuda.set_device("cpu")
    with pytest.raises(RuntimeError, match="name 'cuda:1' explicitly"):  # noqa: SIM117
        with flambeau.cuda.device(1):
            pass


def test_no_gpu_may_be_chosen_anywhere():
    flambeau.cuda.set_device(-1)
    for nothing in (-1, None):
        with flambeau.cuda.device(nothing):
            assert flambeau.ones(1).device.type == "cpu"


@without
def test_a_gpu_that_is_not_there_cannot_be_chosen():
    with pytest.raises(RuntimeError, match="'cuda:0' is not available"):  # noqa: SIM117
        with flambeau.cuda.device(0):
            pass


@needs_gpu
def test_the_first_gpu_may_be_chosen():
    with flambeau.cuda.device(0), flambeau.cuda.device("cuda"):
        assert flambeau.ones(1, device="cuda").is_cuda


@needs_gpu
def test_a_gpu_tells_about_itself():
    flambeau.cuda.synchronize()
    flambeau.accelerator.synchronize()
    assert flambeau.accelerator.current_accelerator() == flambeau.device("cuda")
    assert flambeau.cuda.current_device() == flambeau.accelerator.current_device_index() == 0
    properties = flambeau.cuda.get_device_properties(0)
    assert properties.name == flambeau.cuda.get_device_name()
    assert (properties.major, properties.minor) == flambeau.cuda.get_device_capability()
    assert properties.multi_processor_count > 0
    free, total = flambeau.cuda.mem_get_info()
    assert 0 < free <= total == properties.total_memory
    before = flambeau.cuda.memory_allocated()
    kept = flambeau.ones(1024, 1024, device="cuda")
    assert flambeau.cuda.memory_allocated() >= before + kept.numel() * 4


def test_what_jax_says_of_a_gpu_has_pytorchs_names(monkeypatch):
    facts = {"device_kind": "A GPU", "compute_capability": "12.1", "core_count": 48}
    gpu = types.SimpleNamespace(**facts, memory_stats=lambda: {"bytes_limit": 7})
    monkeypatch.setattr(flambeau.cuda.devices, "jax_device", lambda where: gpu)
    monkeypatch.setattr(flambeau.cuda.devices, "is_available", lambda: True)
    assert flambeau.cuda.get_device_capability() == (12, 1)
    assert vars(flambeau.cuda.get_device_properties()) == {
        "name": "A GPU", "major": 12, "minor": 1, "total_memory": 7, "multi_processor_count": 48,
    }  # fmt: skip
    assert flambeau.cuda.is_tf32_supported()
    gpu.compute_capability = "7.5"
    assert not flambeau.cuda.is_tf32_supported()


def test_modules_of_cuda_are_where_pytorch_has_them():
    assert flambeau.cuda.random.manual_seed_all is flambeau.cuda.manual_seed_all
    assert flambeau.cuda.memory.memory_allocated is flambeau.cuda.memory_allocated
    assert import_module("flambeau.cuda.nvtx") is flambeau.cuda.nvtx
    amp = flambeau.cuda.amp
    assert import_module("flambeau.cuda.amp.grad_scaler").GradScaler is amp.GradScaler
    assert amp.autocast_mode.autocast is amp.autocast
    assert amp.common.amp_definitely_not_available() == (GPUS == 0)
    with pytest.raises(ModuleNotFoundError, match=r"cuda\.nccl': one process may own several"):
        import_module("flambeau.cuda.nccl")


def deprecated(name):
    return pytest.warns(FutureWarning, match=rf"cuda\.amp\.{name}\(\) is deprecated; use .*cuda")


@pytest.mark.filterwarnings("ignore:(autocast|GradScaler) does nothing:UserWarning")
def test_older_names_of_mixed_precision_are_those_of_amp_and_warn():
    from flambeau.cuda import amp

    with deprecated("autocast"):
        lower = amp.autocast(dtype=flambeau.bfloat16)
    assert isinstance(lower, flambeau.autocast)
    assert (lower.device, lower.fast_dtype) == ("cuda", flambeau.bfloat16)
    # As a decorator it warns once.
    assert lower(lambda: flambeau.ones(2))().dtype is flambeau.float32
    with deprecated("autocast"):
        assert not amp.autocast(False).enabled
    with deprecated("GradScaler"):
        scaler = amp.GradScaler(8.0, growth_interval=3)
    assert isinstance(scaler, flambeau.GradScaler)
    assert scaler.get_scale() == (8.0 if GPUS else 1.0)


def test_a_function_of_ones_own_may_have_the_older_decorators():
    from flambeau.cuda import amp

    with deprecated("custom_fwd"):
        forward = amp.custom_fwd(lambda ctx, x: 2 * x, cast_inputs=flambeau.float32)
    with deprecated("custom_bwd"):
        backward = amp.custom_bwd(lambda ctx, gradient: 2 * gradient)

    class Double(flambeau.autograd.Function):
        pass

    Double.forward, Double.backward = staticmethod(forward), staticmethod(backward)
    x = flambeau.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


@needs_gpu
def test_a_seed_of_the_gpus_repeats_their_numbers():
    flambeau.cuda.manual_seed_all(3)
    first = flambeau.rand(4, device="cuda")
    flambeau.cuda.manual_seed(3)
    assert flambeau.equal(first, flambeau.rand(4, device="cuda"))
    assert flambeau.cuda.initial_seed() == 3


def test_torchscript_is_never_there():
    assert not flambeau.jit.is_scripting()
    assert not flambeau.jit.is_tracing()

    def double(x):
        return 2 * x

    assert flambeau.jit.ignore(double) is flambeau.jit.unused(double) is double
    assert flambeau.jit.ignore(drop=True)(double) is flambeau.jit.export(double) is double
    assert flambeau.jit.script(double) is flambeau.jit.script_if_tracing(double) is double
    assert flambeau.jit.annotate(int, 3) == 3


def test_a_function_knows_that_it_is_compiled():
    @flambeau.compile
    def traced(x):
        return x + flambeau.compiler.is_compiling() + flambeau.compiler.is_dynamo_compiling()

    assert traced(flambeau.zeros(())).item() == 2
    assert not flambeau.compiler.is_compiling()
    assert not flambeau.compiler.is_exporting()


def test_the_cpu_is_asked_as_a_gpu_is():
    cpu = flambeau.cpu
    assert cpu.is_available()
    assert cpu.is_initialized()
    assert (cpu.device_count(), cpu.current_device()) == (1, "cpu")
    cpu.set_device(3)
    cpu.synchronize()
    stream, event = cpu.current_stream(), cpu.Event()
    with cpu.stream(cpu.Stream()) as nothing:
        event.record(stream)
        stream.wait_event(event)
        stream.wait_stream(cpu.Stream())
    event.wait()
    event.synchronize()
    assert nothing is None
    assert event.query()
    assert cpu.current_stream() is stream


def test_a_device_has_a_module():
    here = flambeau.cuda if GPUS else flambeau.cpu
    assert flambeau.get_device_module() is here
    assert flambeau.get_device_module(flambeau.device("cuda", 1)) is flambeau.cuda
    assert flambeau.get_device_module("cpu") is flambeau.cpu
    for other in ("meta", "tpu"):
        with pytest.raises(RuntimeError, match=f"no module for {other} devices"):
            flambeau.get_device_module(other)
    with pytest.raises(RuntimeError, match="takes a device or its name, got int"):
        flambeau.get_device_module(3)


def test_the_second_way_of_attention_is_remembered_and_does_nothing():
    mha = flambeau.backends.mha
    assert mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    assert not mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(True)
