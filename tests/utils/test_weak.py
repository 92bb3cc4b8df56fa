"""Dictionaries whose keys are weak and compared by identity."""

import gc
import weakref

import pytest

import flambeau
from flambeau.utils.weak import WeakIdKeyDictionary, WeakIdRef

pytestmark = pytest.mark.usefixtures("young_heap")


def test_keys_are_compared_by_identity():
    one, other = flambeau.ones(2), flambeau.ones(2)
    known = WeakIdKeyDictionary({one: 1})
    known[other] = 2
    assert (known[one], known[other], len(known)) == (1, 2, 2)
    assert [each is one for each in known] == [True, False]
    del known[one]
    assert one not in known
    with pytest.raises(KeyError):
        known[one]
    assert "a string" not in WeakIdKeyDictionary()


def test_an_entry_goes_with_its_key():
    key = flambeau.ones(2)
    known = WeakIdKeyDictionary({key: 1})
    del key
    gc.collect()
    assert len(known) == 0


def test_a_dictionary_goes_before_its_keys():
    key = flambeau.ones(2)
    known = WeakIdKeyDictionary({key: 1})
    gone = weakref.ref(known)
    del known
    gc.collect()
    assert gone() is None
    del key


def test_references_to_what_is_gone_equal_only_themselves():
    key = flambeau.ones(2)
    one, other = WeakIdRef(key), WeakIdRef(key, lambda reference: None)
    assert one == other
    assert hash(one) == hash(other)
    assert one != key
    del key
    gc.collect()
    assert one == one
    assert one != other
