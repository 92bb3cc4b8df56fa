"""Dual tensors, where PyTorch cannot be asked: mistakes of its own, compiled functions, threads."""

import gc
import threading
import weakref

import pytest

import flambeau
from flambeau.autograd import forward_ad
from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual
from flambeau.compile.errors import CompileWarning


def point():
    return flambeau.tensor([1.0, 2.0, 3.0]), flambeau.tensor([1.0, 0.0, 2.0])


def test_a_tensor_times_itself_in_place():
    with dual_level():
        d = make_dual(*point())
        d.mul_(d)
        assert unpack_dual(d).tangent.tolist() == [2.0, 0.0, 12.0]


def test_tangents_have_the_dtype_of_their_tensor():
    x, v = point()
    with dual_level():
        d = make_dual(x, v.double())
        assert unpack_dual(d * 2).tangent.dtype is flambeau.float32
        with pytest.raises(RuntimeError, match="complex64 for a tensor of"):
            make_dual(x, v + 0j)


def test_the_level_inside_a_compiled_function():
    def slope(x, v):
        with dual_level():
            y = make_dual(x, v).sin()
            y[0] *= 2.0
            return unpack_dual(y * y)

    compiled = flambeau.compile(slope)
    for found, expected in zip(compiled(*point()), slope(*point()), strict=True):
        flambeau.testing.assert_close(found, expected)


def test_a_compiled_function_inside_a_level_runs_eagerly_and_says_so():
    square = flambeau.compile(lambda x: x * x)
    with dual_level(), pytest.warns(CompileWarning, match="dual level"):
        assert unpack_dual(square(make_dual(*point()))).tangent.tolist() == [2.0, 0.0, 12.0]
    # A program made before is no way around it.
    square(point()[0])
    square(point()[0])
    with dual_level(), pytest.warns(CompileWarning, match="dual level"):
        assert unpack_dual(square(make_dual(*point()))).tangent.tolist() == [2.0, 0.0, 12.0]


def test_tangents_live_as_long_as_the_level():
    with dual_level():
        d = make_dual(*point()) * 2
        tangent = weakref.ref(unpack_dual(d).tangent)
        assert tangent() is not None
    gc.collect()
    assert tangent() is None
    assert d.tolist() == [2.0, 4.0, 6.0]


def test_an_exception_ends_the_level():
    with pytest.raises(ZeroDivisionError), dual_level():
        raise ZeroDivisionError
    with dual_level():
        pass


def test_a_level_belongs_to_its_thread():
    found = []

    def other():
        with dual_level():
            found.append(unpack_dual(make_dual(*point()) * 2).tangent.tolist())

    with dual_level():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [[2.0, 0.0, 4.0]]


def test_transformations_may_stand_inside_a_level_and_around_it():
    x, v = point()
    with dual_level():
        value, tangent = flambeau.func.jvp(lambda y: y**3, (make_dual(x, v),), (v,))
        # The derivative of 3 x² v along v is 6 x v².
        assert unpack_dual(tangent).tangent.tolist() == [6.0, 0.0, 72.0]
        assert unpack_dual(value).tangent.tolist() == [3.0, 0.0, 54.0]

    def column(direction):
        with dual_level():
            return unpack_dual(make_dual(x, direction) ** 2).tangent

    jacobian = flambeau.func.vmap(column)(flambeau.eye(3))
    assert jacobian.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


def test_what_a_mapped_function_captures_may_be_dual_and_require_grad():
    x, v = point()
    scale = flambeau.tensor(2.0, requires_grad=True)
    with dual_level():
        d = make_dual(x, v)
        out = flambeau.func.vmap(lambda row: row * d * scale)(flambeau.ones(2, 3))
        tangent = unpack_dual(out).tangent
        assert tangent.tolist() == [[2.0, 0.0, 4.0]] * 2
        assert flambeau.autograd.grad(tangent.sum(), scale)[0].item() == 6.0


def test_batched_cotangents_have_tangents():
    x, v = point()
    leaf = x.clone().requires_grad_()
    with dual_level():
        y = make_dual(leaf, v) ** 3
        (rows,) = flambeau.autograd.grad(y, leaf, flambeau.eye(3), is_grads_batched=True)
        assert unpack_dual(rows).tangent.sum(0).tolist() == [6.0, 0.0, 36.0]


def test_autocast_converts_tangents_too():
    x, v = point()
    with dual_level(), flambeau.autocast("cpu", flambeau.bfloat16):
        out = flambeau.outer(make_dual(x, v), x) @ flambeau.ones(3, 1)
        tangent = unpack_dual(out).tangent
        assert out.dtype is tangent.dtype is flambeau.bfloat16
        assert tangent.flatten().tolist() == [6.0, 0.0, 12.0]


def test_recurrent_and_attention_layers_have_tangents():
    flambeau.manual_seed(0)
    x = flambeau.randn(2, 1, 4)
    v = flambeau.randn(2, 1, 4)
    attention = flambeau.nn.MultiheadAttention(4, 2)
    recurrent = flambeau.nn.GRU(4, 3)

    def run(x):
        return recurrent(attention(x, x, x)[0])[0]

    with dual_level():
        tangent = unpack_dual(run(make_dual(x, v))).tangent
    flambeau.testing.assert_close(tangent, flambeau.func.jvp(run, (x,), (v,))[1])


def test_what_cannot_be_differentiated_forward_says_so():
    class Double(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

    with dual_level(), pytest.raises(NotImplementedError, match=r"Double.*jvp"):
        Double.apply(make_dual(*point()))


def test_writing_out_needs_no_tangent_elsewhere():
    x, v = point()
    with dual_level():
        make_dual(x, v)
        assert flambeau.mul(x, 2, out=flambeau.empty(3)).tolist() == [2.0, 4.0, 6.0]


def test_whether_tangents_are_passed_on_can_be_asked():
    with dual_level():
        assert forward_ad._is_fwd_grad_enabled()
        with forward_ad._set_fwd_grad_enabled(False):
            assert not forward_ad._is_fwd_grad_enabled()
        assert forward_ad._is_fwd_grad_enabled()


def test_a_jacobian_by_an_input_without_elements():
    jacobian = flambeau.autograd.functional.jacobian
    found = jacobian(
        lambda x, y: x.sum() + y, (flambeau.ones(0), flambeau.ones(2)),
        vectorize=True, strategy="forward-mode",
    )  # fmt: skip
    assert [tuple(each.shape) for each in found] == [(2, 0), (2, 2)]
