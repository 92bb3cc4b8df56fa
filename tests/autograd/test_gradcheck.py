"""`gradcheck`: what it finds, and what it says about it."""

from __future__ import annotations

import jax
import pytest

import flambeau
from flambeau.autograd import Function, gradcheck, gradgradcheck
from flambeau.autograd.gradcheck import GradcheckError
from flambeau.core.kernels.kernel import Kernel


def leaf(*values, dtype=flambeau.float64):
    return flambeau.tensor(values or (0.5, -1.5), dtype=dtype, requires_grad=True)


def function_of(forward, backward):
    """A Function of these static methods."""
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (Function,), members).apply


def saving_square(ctx, x):
    ctx.save_for_backward(x)
    return x * x


def square(backward):
    return function_of(saving_square, backward)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_wrong_gradient_is_found(fast_mode):
    wrong = square(lambda ctx, grad: grad * ctx.saved_tensors[0] * 2.01)
    with pytest.raises(GradcheckError, match="output 0 with respect to input 0"):
        gradcheck(wrong, leaf(), fast_mode=fast_mode)
    assert not gradcheck(wrong, leaf(), raise_exception=False, fast_mode=fast_mode)


def test_the_worst_element_is_named_with_both_values():
    wrong = square(lambda ctx, grad: grad * ctx.saved_tensors[0] * flambeau.tensor([2.0, 3.0]))
    with pytest.raises(GradcheckError, match=r"1 of 4.*\[1, 1\], -4\.5 by backward and -3"):
        gradcheck(wrong, leaf())


def test_the_output_and_input_at_fault_are_named():
    def backward(ctx, first, second):
        a, b = ctx.saved_tensors
        return first * b, first * a + second * 5

    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b, b * 4

    with pytest.raises(GradcheckError, match="output 1 with respect to input 1"):
        gradcheck(function_of(forward, backward), (leaf(), leaf()))


def test_a_wrong_imaginary_part_is_found():
    wrong = square(lambda ctx, grad: grad * ctx.saved_tensors[0] * 2)
    z = leaf(0.5 + 1j, -1.5j, dtype=flambeau.complex128)
    with pytest.raises(GradcheckError):
        gradcheck(wrong, z)
    right = square(lambda ctx, grad: grad * (ctx.saved_tensors[0] * 2).conj())
    assert gradcheck(right, z)


def test_a_gradient_that_changes_from_run_to_run_is_found():
    runs = []

    def backward(ctx, grad):
        runs.append(None)
        return grad * ctx.saved_tensors[0] * (2 + 1e-7 * len(runs))

    with pytest.raises(GradcheckError, match="two runs"):
        gradcheck(square(backward), leaf())
    assert gradcheck(square(backward), leaf(), nondet_tol=1e-3)


def test_missing_gradients_that_are_not_taken_for_zeros_are_found():
    class Careless(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    with pytest.raises(GradcheckError, match="get no gradient"):
        gradcheck(Careless.apply, leaf())
    assert gradcheck(Careless.apply, leaf(), check_undefined_grad=False)


def test_missing_gradients_that_count_as_ones_are_found():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return flambeau.ones(2, dtype=flambeau.float64) if grad is None else grad * 2

    with pytest.raises(GradcheckError, match="must count as zeros"):
        gradcheck(Wrong.apply, leaf())


def test_a_function_that_hides_its_dependence_is_found():
    with pytest.raises(GradcheckError, match="should be zero"):
        gradcheck(lambda x: x.detach() * 2, leaf())


def test_single_precision_is_warned_of():
    with pytest.warns(UserWarning, match=r"input 0.*float32.*double"):
        gradcheck(lambda x: x * 2, leaf(dtype=flambeau.float32), eps=1e-2, atol=1e-2)


def test_nothing_to_check_is_an_error():
    with pytest.raises(ValueError, match="requires grad"):
        gradcheck(lambda x: x, flambeau.ones(2))


def test_a_function_must_give_tensors():
    with pytest.raises(TypeError, match="int"):
        gradcheck(lambda x: 3, leaf())


def test_second_gradients_are_checked():
    wrong = square(lambda ctx, grad: grad * (ctx.saved_tensors[0] * 2).detach())
    assert gradcheck(wrong, leaf())
    with pytest.raises(GradcheckError):
        gradgradcheck(wrong, leaf())
    assert gradgradcheck(lambda x: x**3, leaf())


def test_empty_and_scalar_tensors_are_checked():
    assert gradcheck(lambda x: x.sum(), leaf()[:0].detach().requires_grad_())
    assert gradcheck(lambda x: x * x, leaf()[0].detach().requires_grad_())


def test_users_random_numbers_are_left_alone():
    flambeau.manual_seed(0)
    first = flambeau.rand(2)
    flambeau.manual_seed(0)
    gradcheck(lambda x: x * x, leaf(), fast_mode=True)
    gradgradcheck(lambda x: x * x, leaf())
    assert flambeau.rand(2).tolist() == first.tolist()


def test_other_checks():
    options = {"check_grad_dtypes": True, "check_batched_grad": True}
    assert gradcheck(lambda x: x.exp() * x, leaf(), **options)


# Forward mode


def doubled(pushed):
    """A function that doubles, with this as its derivative in forward mode."""
    double = jax.custom_jvp(lambda x: 2 * x)
    double.defjvp(lambda primals, tangents: (2 * primals[0], pushed(tangents[0])))
    kernel = Kernel(double, "double", "DoubleBackward0")
    return lambda x: kernel.run((x,))


ONLY_FORWARD = {"check_forward_ad": True, "check_backward_ad": False}


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_wrong_forward_derivative_is_found(fast_mode):
    wrong = doubled(lambda tangent: 2.01 * tangent)
    options = {**ONLY_FORWARD, "fast_mode": fast_mode}
    with pytest.raises(GradcheckError, match=r"output 0 with respect to input 0(.|\n)*forward"):
        gradcheck(wrong, leaf(), **options)
    assert not gradcheck(wrong, leaf(), raise_exception=False, **options)
    assert gradcheck(doubled(lambda tangent: 2 * tangent), leaf(), **options)


def test_forward_derivatives_along_several_directions_are_compared_with_those_along_each():
    @jax.custom_batching.custom_vmap
    def pushed(tangent):
        return 2 * tangent

    @pushed.def_vmap
    def pushed_batch(axis_size, in_batched, tangents):
        return 3 * tangents, True

    function = doubled(pushed)
    assert gradcheck(function, leaf(), **ONLY_FORWARD)
    with pytest.raises(GradcheckError, match="two changes of input 0"):
        gradcheck(function, leaf(), check_batched_forward_grad=True, **ONLY_FORWARD)


def test_backward_is_not_checked_where_only_forward_is():
    assert gradcheck(lambda x: x * x, leaf(), check_grad_dtypes=True, **ONLY_FORWARD)
    wrong = square(lambda ctx, grad: grad)
    with pytest.raises(NotImplementedError, match="forward"):
        gradcheck(wrong, leaf(), **ONLY_FORWARD)


def test_forward_over_reverse_finds_what_is_wrong_in_the_gradient_of_a_gradient():
    function = doubled(lambda tangent: tangent * flambeau.pi)
    options = {"check_fwd_over_rev": True, "check_rev_over_rev": False}
    assert gradgradcheck(lambda x: x**3, leaf(), check_undefined_grad=False, **options)
    with pytest.raises(GradcheckError, match="forward"):
        gradgradcheck(lambda x: function(x) ** 2 * x, leaf(), check_undefined_grad=False, **options)


def test_a_function_that_seeds_and_draws_is_checked_in_forward_mode():
    def function(x):
        flambeau.manual_seed(0)
        return flambeau.nn.functional.dropout(x * x, 0.5)

    assert gradcheck(function, leaf(), check_forward_ad=True, check_batched_forward_grad=True)


@pytest.mark.parametrize(
    ("check", "settings", "needed"),
    [
        (gradcheck, {"check_backward_ad": False}, "check_forward_ad or check_backward_ad"),
        (gradcheck, {**ONLY_FORWARD, "check_batched_grad": True}, "check_backward_ad"),
        (gradcheck, {"check_batched_forward_grad": True}, "check_forward_ad"),
        (gradgradcheck, {"check_rev_over_rev": False}, "check_fwd_over_rev or"),
        (
            gradgradcheck,
            {"check_fwd_over_rev": True, "check_rev_over_rev": False},
            "check_undefined_grad=True needs check_rev_over_rev",
        ),
    ],
)
def test_settings_that_exclude_each_other(check, settings, needed):
    with pytest.raises(AssertionError, match=needed):
        check(lambda x: x * x, leaf(), **settings)
