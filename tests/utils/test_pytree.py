"""Trees of containers: what is a leaf, what is registered, and what then knows of it."""

import collections
import dataclasses

import jax
import pytest

import flambeau
from flambeau.utils import _pytree as pytree


class Output:
    """An object with two members and a text."""

    def __init__(self, loss, logits, name="out"):
        self.loss, self.logits, self.name = loss, logits, name


class Results(collections.OrderedDict):
    """A dictionary whose keys are attributes too."""

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)


pytree.register_pytree_node(
    Output,
    lambda value: ([value.loss, value.logits], [value.name]),
    lambda members, context: Output(*members, *context),
)
pytree.register_pytree_node(
    Results,
    lambda value: (list(value.values()), list(value)),
    lambda members, context: Results(zip(context, members, strict=True)),
)


def test_tensors_and_none_are_leaves_in_the_callers_order():
    x = flambeau.ones(2)
    leaves, treespec = pytree.tree_flatten({"b": x, "a": (None, [3])})
    assert leaves[0] is x
    assert leaves[1:] == [None, 3]
    assert list(pytree.tree_unflatten([1, 2, 3], treespec)) == ["b", "a"]


@pytest.mark.parametrize(
    "tree",
    [
        (1, 2), [1, [2]], {"b": 1, "a": 2}, collections.OrderedDict(b=1, a=2), 3, None,
        collections.defaultdict(list, b=[1]), collections.deque([1, 2], maxlen=3),
        collections.namedtuple("Pair", "x y")(1, [2]), flambeau.Size([1, 2]), (), {},
    ],
)  # fmt: skip
def test_a_tree_is_put_together_as_it_was(tree):
    leaves, treespec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, treespec)
    assert again == tree
    assert type(again) is type(tree)
    assert pytree.tree_structure(again) == treespec
    assert treespec.num_leaves == len(leaves) == len(pytree.tree_leaves(tree))


def test_what_maxlen_and_default_factory_are_is_kept():
    trees = collections.deque([1], maxlen=4), collections.defaultdict(list, a=1)
    lengths, lists = pytree.tree_map(lambda leaf: leaf + 1, trees)
    assert (lengths.maxlen, lists.default_factory) == (4, list)


def test_leaves_that_are_kept_whole():
    leaves = pytree.tree_leaves([(1, 2), {"a": 3}], is_leaf=lambda each: isinstance(each, tuple))
    assert leaves == [(1, 2), 3]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": 1}, "arity mismatch"),
        ({"a": 1, "c": 2}, "keys mismatch: .'b'. are missing, .'c'. are extra"),
        ([1, 2], "type mismatch"),
        (3, "type mismatch"),
    ],
)
def test_trees_of_another_structure_are_refused(other, message):
    with pytest.raises(ValueError, match=message):
        pytree.tree_map(lambda a, b: (a, b), {"a": 1, "b": 2}, other)


def test_a_class_of_its_own_is_registered_once():
    with pytest.raises(ValueError, match="already registered as pytree node"):
        pytree.register_pytree_node(Output, lambda value: ([], None), lambda members, _: None)


def test_an_older_name_registers_too_and_warns():
    class Other:
        pass

    with pytest.warns(FutureWarning, match="register_pytree_node"):
        pytree._register_pytree_node(Other, lambda value: ([], None), lambda *_: Other())
    assert pytree.tree_leaves([Other(), 1]) == [1]


def test_a_class_without_keys_has_no_paths():
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_flatten_with_path([Output(1, 2)])


def test_a_dataclass_has_its_fields_and_keeps_none():
    @dataclasses.dataclass
    class Batch:
        x: object
        mask: object = None
        name: str = "batch"

    pytree.register_dataclass(Batch, drop_field_names=["name"])
    paths = pytree.tree_leaves_with_path(Batch(1, name="other"))
    assert [(pytree.keystr(path), leaf) for path, leaf in paths] == [(".x", 1)]
    assert pytree.tree_map(lambda leaf: leaf + 1, Batch(1)) == Batch(2)
    with pytest.raises(ValueError, match=r"\['name'\] are in neither"):
        pytree.register_dataclass(
            dataclasses.make_dataclass("Wrong", ["x", "name"]), field_names=["x"]
        )


def test_a_constant_has_no_leaves_and_compares_by_value():
    @dataclasses.dataclass(frozen=True)
    class Config:
        norm: str

    pytree.register_constant(Config)
    leaves, treespec = pytree.tree_flatten((Config("l2"), 1))
    assert leaves == [1]
    assert treespec == pytree.tree_structure((Config("l2"), 5))
    assert treespec != pytree.tree_structure((Config("l1"), 5))
    with pytest.raises(TypeError, match="compare by value"):
        pytree.register_constant(object)


def test_jax_knows_what_is_registered():
    doubled = jax.tree.map(lambda leaf: leaf * 2, Output(1, 2, "kept"))
    assert (doubled.loss, doubled.logits, doubled.name) == (2, 4, "kept")
    # A list among what else there is to know is compared by its content.
    assert jax.tree.structure(Output(1, 2)) == jax.tree.structure(Output(3, 4))
    assert jax.tree.structure(Output(1, 2)) != jax.tree.structure(Output(1, 2, "other"))
    jax.jit(lambda value: value.loss)(Output(1.0, 2.0))


@pytest.mark.parametrize("make", [Output, lambda loss, logits: Results(loss=loss, logits=logits)])
def test_compiled_functions_take_and_return_what_is_registered(make):
    @flambeau.compile
    def step(given):
        return make(given.loss.sum(), given.logits * 2)

    for _ in range(2):
        w = flambeau.ones(2, requires_grad=True)
        found = step(make(w, flambeau.ones(2)))
        assert type(found) is type(make(1, 2))
        assert (found.loss.item(), found.logits.tolist()) == (2, [2, 2])
        found.loss.backward()
        assert w.grad is not None
        assert w.grad.tolist() == [1, 1]
    assert step.program_count == 1


def test_transformations_take_and_return_what_is_registered():
    given = Results(loss=flambeau.tensor([1.0, 2.0]), logits=flambeau.tensor([3.0, 4.0]))
    found = flambeau.func.grad(lambda each: (each.loss * each.logits).sum())(given)
    assert type(found) is Results
    assert found.loss.tolist() == [3, 4]
    mapped = flambeau.func.vmap(lambda each: Output(each.loss + 1, each.logits))(given)
    assert mapped.loss.tolist() == [2, 3]


def test_trees_are_taken_apart_inside_compiled_functions():
    kept = {"b": flambeau.ones(2), "a": [flambeau.zeros(2)]}

    @flambeau.compile
    def double(given):
        return pytree.tree_map(lambda a, b: a * 2 + b, given, kept)

    found = double({"b": flambeau.ones(2), "a": [flambeau.ones(2)]})
    assert found["b"].tolist() == [3, 3]
    assert found["a"][0].tolist() == [2, 2]
    assert list(found) == ["b", "a"]


def test_packages_ask_for_the_type_of_a_node():
    point = collections.namedtuple("point", "x y")
    found = [pytree._get_node_type(each) for each in ([], point(1, 2), 3)]
    assert found == [list, collections.namedtuple, int]
