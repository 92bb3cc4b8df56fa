"""Groups and state: dictionaries for the user, Cells and announcements for the compiled step."""

import copy

import jax
import numpy as np
import pytest

import flambeau
from flambeau import optim
from flambeau.optim.groups import AnnouncedList, ParameterGroup, Structure, pick


def group_of(switches=("decay",), **entries):
    structure = Structure()
    numbers = ("lr", "betas", "decay")
    return ParameterGroup({"params": [], **entries}, numbers, switches, structure), structure


def seen(group):
    """The numbers as a step's rule sees them."""

    def plain(value):
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        return None if value is None else float(value)

    tensors = [each._read() for each in group.tensors]
    return {
        name: plain(value) for name, value in pick(group.layout, group.cell.array, tensors).items()
    }


def test_numbers_stay_numbers_and_stand_in_the_cell():
    group, _ = group_of(lr=0.1, betas=(0.9, 0.99), decay=0.5)
    assert type(group["lr"]) is float
    assert group["betas"] == (0.9, 0.99)
    assert seen(group) == {"lr": 0.1, "betas": (0.9, 0.99), "decay": 0.5}


def test_a_changed_number_reaches_the_cell_and_is_no_change_of_structure():
    group, structure = group_of(lr=0.1, betas=(0.9, 0.99), decay=0.5)
    cell, version = group.cell, structure.version
    group["lr"] = 0.2
    group.update(betas=(0.5, 0.6))
    group |= {"decay": 2}
    assert seen(group) == {"lr": 0.2, "betas": (0.5, 0.6), "decay": 2.0}
    assert group["decay"] == 2
    assert group.cell is cell
    assert structure.version == version


def test_a_number_that_is_zero_is_switched_off_where_that_is_another_formula():
    group, structure = group_of(lr=0.0, betas=(0.0, 0.0), decay=0.0)
    assert seen(group) == {"lr": 0.0, "betas": (0.0, 0.0), "decay": None}
    version = structure.version
    group["decay"] = 0.5
    assert seen(group)["decay"] == 0.5
    assert structure.version > version


def test_a_tensor_stays_the_users_tensor():
    rate = flambeau.tensor([0.25])
    group, structure = group_of(lr=rate, betas=(0.9, flambeau.tensor(0.5)), decay=0.0)
    assert group["lr"] is rate
    assert seen(group) == {"lr": 0.25, "betas": (0.9, 0.5), "decay": None}
    version = structure.version
    rate.fill_(0.5)
    assert seen(group)["lr"] == 0.5
    assert structure.version == version
    group["lr"] = flambeau.tensor(0.75)
    assert seen(group)["lr"] == 0.75
    assert structure.version > version


def test_what_is_no_number_is_refused_before_anything_changes():
    group, _ = group_of(lr=0.1, betas=(0.9, 0.99), decay=0.0)
    with pytest.raises((TypeError, ValueError)):
        group["lr"] = "fast"
    assert group["lr"] == 0.1
    assert seen(group)["lr"] == 0.1


def test_numpy_numbers_are_numbers():
    group, _ = group_of(lr=np.float32(0.5), betas=(np.float64(0.25), 1), decay=0)
    assert seen(group) == {"lr": 0.5, "betas": (0.25, 1.0), "decay": None}


@pytest.mark.parametrize(
    "change",
    [
        lambda group: group.__setitem__("flag", True),
        lambda group: group.setdefault("other", 3),
        lambda group: group.pop("flag"),
        lambda group: group.__delitem__("flag"),
        lambda group: group["params"].append(flambeau.zeros(1)),
        lambda group: group["params"].__setitem__(slice(0, 0), [flambeau.zeros(1)]),
        lambda group: group.__setitem__("params", [flambeau.zeros(1)]),
    ],
)
def test_other_changes_are_changes_of_structure(change):
    group, structure = group_of(lr=0.1, betas=(0.9, 0.99), decay=0.5, flag=False)
    version = structure.version
    change(group)
    assert structure.version > version
    assert seen(group)["lr"] == 0.1


def test_setdefault_and_get_are_a_dictionarys():
    group, structure = group_of(lr=0.1, betas=(0.9, 0.99), decay=0.5)
    version = structure.version
    assert group.setdefault("lr", 0.7) == 0.1
    assert group.get("nothing", 3) == 3
    assert structure.version == version


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each.append(1),
        lambda each: each.extend([1]),
        lambda each: each.insert(0, 1),
        lambda each: each.__setitem__(0, 5),
        lambda each: each.__delitem__(0),
        lambda each: each.__iadd__([1]),
        lambda each: each.__imul__(2),
        lambda each: each.pop(),
        lambda each: each.remove(2),
        lambda each: each.reverse(),
        lambda each: each.sort(),
        lambda each: each.clear(),
    ],
)
def test_a_list_announces_its_changes_and_behaves_as_a_list(change):
    structure = Structure()
    announced, plain = AnnouncedList([3, 2], structure), [3, 2]
    change(announced)
    change(plain)
    assert announced == plain
    assert structure.version == 1


def test_copies_of_groups_and_state_are_plain():
    param = flambeau.ones(2, requires_grad=True)
    optimizer = optim.Adam([param], lr=0.5)
    param.grad = flambeau.ones(2)
    optimizer.step()
    groups, state = copy.deepcopy(optimizer.param_groups), copy.deepcopy(optimizer.state[param])
    assert type(groups) is list
    assert type(groups[0]) is dict
    assert type(groups[0]["params"]) is list
    assert type(state) is dict
    groups[0]["lr"] = 0.0
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_groups_that_a_script_assigns_are_used():
    first, second = (flambeau.ones(2, requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([first], lr=0.5)
    first.grad, second.grad = flambeau.ones(2), flambeau.ones(2)
    optimizer.step()
    optimizer.param_groups = [{**optimizer.param_groups[0], "params": [second]}]
    optimizer.step()
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.25}
    optimizer.step()
    optimizer.param_groups.append({**optimizer.param_groups[0], "params": [first], "lr": 0.125})
    optimizer.step()
    assert first.tolist() == [0.375, 0.375]
    assert second.tolist() == [0.0, 0.0]


def test_state_that_a_script_assigns_is_used():
    param = flambeau.ones(2, requires_grad=True)
    optimizer = optim.SGD([param], lr=1.0, momentum=0.5)
    param.grad = flambeau.ones(2)
    optimizer.step()
    optimizer.state[param]["momentum_buffer"] = flambeau.full((2,), 4.0)
    optimizer.step()
    assert param.tolist() == [-3.0, -3.0]
    optimizer.state[param] = {"momentum_buffer": flambeau.zeros(2)}
    optimizer.step()
    assert param.tolist() == [-4.0, -4.0]
    optimizer.state.clear()
    optimizer.step()
    assert param.tolist() == [-5.0, -5.0]
    assert optimizer.state[param]["momentum_buffer"].tolist() == [1.0, 1.0]


def test_numbers_of_a_group_reach_their_cell_without_a_program(caplog, all_compiled):
    numbers = [0.1 + i for i in range(37)]  # As many as no other group has.
    with jax.log_compiles():
        group, _ = group_of(lr=tuple(numbers))
    assert not [each for each in caplog.messages if "Compiling" in each]
    assert seen(group)["lr"] == pytest.approx(tuple(numbers))


def test_a_sparse_parameter_is_refused_as_a_bad_value():
    with pytest.raises(ValueError, match="sparse"):
        flambeau.optim.SparseAdam([flambeau.ones(2, 2).to_sparse()])
