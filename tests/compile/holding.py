"""Ways to hold an object outside a compiled function: what holds it, and how code gets it out."""

import argparse
import collections
import contextvars
import enum
import functools
import itertools
import threading
import types
import weakref

import numpy as np


class Meta(type):
    """A class of classes, which have what it has."""


class Descriptor:
    """A descriptor that holds what it gives."""

    kept = None

    def __get__(self, instance, owner=None):
        return self.kept


class Owner:
    """An object that can be a weak key."""


class Member(enum.Enum):
    ONE = 1


def kept_by(holder, kept):
    holder.kept = kept
    return holder


def in_a_linked_list(kept):
    nodes = [types.SimpleNamespace(value=each, next=None) for each in (1, 2, kept)]
    nodes[0].next, nodes[1].next = nodes[1:]
    return nodes[0]


def last_of(nodes):
    while nodes.next is not None:
        nodes = nodes.next
    return nodes.value


def in_a_context_variable(kept):
    variable = contextvars.ContextVar("variable")
    variable.set(kept)
    return variable


def in_an_array(kept):
    array = np.empty(1, dtype=object)
    array[0] = kept
    return array


def in_a_metaclass(kept):
    return kept_by(Meta, kept)("Made", (), {})


def in_a_descriptor(kept):
    return type("Made", (), {"kept": kept_by(Descriptor(), kept)})


def by_a_weak_key(kept):
    owner = Owner()
    return owner, weakref.WeakKeyDictionary({owner: kept})


def first(held):
    return next(iter(held))


def item(held):
    return held["kept"]


def attribute(held):
    return held.kept


HOLDERS = {
    "list": (lambda kept: [kept], first),
    "dictionary in a list": (lambda kept: [{"kept": kept}], lambda held: held[0]["kept"]),
    "deque": (lambda kept: collections.deque([kept]), lambda held: held[0]),
    "UserDict": (lambda kept: collections.UserDict(kept=kept), item),
    "ChainMap": (lambda kept: collections.ChainMap({}, {"kept": kept}), item),
    "values of a dictionary": (lambda kept: {"a": kept}, lambda held: first(held.values())),
    "view of a dictionary": (lambda kept: {"a": kept}.values(), first),
    "chain": (lambda kept: ([kept], [0]), lambda held: next(itertools.chain(*held))),
    "linked list": (in_a_linked_list, last_of),
    "get": (lambda kept: {"a": lambda: kept}, lambda held: held.get("a")()),
    "get kept outside": (lambda kept: {"a": kept}.get, lambda held: held("a")),
    "partial": (lambda kept: functools.partial(lambda it: it, kept), lambda held: held()),
    "array of objects": (in_an_array, lambda held: held[0]),
    "context variable": (in_a_context_variable, lambda held: held.get()),
    "weak key": (by_a_weak_key, lambda held: held[1][held[0]]),
    "thread-local": (lambda kept: kept_by(threading.local(), kept), attribute),
    "module object": (lambda kept: kept_by(types.ModuleType("held"), kept), attribute),
    "attribute of a function": (lambda kept: kept_by(lambda: None, kept), attribute),
    "argparse": (lambda kept: argparse.Namespace(kept=kept), attribute),
    "member of an enumeration": (lambda kept: kept_by(Member.ONE, kept), attribute),
    "metaclass": (in_a_metaclass, attribute),
    "descriptor": (in_a_descriptor, lambda held: held().kept),
}

#: For objects that have a hash, or can be referred to weakly.
HOLDERS_OF_OBJECTS = {
    "set": (lambda kept: {kept}, first),
    "keys": (lambda kept: {kept: 1}, first),
    "comprehension": (
        lambda kept: {"a": kept},
        lambda held: first({v: k for k, v in held.items()}),
    ),
    "WeakValueDictionary": (lambda kept: weakref.WeakValueDictionary(kept=kept), item),
    "WeakSet": (lambda kept: weakref.WeakSet([kept]), first),
    "weak proxy": (weakref.proxy, lambda held: held),
}
