"""nn.init where PyTorch is no referee: properties, warnings, compiled functions."""

import numpy as np
import pytest

import flambeau
from flambeau.nn import init

IN_PLACE = [
    init.uniform_, init.normal_, init.trunc_normal_, init.ones_, init.zeros_, init.eye_,
    init.xavier_uniform_, init.xavier_normal_, init.kaiming_uniform_, init.kaiming_normal_,
    init.orthogonal_,
]  # fmt: skip


@pytest.mark.parametrize("fill", IN_PLACE)
def test_a_parameter_stays_a_leaf_and_is_returned(fill):
    parameter = flambeau.nn.Parameter(flambeau.full((4, 3), 7.0))
    assert fill(parameter) is parameter
    assert parameter.is_leaf
    assert parameter.requires_grad
    assert 7.0 not in parameter.detach().flatten().tolist()


@pytest.mark.parametrize("fill", IN_PLACE)
def test_it_works_in_a_compiled_function(fill):
    program = flambeau.compile(lambda: fill(flambeau.full((4, 3), 7.0)))
    filled = program()
    assert filled.shape == (4, 3)
    assert 7.0 not in filled.flatten().tolist()


def test_the_zeros_of_sparse_are_in_every_column_of_a_compiled_function():
    filled = flambeau.compile(lambda: init.sparse_(flambeau.empty(5, 3), 0.5))()
    assert (filled == 0).sum(0).tolist() == [3, 3, 3]


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (6, 2, 2)], ids=str)
def test_orthogonal_rows_or_columns_are_orthonormal(shape):
    matrix = init.orthogonal_(flambeau.empty(shape)).reshape(shape[0], -1).numpy()
    product = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, np.eye(min(matrix.shape)), atol=1e-6)


def test_a_part_of_a_weight_can_be_filled():
    weight = flambeau.zeros(6, 2)
    init.ones_(weight[2:4])
    assert weight.sum(1).tolist() == [0.0, 0.0, 2.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "fill",
    [
        lambda: init.kaiming_uniform_(flambeau.empty(0, 3)),
        lambda: init.kaiming_normal_(flambeau.empty(0, 3)),
        lambda: init.trunc_normal_(flambeau.empty(3), mean=5.0),
    ],
)
def test_warnings_name_the_callers_line(fill):
    with pytest.warns(UserWarning, match=r"\[0, 3\]|deviations") as caught:
        fill()
    assert caught[0].filename == __file__


def test_old_names_warn_and_work():
    with pytest.warns(FutureWarning, match="call nn.init.constant_") as caught:
        filled = init.constant(flambeau.empty(2), 3.0)
    assert caught[0].filename == __file__
    assert filled.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("fill", "shape", "facts"),
    [
        (init.eye_, (3,), ["eye_", "2 dimensions", "[3]"]),
        (init.dirac_, (3, 3), ["dirac_", "3, 4 or 5", "[3, 3]"]),
        (lambda t: init.dirac_(t, groups=2), (3, 3, 3), ["3", "groups=2"]),
        (init.xavier_normal_, (3,), ["at least 2", "[3]"]),
        (init.orthogonal_, (3,), ["orthogonal_", "[3]"]),
        (lambda t: init.sparse_(t, 0.5), (3,), ["sparse_", "[3]"]),
        (lambda t: init.kaiming_normal_(t, mode="fan"), (3, 3), ["'fan'", "fan_out"]),
        (lambda t: init.kaiming_normal_(t, nonlinearity="x"), (3, 3), ["'x'", "leaky_relu"]),
    ],
)
def test_errors_name_the_facts(fill, shape, facts, device):
    with pytest.raises(ValueError, match=r".") as caught:
        fill(flambeau.empty(shape, device=device))
    assert all(fact in str(caught.value) for fact in facts)


def test_subclasses_may_take_over():
    taken = []

    class Watching(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            taken.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    init.uniform_(flambeau.zeros(2).as_subclass(Watching))
    assert taken[0] == "uniform_"
