"""Devices: names, defaults, and what is said of absent ones."""

import copy
import pickle
import threading

import pytest

import flambeau


@pytest.mark.parametrize(
    ("arguments", "type", "index", "text"),
    [
        (("cpu",), "cpu", None, "cpu"),
        (("cuda:1",), "cuda", 1, "cuda:1"),
        (("cuda", 2), "cuda", 2, "cuda:2"),
        ((3,), "cuda", 3, "cuda:3"),
        (("meta",), "meta", None, "meta"),
        ((flambeau.device("tpu:0"),), "tpu", 0, "tpu:0"),
    ],
)
def test_names(arguments, type, index, text):
    device = flambeau.device(*arguments)
    assert (device.type, device.index, str(device)) == (type, index, text)
    assert pickle.loads(pickle.dumps(device)) == device == copy.deepcopy(device)
    assert hash(device) == hash(flambeau.device(text))


def test_repr_is_pytorchs():
    assert repr(flambeau.device("cuda:1")) == "device(type='cuda', index=1)"
    assert repr(flambeau.device("cpu")) == "device(type='cpu')"


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("gpu",), RuntimeError, "cuda.*start of device string: 'gpu'"),
        (("cuda:one",), RuntimeError, "cuda:one"),
        (("cuda:1", 0), RuntimeError, "twice"),
        (("cuda", -1), RuntimeError, "-1"),
        ((1.5,), TypeError, "float"),
    ],
)
def test_bad_names(arguments, error, match):
    with pytest.raises(error, match=match):
        flambeau.device(*arguments)


@pytest.mark.parametrize("name", ["mps", "xpu", "hpu", "xla", "mtia"])
def test_pytorchs_other_devices_have_names_only(name):
    where = flambeau.device(name, 1)
    assert where == flambeau.device(f"{name}:1") != flambeau.device("cpu")
    for put in (lambda: flambeau.ones(1, device=name), lambda: flambeau.ones(1).to(name)):
        with pytest.raises(RuntimeError, match=f"device '{name}' is not available: this machine"):
            put()
    with pytest.raises(RuntimeError, match="is not available"):
        flambeau.nn.Linear(2, 2).to(name)
    assert not flambeau.is_autocast_enabled(name)
    assert not flambeau.amp.is_autocast_available(name)


def test_absent_device_lists_those_there_are():
    for make in (
        lambda: flambeau.zeros(2, device="tpu:7"),
        lambda: flambeau.zeros(2).to("tpu:7"),
        lambda: flambeau.set_default_device("tpu:7"),
    ):
        with pytest.raises(RuntimeError, match=r"'tpu:7' is not available: this machine has cpu"):
            make()


def test_context_manager_nests_and_ends():
    assert flambeau.zeros(1).device.type == "cpu"
    with flambeau.device("meta"):
        assert flambeau.zeros(1).is_meta
        with flambeau.device("cpu"):
            assert not flambeau.zeros(1).is_meta
        assert flambeau.arange(3).is_meta
        assert not flambeau.zeros(1, device="cpu").is_meta
    assert not flambeau.zeros(1).is_meta


def test_one_device_object_entered_twice():
    meta = flambeau.device("meta")
    with meta, meta:
        pass
    assert not flambeau.zeros(1).is_meta


def test_decorator():
    @flambeau.device("meta")
    def make():
        return flambeau.ones(2)

    assert make().is_meta
    assert not flambeau.ones(2).is_meta


def test_context_belongs_to_its_thread():
    seen = []
    with flambeau.device("meta"):
        thread = threading.Thread(target=lambda: seen.append(flambeau.zeros(1).is_meta))
        thread.start()
        thread.join()
    assert seen == [False]


def test_default_device():
    try:
        flambeau.set_default_device("meta")
        assert flambeau.get_default_device() == flambeau.device("meta")
        assert flambeau.zeros(1).is_meta
    finally:
        flambeau.set_default_device(None)
    assert flambeau.get_default_device() == flambeau.device("cpu")


def test_meta_tensors_have_shape_and_dtype_only():
    x = flambeau.zeros(2, 3, device="meta", dtype=flambeau.float16)
    y = (x @ flambeau.zeros(3, 4, device="meta", dtype=flambeau.float16)).sum(0)
    assert (y.shape, y.dtype, y.device.type) == ((4,), flambeau.float16, "meta")
    with pytest.raises(NotImplementedError, match="meta"):
        y.to("cpu")
    with pytest.raises(RuntimeError, match="meta"):
        y.sum().item()
    with pytest.raises(RuntimeError, match="on the same device, but got meta and cpu"):
        flambeau.add(x, flambeau.zeros(2, 3))


@pytest.mark.parametrize(
    "move", [lambda x: x.to("cuda:7"), lambda x: x + flambeau.ones(2, device="cuda:7")]
)
def test_a_compiled_function_needs_the_devices_that_it_names(move):
    with pytest.raises(RuntimeError, match="'cuda:7' is not available: this machine has cpu"):
        flambeau.compile(move)(flambeau.ones(2))
