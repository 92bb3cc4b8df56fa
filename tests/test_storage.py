"""The memory of tensors, as bytes and as numbers."""

import copy
import pickle
import sys

import pytest

import flambeau
from flambeau import UntypedStorage, nn


def test_tensors_that_share_elements_have_one_storage():
    x = flambeau.ones(2, 3)
    storage = x.untyped_storage()
    for view in (x[1], x.t(), x.detach(), x.view(flambeau.int32)):
        assert view.untyped_storage() == storage
        assert view.untyped_storage().data_ptr() == storage.data_ptr()
        assert hash(view.untyped_storage()) == hash(storage)
    for other in (x.clone(), x + 0, flambeau.ones(2, 3)):
        assert other.untyped_storage() != storage
        assert other.untyped_storage().data_ptr() != storage.data_ptr()
    assert x.storage() == x[0].storage()
    assert x.storage() != x.view(flambeau.int32).storage()


def test_tensors_that_share_an_array_only_are_at_several_addresses():
    layer = nn.LayerNorm(8)
    others = [copy.deepcopy(layer), nn.LayerNorm(8)]
    others[1].load_state_dict(layer.state_dict())
    tensors = [each for module in (layer, *others) for each in module.parameters()]
    assert len({each.data_ptr() for each in tensors}) == 6
    assert len({each.untyped_storage().data_ptr() for each in tensors}) == 6
    assert [each.sum().item() for each in tensors] == [8, 0] * 3
    tied = nn.Linear(2, 2, bias=False)
    tied.weight = layer.weight
    assert tied.weight.data_ptr() == layer.weight.data_ptr()


def test_views_of_all_elements_are_at_one_address():
    x = flambeau.arange(6.0).reshape(2, 3)
    base = x.untyped_storage().data_ptr()
    assert x.data_ptr() == x.view(-1).data_ptr() == x[None].data_ptr() == x.const_data_ptr() == base
    assert x[1].data_ptr() - base == 3 * 4
    assert x.view(-1)[-1].data_ptr() - base == 5 * 4
    assert x[1, 1:].view(flambeau.uint8)[2:].data_ptr() - base == 4 * 4 + 2
    assert x.diagonal()[1:].data_ptr() - base == 4 * 4
    assert flambeau.zeros(2, dtype=flambeau.complex64)[1:].imag.data_ptr() % 8 == 4
    assert x.as_strided((2,), (1,), 2).data_ptr() - base == 2 * 4
    assert base not in (x[:, 1:].data_ptr(), x.t().data_ptr())
    assert flambeau.empty(0).data_ptr() == 0
    assert flambeau.ones(2, device="meta").data_ptr() == 0
    with pytest.raises(flambeau.CompileError):
        flambeau.compile(lambda x: x + x.data_ptr(), fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="no address"):
        flambeau.func.vmap(lambda x: x + x.data_ptr())(x)


def test_a_tensor_is_set_to_what_has_its_elements_and_shape():
    x = flambeau.arange(6.0).reshape(2, 3)
    assert x.is_set_to(x.data)
    assert x[1].is_set_to(x[1:].squeeze(0))
    for other in (x.t(), x[1:], x.clone(), x.view(flambeau.int32)):
        assert not x.is_set_to(other)
    with pytest.raises(TypeError, match="takes a Tensor"):
        x.is_set_to(2.0)


def test_bytes_are_read_and_written():
    x = flambeau.ones(2)
    storage = x.untyped_storage()
    assert storage.tolist() == [0, 0, 128, 63] * 2 == list(storage)
    assert (storage[2], len(storage), storage.nbytes(), storage.size()) == (128, 8, 8, 8)
    storage[6:8] = 0
    assert x.tolist() == [1, 0]
    assert storage[1:3].tolist() == [0, 128]
    assert flambeau.asarray(storage[2:4], dtype=flambeau.uint8).tolist() == [128, 63]
    copied = storage.clone()
    storage.fill_(0)
    assert x.tolist() == [0, 0]
    storage.copy_(copied)
    assert x.tolist() == [1, 0]
    assert pickle.loads(pickle.dumps(storage)).tolist() == storage.tolist()
    assert copy.deepcopy(storage) != storage
    assert storage.cpu() is storage.untyped() is storage.resize_(8) is storage
    with pytest.raises(NotImplementedError, match="cannot get 0"):
        storage.resize_(0)
    with pytest.raises(RuntimeError, match="has 4 bytes, not 8"):
        storage.copy_(UntypedStorage(4))
    assert UntypedStorage([1, 2]).tolist() == [1, 2]
    assert repr(UntypedStorage(3)) == "[UntypedStorage(device=cpu) of size 3]"
    assert flambeau.ones(3, device="meta").untyped_storage().nbytes() == 12
    assert not storage.is_cuda
    assert not storage.is_pinned()
    assert not storage.is_shared()


def test_numbers_are_read_and_written():
    x = flambeau.ones(2, 2)
    storage = x.storage()
    assert (storage.size(), storage.nbytes(), storage.element_size()) == (4, 16, 4)
    storage[3] = 5
    assert x.tolist() == [[1, 1], [1, 5]]
    assert storage.tolist() == list(storage) == [1, 1, 1, 5]
    assert storage.clone().fill_(2).copy_(storage).tolist() == storage.tolist()
    assert storage.data_ptr() == x.data_ptr() == storage.untyped().data_ptr()
    assert repr(storage) == "[TypedStorage(dtype=flambeau.float32, device=cpu) of size 4]"
    for each, expected in ((storage, True), (storage.untyped(), True), (x, False)):
        assert flambeau.is_storage(each) == expected


def test_older_classes_make_and_recognize_storages():
    storage = flambeau.FloatStorage([1, 2])
    assert isinstance(storage, flambeau.FloatStorage)
    assert not isinstance(storage, flambeau.LongStorage)
    assert storage.pickle_storage_type() == "FloatStorage"
    assert flambeau.ones(1).storage_type() is flambeau.FloatStorage
    assert flambeau.Tensor(storage).tolist() == [1, 2] == flambeau.tensor(storage).tolist()
    content = flambeau.ByteStorage.from_buffer(b"abc")
    assert flambeau.ByteTensor(content).tolist() == [97, 98, 99]
    assert flambeau.LongStorage(2).tolist() == [0, 0]


def test_a_file_is_the_memory_of_tensors(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(16)))
    storage = UntypedStorage.from_file(str(path), False, 16)
    assert storage.tolist() == list(range(16))
    x = flambeau.tensor([], dtype=flambeau.int16).set_(storage, 2, (2, 2))
    assert x.tolist() == [[1284, 1798], [2312, 2826]]
    x.zero_()
    assert storage.tolist() == [0, 1, 2, 3, *[0] * 8, 12, 13, 14, 15]
    assert path.read_bytes() == bytes(range(16))
    assert flambeau.ShortStorage.from_file(path, size=2).tolist() == [256, 770]
    with pytest.raises(RuntimeError, match="16 bytes, fewer than 17"):
        UntypedStorage.from_file(path, nbytes=17)
    with pytest.raises(NotImplementedError, match=r"numpy\.memmap"):
        UntypedStorage.from_file(path, True, 16)


def test_a_tensor_is_set_to_elements_of_another_one():
    x = flambeau.arange(6.0)
    y = flambeau.empty(0).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]]
    y.add_(1)
    assert x.tolist() == [0, 2, 3, 4, 5, 5]
    z = flambeau.empty(0).set_(x.storage(), 0, (2, 2), (1, 2))
    assert z.tolist() == [[0, 3], [2, 4]]
    assert flambeau.empty(0).set_(x.untyped_storage()).shape == (6,)
    assert flambeau.empty(0).set_(x[2:]).tolist() == [3, 4, 5, 5]
    assert flambeau.empty(0).set_(x[2:], 4, (1,)).tolist() == [5]
    assert flambeau.ones(3).set_().shape == (0,)
    with pytest.raises(RuntimeError, match="out of bounds"):
        flambeau.empty(0).set_(x.untyped_storage(), 4, (3,))
    with pytest.raises(RuntimeError, match="cannot share"):
        flambeau.empty(0).set_(x.long())


def test_the_size_of_a_storage_counts_its_bytes():
    for kind, count in ((UntypedStorage, 24), (flambeau.TypedStorage, 24)):
        made = [kind(size) for size in (0, count)]
        small, large = map(sys.getsizeof, made)
        assert large - small == made[1].nbytes() > 0
