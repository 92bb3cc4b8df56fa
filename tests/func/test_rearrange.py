"""`rearrange`: what it says of sizes that do not fit; the rest is compared with PyTorch."""

import pytest

import flambeau
from flambeau.func import rearrange


@pytest.mark.parametrize(
    ("pattern", "sizes", "facts"),
    [
        ("(a b) c -> a b c", {}, r"\['a', 'b'\].*a=2"),
        ("(a b) c -> a b c", {"a": 4}, "size 6"),
        ("(a b) c -> a b c", {"a": 0}, "size 6"),
        ("(a b) c -> a b c", {"a": 2, "b": 2}, "size 6"),
        ("a c -> c a", {"a": 5}, "size 6"),
        ("1 c -> c", {}, "size 6"),
    ],
)
def test_sizes_that_do_not_fit(pattern, sizes, facts):
    with pytest.raises(ValueError, match=facts):
        rearrange(flambeau.zeros(6, 2), pattern, **sizes)
