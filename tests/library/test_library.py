"""`library.impl` and `library.define` of a Library, and operators with overloads."""

import pytest

import flambeau
from flambeau import library, ops


def test_impl_and_define_of_a_library_are_decorators():
    mine = library.Library("test_library", "DEF")
    mine.define("twice(Tensor x) -> Tensor")

    @library.impl(mine, "twice", "CompositeExplicitAutograd")
    def twice(x):
        return 2 * x

    @library.define(mine, "thrice(Tensor x) -> Tensor")
    def thrice(x):
        return 3 * x

    assert ops.test_library.twice(flambeau.ones(1)).tolist() == [2.0]
    assert ops.test_library.thrice(flambeau.ones(1)).tolist() == [3.0]
    assert twice(1) == 2
    assert thrice(1) == 3
    mine._destroy()


def test_overloads_and_arguments_that_are_written_to():
    library.define("test_overloads::double", "(Tensor A) -> Tensor")
    library.define("test_overloads::double.out", "(Tensor A, Tensor! out) -> ()")
    library.impl("test_overloads::double", "CPU", lambda A: 2 * A)

    @library.impl("test_overloads::double.out", "CPU")
    def double(A, out):
        out.copy_(2 * A)

    packet, result = ops.test_overloads.double, flambeau.zeros(2)
    packet.out(flambeau.ones(2), result)
    assert result.tolist() == [2.0, 2.0]
    packet(flambeau.full((2,), 2.0), out=result)
    assert result.tolist() == [4.0, 4.0]
    assert packet(flambeau.ones(1)).tolist() == packet.default(flambeau.ones(1)).tolist() == [2.0]
    assert packet.overloads() == ["default", "out"]
    assert dir(ops.test_overloads) == ["double"]
    with pytest.raises(AttributeError, match="double' has no overload 'other'"):
        _ = packet.other
    with pytest.raises(RuntimeError, match=r"no overload for these arguments:\n.*\n.*"):
        packet(1)
