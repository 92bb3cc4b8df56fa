"""NumPy arrays that share the elements of tensors, and addresses."""

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau import nn
from flambeau.core.values import memory
from flambeau.core.values.cell import Cell
from flambeau.core.values.memory import LentCell

pytestmark = pytest.mark.usefixtures("young_heap")


def test_a_write_to_the_array_shows_in_the_tensor_and_its_views():
    x = flambeau.zeros(2, 3)
    row, found = x[1], x.numpy()
    assert row.tolist() == [0, 0, 0]
    found[1] = [1, 2, 3]
    assert row.tolist() == [1, 2, 3]
    assert (x * 2).tolist() == [[0, 0, 0], [2, 4, 6]]


def test_a_write_to_the_tensor_shows_in_the_array():
    x = flambeau.zeros(3)
    found = x.numpy()
    x[1:].add_(2)
    assert found.tolist() == [0, 2, 2]
    nn.init.ones_(x)
    assert found.tolist() == [1, 1, 1]


def test_all_arrays_of_a_tensor_share_their_memory():
    x = flambeau.arange(6.0).reshape(2, 3)
    found, column = x.numpy(), x[:, 1].numpy()
    assert np.shares_memory(found, column)
    assert column.strides == (12,)
    column[:] = -1
    assert found.tolist() == [[0, -1, 2], [3, -1, 5]]
    assert found.ctypes.data == x.data_ptr()
    assert x[1].numpy().ctypes.data == x[1].data_ptr()


@pytest.mark.parametrize("kept", ["the array", "a part", "a memoryview"])
def test_the_elements_are_shared_while_anything_refers_to_them(kept: str):
    x = flambeau.zeros(4)
    found = x.numpy()
    other: Any = {"the array": found, "a part": found[2:], "a memoryview": memoryview(found)}[kept]
    del found
    gc.collect()
    other[-1] = 5
    assert x.tolist() == [0, 0, 0, 5]


def test_a_write_to_an_array_that_nobody_keeps_arrives():
    x = flambeau.zeros(3)
    x.numpy()[:] = 7
    assert x.tolist() == [7, 7, 7]
    assert type(x._cell) is Cell


def test_the_memory_is_freed_with_the_last_array():
    x = flambeau.zeros(1000)
    found = x.numpy()
    freed = weakref.ref(x._cell.loan)
    assert type(x._cell) is LentCell
    del found
    assert type(x._cell) is Cell
    assert freed() is None


def test_an_array_outlives_its_tensor():
    found = (flambeau.ones(3) * 2).numpy()
    gc.collect()
    found *= 3
    assert found.tolist() == [6, 6, 6]


VIEWS = {
    "whole": lambda x: x,
    "row": lambda x: x[1],
    "columns": lambda x: x[:, 1:3],
    "every second": lambda x: x[::2],
    "transposed": lambda x: x.t(),
    "flat": lambda x: x.view(-1)[2:9],
    "expanded": lambda x: x[0].expand(2, 4),
    "diagonal": lambda x: x.diagonal(1),
    "windows": lambda x: x.unfold(1, 2, 2),
    "one element": lambda x: x[2, 3],
    "as_strided": lambda x: x.as_strided((2, 2), (1, 5), 3),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_the_array_of_a_view_writes_to_its_base(view: Any):
    x = flambeau.arange(12.0).reshape(3, 4)
    found = view(x).numpy()
    assert found.shape == tuple(view(x).shape)
    assert found.tolist() == view(x).tolist()
    found[...] = 3
    assert view(x).numpy().tolist() == found.tolist() == view(x).tolist()
    expected = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    places = np.zeros(12, bool)
    places[view(flambeau.arange(12).reshape(3, 4)).numpy().reshape(-1)] = True
    expected[places.reshape(3, 4)] = 3
    assert x.tolist() == expected.tolist()


def test_another_dtype_on_the_same_bits():
    x = flambeau.zeros(2)
    x.view(flambeau.int32).numpy()[1] = 0x3F800000
    assert x.tolist() == [0, 1]


def test_the_parts_of_complex_numbers_share():
    x = flambeau.tensor([1 + 2j, 3 + 4j])
    x.imag.numpy()[0] = 9
    flambeau.view_as_real(x).numpy()[1, 0] = 8
    assert x.tolist() == [1 + 9j, 8 + 4j]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "complex64"])
def test_every_dtype_is_shared(dtype: str):
    x = flambeau.zeros(3, dtype=getattr(flambeau, dtype))
    x.numpy()[1] = 1
    assert x.tolist() == [0, 1, 0]


def test_nan_is_no_change():
    x = flambeau.tensor([float("nan"), 1.0])
    found, before = x.numpy(), x._read()
    assert x._read() is before
    found[0] = 2
    assert x.tolist() == [2, 1]


def test_what_has_no_strides_is_a_read_only_snapshot():
    found = flambeau.arange(6).reshape(2, 3).t().view(-1).numpy()
    assert found.tolist() == [0, 3, 1, 4, 2, 5]
    assert not found.flags.writeable


def test_no_elements():
    assert flambeau.zeros(0, 3).numpy().shape == (0, 3)
    assert flambeau.zeros(2, 3)[:, :0].numpy().shape == (2, 0)


def test_numpy_functions_may_copy():
    x = flambeau.zeros(2)
    np.array(x)[0] = 1
    assert x.tolist() == [0, 0]
    np.asarray(x)[0] = 1
    assert x.tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="detach"):
        np.array(flambeau.ones(1, requires_grad=True))


def test_saved_values_do_not_change():
    x = flambeau.ones(2, requires_grad=True)
    found = x.detach().numpy()
    y = (x * x).sum()
    found[:] = 5
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]
    assert x.tolist() == [5, 5]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_training_step_goes_on_from_what_the_array_holds(compiled: bool):
    layer = nn.Linear(2, 1, bias=False)
    optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.5, momentum=0.5)

    def step() -> None:
        optimizer.zero_grad()
        layer(flambeau.ones(1, 2)).sum().backward()
        optimizer.step()

    run = flambeau.compile(step) if compiled else step
    run()
    weight = layer.weight.detach().numpy()
    velocity = optimizer.state[layer.weight]["momentum_buffer"].numpy()
    for _ in range(4):
        weight[:], velocity[:] = 1, 0
        run()
        assert weight.tolist() == layer.weight.tolist() == [[0.5, 0.5]]
        assert velocity.tolist() == [[1, 1]]
    del weight, velocity
    run()
    assert layer.weight.tolist() == [[-0.25, -0.25]]


def test_a_fused_loop_sees_each_write():
    x, total = flambeau.zeros(3), flambeau.zeros(3)
    found = x.numpy()
    with flambeau.compiler.gears(fuse=True):
        for i in range(30):
            found[:] = i
            total.add_(x.exp().log())
            total.mul_(1)
    assert total.round().tolist() == [435, 435, 435]


def test_results_of_a_fused_loop_are_shared():
    x = flambeau.ones(3)
    with flambeau.compiler.gears(fuse=2):
        for i in range(30):
            y = x.exp().log().mul(2)
            found = y.numpy()
            found[0] = i
            assert (y + 0).round().tolist() == [i, 2, 2]


def test_captured_by_a_compiled_function():
    x = flambeau.ones(2)
    found = x.numpy()
    double = flambeau.compile(lambda: x * 2)
    for i in range(3):
        found[0] = i
        assert double().tolist() == [2 * i, 2]


def test_transformations_read_the_memory():
    x = flambeau.ones(3)
    found = x.numpy()
    found[:] = 2
    assert flambeau.vmap(lambda a: a * x[0])(flambeau.ones(2)).tolist() == [2, 2]


def test_copies_are_apart():
    x = flambeau.zeros(2)
    found = x.numpy()
    found[0] = 1
    others = [x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]
    found[1] = 1
    assert [each.tolist() for each in others] == [[1, 0]] * 3


def test_another_value_through_data_leaves_the_array():
    x = flambeau.zeros(2)
    found = x.numpy()
    x.data = flambeau.ones(2)
    found[0] = 5
    assert x.tolist() == [1, 1]


def test_in_place_reshaping_keeps_sharing():
    x = flambeau.zeros(2, 3)
    found = x.numpy()
    x.unsqueeze_(0).transpose_(1, 2)
    found[1, 2] = 4
    assert x[0, 2, 1] == 4


def test_threads_that_share_a_tensor_get_whole_values():
    x = flambeau.zeros(1000)
    seen: list[Any] = []

    def read() -> None:
        for _ in range(200):
            x.numpy()[0]
            seen.append(x.sum().item())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for each in threads:
        each.start()
    for _ in range(50):
        x.add_(1)
    for each in threads:
        each.join()
    assert {value % 1000 for value in seen} == {0}
    assert x.sum() == 50_000


def test_long_comparisons_are_warned_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "_MUCH", memory._Loan.compared + 1)
    x = flambeau.zeros(5, 7)
    found = x.numpy()
    with pytest.warns(UserWarning, match=r"shape \[5, 7\] shares its elements .*numpy\(\)\.copy"):
        x.sum()
    assert found.sum() == 0


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["array", "tensor", "view", "drop", "take", "read"]),
              st.integers(0, 3), st.integers(-5, 5)),
    max_size=12,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_tensor_and_array_never_differ(actions: list[tuple[str, int, int]]):
    x, mirror = flambeau.zeros(4), np.zeros(4)
    part, arrays = x[1:], [x.numpy()]
    for action, place, value in actions:
        if action == "array" and arrays:
            arrays[place % len(arrays)][place] = mirror[place] = value
        elif action == "tensor":
            x[place] = mirror[place] = value
        elif action == "view":
            part.add_(value)
            mirror[1:] += value
        elif action == "drop" and arrays:
            arrays.pop(place % len(arrays))
        elif action == "take":
            arrays.append(x.numpy())
        elif action == "read":
            assert part.tolist() == mirror[1:].tolist()
    assert all(each.tolist() == mirror.tolist() for each in arrays)
    assert x.tolist() == mirror.tolist()
