"""Classes that files may name, and arrays of NumPy's, which need no permission."""

import argparse
import collections
import dataclasses
import enum
import io
import pickle
import random
import zipfile

import numpy as np
import pytest

import flambeau
from flambeau import nn, serialization
from flambeau.checkpoint import CheckpointError, RefusedContentError


class Settings:
    """Attributes and a tensor."""

    def __init__(self, rate):
        self.rate = rate
        self.weight = flambeau.ones(2)


@dataclasses.dataclass(slots=True)
class Slots:
    name: str


class Phase(enum.Enum):
    TRAIN = 1


class Restored:
    """An object that sets its own state."""

    def __setstate__(self, state):
        self.restored = state["value"]

    def __getstate__(self):
        return {"value": 3}


def build(number):
    return number + 1


class Built:
    def __reduce__(self):
        return build, (1,)


@pytest.fixture(autouse=True)
def _nothing_is_allowed():
    serialization.clear_safe_globals()
    yield
    serialization.clear_safe_globals()


def written(obj):
    file = io.BytesIO()
    flambeau.save(obj, file)
    return io.BytesIO(file.getvalue())


def pickled(payload):
    """A file of PyTorch's with a pickle of one's own."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", payload)
        archive.writestr("archive/version", "3\n")
    return io.BytesIO(file.getvalue())


def test_objects_of_allowed_classes_are_read():
    file = written({"settings": Settings(0.5), "args": argparse.Namespace(lr=1)})
    with pytest.raises(RefusedContentError, match=r"add_safe_globals\(.*Settings"):
        flambeau.load(file)
    file.seek(0)
    with serialization.safe_globals([Settings, argparse.Namespace]):
        found = flambeau.load(file)
        assert len(serialization.get_safe_globals()) == 2
    assert type(found["settings"]) is Settings
    assert (found["settings"].rate, found["settings"].weight.tolist()) == (0.5, [1, 1])
    assert found["args"] == argparse.Namespace(lr=1)
    assert serialization.get_safe_globals() == []
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        flambeau.load(file)


@pytest.mark.parametrize(
    ("obj", "allowed"),
    [(Slots("a"), Slots), (Phase.TRAIN, Phase), (collections.deque([1]), collections.deque)],
)
def test_objects_of_every_make_are_read(obj, allowed):
    if isinstance(obj, collections.deque):
        # Its members are appended to it, which only lists take.
        with serialization.safe_globals([allowed]), pytest.raises(CheckpointError):
            flambeau.load(written(obj))
        return
    with serialization.safe_globals([allowed]):
        assert flambeau.load(written(obj)) == obj


class Network(nn.Module):
    """Layers of several kinds, a buffer and a module's own attribute."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.recurrent = nn.LSTM(2, 2)
        self.others = nn.ModuleList([nn.Dropout(0.1), nn.LayerNorm(2)])
        self.register_buffer("offset", flambeau.ones(2))
        self.rate = 0.5

    def forward(self, x):
        return self.others[1](self.recurrent(self.first(x) + self.offset)[0])


OF_NETWORK = [Network, nn.Linear, nn.LSTM, nn.ModuleList, nn.Dropout, nn.LayerNorm]


def test_a_whole_module_is_read_where_its_classes_are_allowed():
    network = Network()
    network.first.register_forward_hook(build)
    for missing in OF_NETWORK:
        others = [each for each in OF_NETWORK if each is not missing]
        with (
            serialization.safe_globals([*others, build]),
            pytest.raises(RefusedContentError, match=missing.__name__),
        ):
            flambeau.load(written(network))
    with serialization.safe_globals(OF_NETWORK), pytest.raises(RefusedContentError, match="build"):
        flambeau.load(written(network))
    with serialization.safe_globals([*OF_NETWORK, build]):
        found = flambeau.load(written(network))
    assert list(found.first._forward_hooks.values()) == [build]
    for table, value in vars(network.first).items():
        assert type(getattr(found.first, table)) is type(value)
    found.first._forward_hooks.clear()
    network.first._forward_hooks.clear()
    x = flambeau.arange(4.0).reshape(2, 2)
    assert flambeau.equal(found(x), network(x))
    assert found.rate == 0.5


def test_the_tables_of_a_module_hold_only_what_is_allowed():
    for table in (nn.Linear(1, 1)._modules, nn.Linear(1, 1)._forward_hooks):
        table["print"] = print
        with pytest.raises(RefusedContentError, match="print"):
            flambeau.load(written(table))


def test_an_object_sets_its_own_state():
    with serialization.safe_globals([Restored]):
        assert flambeau.load(written(Restored())).restored == 3


def test_functions_may_be_allowed_and_classes_named_otherwise():
    with serialization.safe_globals([build]):
        assert flambeau.load(written(Built())) == 2
    payload = pickle.dumps(argparse.Namespace(lr=1), 2).replace(b"argparse", b"older_module")
    with pytest.raises(RefusedContentError, match=r"needs older_module\.Namespace"):
        flambeau.load(pickled(payload))
    serialization.add_safe_globals([(argparse.Namespace, "older_module.Namespace")])
    assert flambeau.load(pickled(payload)) == argparse.Namespace(lr=1)
    assert serialization.get_safe_globals() == [(argparse.Namespace, "older_module.Namespace")]


def test_only_what_is_named_is_allowed():
    for wrong in ([3], [(Settings,)], [(Settings, 1)]):
        with pytest.raises((TypeError, ValueError)):
            serialization.add_safe_globals(wrong)
    assert serialization.get_safe_globals() == []
    # `build` is called with what Settings is allowed for.
    with serialization.safe_globals([Settings]), pytest.raises(RefusedContentError, match="build"):
        flambeau.load(written({"settings": Settings(1), "built": Built()}))


def test_an_allowed_class_does_not_let_others_be_made():
    payload = b"\x80\x02ccollections\nOrderedDict\n)\x81."
    with pytest.raises(RefusedContentError, match="makes an object"):
        flambeau.load(pickled(payload))
    with serialization.safe_globals([Settings]), pytest.raises(RefusedContentError):
        flambeau.load(pickled(payload))


def test_the_random_states_of_a_checkpoint_are_read():
    generator = np.random.default_rng(0)
    states = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002
        "generator": generator.bit_generator.state,
        "flambeau": flambeau.get_rng_state(),
    }
    found = flambeau.load(written(states))
    assert found["python"] == states["python"]
    np.random.set_state(found["numpy"])  # noqa: NPY002
    assert (found["numpy"][1] == states["numpy"][1]).all()
    again = np.random.default_rng(1)
    again.bit_generator.state = found["generator"]
    assert again.random() == generator.random()
    flambeau.set_rng_state(found["flambeau"])


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3), np.asfortranarray(np.ones((2, 3))),
        np.array(3.5, ">f4"), np.zeros((0, 2), bool), np.array([1 + 2j]),
    ],
)  # fmt: skip
def test_arrays_of_numbers_are_read(array):
    found = flambeau.load(written({"array": array}))["array"]
    # NumPy turns the bytes of a pickle into this machine's order.
    assert (found.dtype, found.shape) == (array.dtype.newbyteorder("="), array.shape)
    assert found.flags.f_contiguous == array.flags.f_contiguous
    assert (found == array).all()


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["text"]), np.zeros(1, [("a", "f4")])]
)
def test_arrays_of_other_things_are_refused(array):
    with pytest.raises(RefusedContentError, match="not numeric"):
        flambeau.load(written(array))


@pytest.mark.parametrize(
    "change", [(1, (3,), None, None), (1, (-2, -1), None, None), (1, [2], None, None)]
)
def test_arrays_whose_elements_do_not_fit_are_refused(change):
    array = np.arange(2, dtype=np.int8)
    rebuild, arguments, state = array.__reduce__()
    shape = change[1]

    class Wrong:
        def __reduce__(self):
            return rebuild, arguments, (state[0], shape, *state[2:])

    with pytest.raises(CheckpointError):
        flambeau.load(written(Wrong()))


def test_what_a_file_needs_is_listed():
    file = written({"a": Settings(1), "b": Phase.TRAIN, "c": np.ones(2), "d": flambeau.ones(1)})
    names = serialization.get_unsafe_globals_in_checkpoint(file)
    assert names == [f"{__name__}.Settings", f"{__name__}.Phase"]
    with serialization.safe_globals([Settings]):
        assert serialization.get_unsafe_globals_in_checkpoint(file) == [f"{__name__}.Phase"]
    newer = pickled(pickle.dumps([argparse.Namespace(), argparse.Namespace()], 4))
    assert serialization.get_unsafe_globals_in_checkpoint(newer) == ["argparse.Namespace"]
    with pytest.raises(ValueError, match="expected an archive"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"text"))


def test_settings_of_files():
    little = serialization.LoadEndianness.LITTLE
    serialization.set_default_load_endianness(little)
    assert serialization.get_default_load_endianness() is little
    serialization.set_default_load_endianness(None)
    with pytest.raises(NotImplementedError, match="little-endian"):
        serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    with pytest.raises(TypeError, match="LoadEndianness"):
        serialization.set_default_load_endianness("little")
    with pytest.raises(ValueError, match="MAP_PRIVATE"):
        serialization.set_default_mmap_options(7)
    serialization.set_default_mmap_options(serialization.get_default_mmap_options())
    serialization.set_crc32_options(serialization.get_crc32_options())
    assert serialization.load is flambeau.load


def test_versions_are_compared():
    newer = serialization.check_module_version_greater_or_equal
    module = argparse.Namespace(__version__="1.10.2", __name__="module")
    assert newer(module, (1, 9))
    assert not newer(module, (1, 11))
    module.__version__ = "1.x"
    with pytest.raises(RuntimeError, match=r"'1\.x' is no version of module"):
        newer(module, (1, 9))
    assert newer(module, (1, 9), error_if_malformed=False)


def test_what_other_picklers_are_called_with_is_taken():
    file = io.BytesIO()
    flambeau.save({"a": 1}, file, pickle, 4, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert flambeau.load(file, "cpu", pickle, weights_only=None) == {"a": 1}
    file = written(Settings(1))
    with pytest.raises(RefusedContentError):
        flambeau.load(file, weights_only=None)
