"""Handles, hooks on every module, and hooks bound to theirs."""

import copy
import gc
import pickle

import pytest

from flambeau import nn
from flambeau.nn import hooks
from flambeau.nn.hooks import BoundHook, RemovableHandle, add_hook
from flambeau.nn.registry import HookRegistry


def echo(*args):
    return args


@pytest.fixture(autouse=True)
def no_global_hooks():
    yield
    for name, registry in vars(hooks).items():
        if name.startswith("_global_") and isinstance(registry, dict):
            registry.clear()
    hooks._global_is_full_backward_hook = None


def test_add_hook_marks_and_its_handle_unmarks():
    registry, marked, unmarked = HookRegistry(), HookRegistry(), HookRegistry()
    handle = add_hook(registry, echo, marks=[(marked, True), (unmarked, False)])
    assert (list(registry), list(marked), list(unmarked)) == ([handle.id], [handle.id], [])
    handle.remove()
    assert not registry
    assert not marked


def test_prepended_hook_is_first():
    registry = HookRegistry()
    first = add_hook(registry, echo)
    second = add_hook(registry, echo, prepend=True)
    assert list(registry) == [second.id, first.id]


def test_handle_in_a_with_block():
    registry = HookRegistry()
    with add_hook(registry, echo) as handle:
        assert isinstance(handle, RemovableHandle)
        assert registry
    assert not registry


def test_handle_keeps_working_with_pickled_hooks():
    registry = HookRegistry()
    handle = add_hook(registry, echo)
    other, other_handle = pickle.loads(pickle.dumps((registry, handle)))
    other_handle.remove()
    assert (len(registry), len(other)) == (1, 0)
    assert add_hook(other, echo).id > handle.id


@pytest.mark.parametrize("full", [True, False])
def test_global_backward_hooks_are_of_one_kind(full):
    kinds = {
        True: hooks.register_module_full_backward_hook,
        False: hooks.register_module_backward_hook,
    }
    kinds[full](echo)
    assert list(hooks.global_backward_hooks(full)) == [echo]
    assert list(hooks.global_backward_hooks(not full)) == []
    with pytest.raises(RuntimeError, match=r"global module hooks.*cannot be mixed"):
        kinds[not full](echo)


def test_registration_hooks_filter_in_order():
    registry = HookRegistry()
    add_hook(registry, lambda module, name, member: [*member, 1])
    add_hook(registry, lambda module, name, member: None)
    add_hook(registry, lambda module, name, member: [*member, 2])
    assert hooks.filter_registration(registry, None, "x", []) == [1, 2]


def test_all_global_hooks_compare_equal_until_one_changes():
    before = hooks.all_global_hooks()
    assert before == hooks.all_global_hooks()
    with hooks.register_module_forward_hook(echo, always_call=True):
        assert before != hooks.all_global_hooks()
    assert before == hooks.all_global_hooks()


def test_bound_hook_gives_its_module_first():
    module = nn.Module()
    assert BoundHook(echo, module)(1, 2) == (module, 1, 2)
    assert BoundHook(echo)(1, 2) == (1, 2)
    assert BoundHook(echo).__name__ == "echo"


def test_bound_hook_does_not_keep_its_module_alive():
    hook = BoundHook(echo, nn.Module())
    gc.collect()
    with pytest.raises(RuntimeError, match="no longer exists"):
        hook(1)
    with pytest.raises(RuntimeError, match="no longer exists"):
        copy.copy(hook)


def test_bound_hook_follows_a_copy_of_its_module():
    module = nn.Module()
    module.hook = BoundHook(echo, module)
    other = copy.deepcopy(module)
    assert other.hook(1) == (other, 1)
    assert module.hook(1) == (module, 1)
