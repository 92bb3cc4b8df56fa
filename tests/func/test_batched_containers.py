"""`vmap` over containers that drop and add the batch dimension themselves."""

import pytest

import flambeau
from flambeau.as_torch.private import _C, _functorch
from flambeau.func import vmap


class Bag:
    """Tensors by name with a batch size, as those of tensordict."""

    def __init__(self, tensors, batch_size):
        self.tensors, self.batch_size = dict(tensors), tuple(batch_size)
        for each in self.tensors.values():
            assert tuple(each.shape[: len(self.batch_size)]) == self.batch_size

    ndim = property(lambda self: len(self.batch_size))
    shape = property(lambda self: self.batch_size)

    def clone(self, recurse=True):
        return Bag(self.tensors, self.batch_size)

    def __getitem__(self, index):
        found = {name: each[index] for name, each in self.tensors.items()}
        return Bag(found, next(iter(found.values())).shape[: self.ndim])

    def _add_batch_dim(self, *, in_dim, vmap_level):
        found = {
            name: _C._functorch._add_batch_dim(each, in_dim, vmap_level)
            for name, each in self.tensors.items()
        }
        return Bag(found, [n for at, n in enumerate(self.batch_size) if at != in_dim])

    def _maybe_remove_batch_dim(self, funcname, vmap_level, batch_size, out_dim):
        found = {
            name: _functorch.vmap._maybe_remove_batch_dim(
                funcname, each, vmap_level, batch_size, out_dim
            )
            for name, each in self.tensors.items()
        }
        sizes = [*self.batch_size]
        sizes.insert(out_dim, batch_size)
        return Bag(found, sizes)


def a_bag():
    return Bag({"a": flambeau.arange(6.0).reshape(3, 2), "b": flambeau.ones(3)}, [3])


def doubled(bag, x):
    assert bag.batch_size == ()
    bag.tensors["sum"] = bag.tensors["a"].sum() * bag.tensors["b"] + x
    return bag, 2 * x


def test_containers_are_arguments_and_results():
    bag = a_bag()
    found, twice = vmap(doubled)(bag, flambeau.arange(3.0))
    assert found.batch_size == (3,)
    assert found.tensors["sum"].tolist() == [1.0, 6.0, 11.0]
    assert found.tensors["a"].tolist() == bag.tensors["a"].tolist()
    assert twice.tolist() == [0.0, 2.0, 4.0]
    assert "sum" not in bag.tensors


def test_containers_without_a_batch_dimension_stay_whole():
    bag = a_bag()

    def function(bag, x):
        bag.tensors["more"] = x
        return bag.tensors["a"].sum() * x

    assert vmap(function, (None, 0))(bag, flambeau.arange(2.0)).tolist() == [0.0, 15.0]
    assert "more" not in bag.tensors


def test_gradients_reach_the_tensors_of_a_container():
    weight = flambeau.ones(3, 2, requires_grad=True)
    found = vmap(lambda bag: Bag({"a": bag.tensors["a"] ** 2}, []))(Bag({"a": weight}, [3]))
    found.tensors["a"].sum().backward()
    assert weight.grad.tolist() == [[2.0, 2.0]] * 3


def test_the_new_dimension_may_come_last():
    bag = Bag({"a": flambeau.ones(3, 2)}, [3, 2])
    found = vmap(lambda each: each, in_dims=1, out_dims=1)(bag)
    assert found.batch_size == (3, 2)
    assert found.tensors["a"].shape == (3, 2)


def test_examples_may_be_run_in_chunks():
    whole = vmap(lambda bag: bag.tensors["a"].sum())(a_bag())
    parts = vmap(lambda bag: bag.tensors["a"].sum(), chunk_size=2)(a_bag())
    rows = vmap(lambda bag: bag.tensors["a"].sum(), randomness="different")(a_bag())
    assert whole.tolist() == parts.tolist() == rows.tolist() == [1.0, 5.0, 9.0]


def test_containers_need_a_dimension():
    with pytest.raises(ValueError, match="out_dims is None for a Bag"):
        vmap(lambda bag: bag, out_dims=None)(a_bag())
    with pytest.raises(ValueError, match="in_dims has 1"):
        vmap(lambda bag: bag, in_dims=1)(a_bag())
    with pytest.raises(NotImplementedError, match=r"func\.vmap"):
        a_bag()._add_batch_dim(in_dim=0, vmap_level=1)
