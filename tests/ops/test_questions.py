"""Questions about objects and tensors."""

import pytest

import flambeau

X = flambeau.tensor([[1.0, 2.0]])


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: flambeau.is_tensor(X), True),
        (lambda: flambeau.is_tensor([1.0]), False),
        (lambda: flambeau.is_floating_point(X), True),
        (lambda: flambeau.is_floating_point(X.int()), False),
        (lambda: flambeau.is_complex(X.cfloat()), True),
        (lambda: flambeau.is_signed(X.byte()), False),
        (lambda: flambeau.is_inference(X), False),
        (lambda: flambeau.is_nonzero(X[0, 0]), True),
        (lambda: (X[0, 0] - 1).is_nonzero(), False),
        (lambda: flambeau.is_same_size(X, X.int()), True),
        (lambda: X.is_same_size(X.T), False),
        (lambda: flambeau.numel(X), 2),
        (lambda: flambeau.get_device(X), -1),
        (lambda: X.is_sparse or X.is_quantized or X.is_nested or X.is_pinned(), False),
        (lambda: X.dim_order(), (0, 1)),
    ],
)
def test_answers(ask, answer):
    assert ask() == answer


def test_what_needs_no_conversion_gives_the_tensor_itself():
    assert X.pin_memory() is X
    assert X.to_dense() is X
    assert X.to_dense(flambeau.float64).dtype is flambeau.float64


@pytest.mark.parametrize("name", ["is_floating_point", "is_complex", "is_nonzero", "numel"])
def test_questions_about_tensors_need_one(name):
    with pytest.raises(TypeError, match=rf"{name}\(\): input must be a Tensor, got list"):
        getattr(flambeau, name)([1.0])


def test_the_truth_of_several_elements_is_refused():
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        flambeau.is_nonzero(X)


def test_a_subclass_may_answer_for_itself():
    class Evasive(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    assert flambeau.numel(X.as_subclass(Evasive)) == "numel"
