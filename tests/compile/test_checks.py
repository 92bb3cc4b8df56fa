"""`compiler.checks`: a compiled call raises the error of eager code, and changes nothing."""

import itertools
import traceback

import jax
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import Tensor, nn
from flambeau.compiler import checks
from flambeau.core.tape import checks as module
from flambeau.func.control_flow import scan

X = flambeau.arange(12.0).reshape(4, 3) / 12
ROWS = flambeau.ones(2, 3)
IMAGE = flambeau.ones(1, 1, 2, 2)
LENGTHS = flambeau.tensor([2])
LU, _ = flambeau.linalg.lu_factor(flambeau.eye(3))

# Functions of an index, with a good one and bad ones.
OPERATORS = {
    "embedding": (lambda i: F.embedding(i, X), [0, 3], [0, 4], [-1, 0]),
    "embedding_bag": (lambda i: F.embedding_bag(i.reshape(1, 2), X), [0, 3], [0, 4]),
    "one_hot": (lambda i: F.one_hot(i, 4), [0, 3], [0, 4], [-1, 0]),
    "cross_entropy": (lambda i: F.cross_entropy(ROWS, i), [0, -100], [0, 3], [-1, 0]),
    "nll_loss": (lambda i: F.nll_loss(ROWS, i), [0, 2], [0, 3]),
    "linear_cross_entropy": (lambda i: F.linear_cross_entropy(ROWS, X, i), [0, 3], [0, 4]),
    "multi_margin_loss": (lambda i: F.multi_margin_loss(ROWS, i), [0, 2], [0, 3]),
    "multilabel_margin_loss": (
        lambda i: F.multilabel_margin_loss(ROWS[0], i), [0, 2, -1], [0, 3, -1], [-2, 0, 0],
    ),
    "ctc_loss": (
        lambda i: F.ctc_loss(flambeau.zeros(5, 1, 4), i, LENGTHS + 3, LENGTHS),
        [[1, 3, 9]], [[1, 4, 9]],
    ),
    "max_unpool2d": (
        lambda i: F.max_unpool2d(IMAGE, i, 2), [[[[0, 3], [9, 15]]]], [[[[0, 3], [9, 16]]]],
    ),
    "gather": (lambda i: X.gather(0, i), [[0, 3]], [[0, 4]], [[-1, 0]]),
    "take": (lambda i: X.take(i), [-12, 11], [0, 12], [-13, 0]),
    "take_along_dim": (lambda i: X.take_along_dim(i, 0), [[-4, 3, 0]], [[0, 0, 4]]),
    "index_select": (lambda i: X.index_select(0, i), [0, 3], [0, 4], [-1, 0]),
    "index_add": (lambda i: X.index_add(0, i, ROWS), [0, 3], [0, 4]),
    "index_copy": (lambda i: X.index_copy(0, i, ROWS), [0, 3], [0, 4]),
    "index_fill": (lambda i: X.index_fill(0, i, 1.0), [-4, 3], [0, 4], [-5, 0]),
    "index_reduce": (lambda i: X.index_reduce(0, i, ROWS, "prod"), [0, 3], [0, 4]),
    "put": (lambda i: X.put(i, flambeau.ones(2)), [-12, 11], [0, 12]),
    "scatter": (lambda i: X.scatter(0, i, 1.0), [[0, 3]], [[0, 4]], [[-1, 0]]),
    "scatter_add": (lambda i: X.scatter_add(0, i, ROWS), [[0, 3]], [[0, 4]]),
    "scatter_reduce": (lambda i: X.scatter_reduce(0, i, ROWS, "amax"), [[0, 3]], [[0, 4]]),
    "subscript": (lambda i: X[i], [-4, 3], [0, 4], [-5, 0]),
    "subscripts": (lambda i: X[i, i], [0, -3], [0, 3], [-4, 0]),
    "number": (lambda i: X[i], 3, 4, -5),
    "number among others": (lambda i: X[:, i, None], 2, 3, -4),
    "index_put": (lambda i: X.index_put((i,), ROWS), [-4, 3], [0, 4]),
    "searchsorted": (
        lambda i: flambeau.searchsorted(X[:, 0], ROWS, sorter=i), [0, 1, 2, 3], [0, 1, 2, 4],
    ),
    "lu_solve": (
        lambda i: flambeau.linalg.lu_solve(LU, i.int(), ROWS.T), [1, 2, 3], [1, 2, 4], [0, 2, 3],
    ),
    "sparse_coo_tensor": (
        lambda i: flambeau.sparse_coo_tensor(i, flambeau.ones(2), (4,)).to_dense(),
        [[0, 3]], [[0, 4]], [[-1, 0]],
    ),
    "cond": (
        lambda i: flambeau.cond(X.sum() > 0, lambda i: X[i] + 1, lambda i: X[i] - 1, (i,)),
        [0, 3], [0, 4],
    ),
    "while_loop": (
        lambda i: flambeau.while_loop(
            lambda i, x: i[0] < 3, lambda i, x: (i + 1, x + F.embedding(i, X)), (i, ROWS)
        ),
        [1, 2], [1, 3],
    ),
    "checkpoint": (
        lambda i: flambeau.utils.checkpoint.checkpoint(lambda i: X[i] * 2, i, use_reentrant=False),
        [0, 3], [0, 4],
    ),
    "grad": (lambda i: flambeau.func.grad(lambda x: x[i].pow(2).sum())(X), [0, 3], [0, 4]),
}  # fmt: skip


def error_of(function, *args):
    """The type and text of the error of a call, and the innermost line of this file."""
    with pytest.raises((IndexError, RuntimeError)) as caught:
        function(*args)
    lines = [n for frame, n in traceback.walk_tb(caught.tb) if frame.f_globals is globals()]
    return caught.type, str(caught.value), lines[1:]


def equal(one, other):
    leaves = flambeau.utils._pytree.tree_leaves
    return all(map(flambeau.equal, leaves(one), leaves(other)))


@pytest.mark.parametrize("name", OPERATORS)
def test_the_error_is_that_of_eager_code(name):
    function, good, *bad = OPERATORS[name]
    good, *bad = map(flambeau.tensor, (good, *bad))
    step = flambeau.compile(function, fullgraph=True)
    with checks(indices=True):
        for _ in range(2):
            assert equal(step(good), function(good))
            for index in bad:
                assert error_of(step, index) == error_of(function, index)
    assert step.program_count == 1
    for index in bad:
        step(index)
    assert step.program_count == 2


@pytest.mark.parametrize("at", range(2))
def test_a_scan_checks_each_of_its_steps(at):
    def gathered(x, index):
        return scan(lambda carry, i: (carry + x[i].sum(), x[i]), flambeau.zeros(()), index, dim=1)

    step = flambeau.compile(gathered, fullgraph=True)
    index = flambeau.tensor([[0, 1], [2, 3]])
    with checks(indices=True):
        assert equal(step(X, index), gathered(X, index))
        index[0, at] = 4
        assert error_of(step, X, index) == error_of(gathered, X, index)


def training():
    """A model, its optimizer, and a step."""
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    optimizer = flambeau.optim.Adam(model.parameters())

    def step(index, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(index), target)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


INDEX, TARGET = flambeau.tensor([0, 4]), flambeau.tensor([0, 2])


def state_of(model, optimizer):
    state = flambeau.utils._pytree.tree_leaves(optimizer.state_dict())
    state = [each for each in state if isinstance(each, flambeau.Tensor)]
    return [each.clone() for each in (*model.parameters(), *state, flambeau.get_rng_state())]


@pytest.mark.parametrize("bad", [(INDEX + 1, TARGET), (INDEX, TARGET + 1)])
def test_a_step_that_fails_changes_nothing(bad):
    model, optimizer, step = training()
    compiled = flambeau.compile(step, fullgraph=True)
    with checks(indices=True):
        compiled(INDEX, TARGET)
        # Dropout has drawn before the error of the loss, as in an eager call.
        before = state_of(model, optimizer)[:-1]
        for _ in range(10):
            with pytest.raises(IndexError, match="out of range"):
                compiled(*bad)
        assert equal(state_of(model, optimizer)[:-1], before)
        compiled(INDEX, TARGET)
        assert compiled.program_count == 1


def test_a_step_that_passes_is_the_same_step():
    states = []
    for options in ({}, {"indices": True}, {"indices": True, "nan": True}):
        model, optimizer, step = training()
        compiled = flambeau.compile(step, fullgraph=True)
        with checks(**options):
            for _ in range(3):
                compiled(INDEX, TARGET)
        states.append(state_of(model, optimizer))
    assert equal(states[0], states[1])
    assert equal(states[0], states[2])


def test_a_compiled_module_checks_too():
    model, _, _ = training()
    compiled = flambeau.compile(model, fullgraph=True)
    with checks(indices=True):
        compiled(INDEX).sum().backward()
        gradients = [each.grad.clone() for each in model.parameters()]
        assert error_of(compiled, INDEX + 1) == error_of(model, INDEX + 1)
    model.zero_grad()
    assert gradients[0].any()


def test_functions_that_ask_for_values_check_too():
    def choose(x, index):
        return x[index] if (x > 0).any() else -x[index]

    step = flambeau.compile(choose)
    good, bad = flambeau.tensor([0, 3]), flambeau.tensor([0, 4])
    with checks(indices=True):
        for x, _ in itertools.product((X, -X), range(4)):
            assert equal(step(x, good), choose(x, good))
            assert error_of(step, x, bad) == error_of(choose, x, bad)


def test_inside_vmap_nothing_is_checked():
    def rows(x, index):
        return flambeau.func.vmap(lambda i: x[i])(index)

    step = flambeau.compile(rows, fullgraph=True)
    with checks(indices=True):
        assert step(X, flambeau.tensor([0, 4]))[1].isnan().all()


def test_inside_functions_of_jax_nothing_is_checked():
    def picked(x, index):
        pick = jax.jit(lambda x, i: F.embedding(Tensor._wrap(i), Tensor._wrap(x)).jax())
        return Tensor._wrap(pick(x.jax(), index.jax()))

    step = flambeau.compile(picked, fullgraph=True)
    with checks(indices=True):
        assert step(X, flambeau.tensor([0, 4]))[1].isnan().all()


def test_a_list_that_is_out_of_range_is_an_error_without_checks():
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        flambeau.compile(lambda x: x[[0, 4]], fullgraph=True)(X)


def root(x):
    return (x - 1).sqrt()  # the line of the operator


def smooth(x):
    return x.pow(2).sum()


def test_the_operator_that_gave_nan_is_named():
    step = flambeau.compile(lambda x: root(x).sum() + smooth(x), fullgraph=True)
    with checks(nan=True):
        assert flambeau.equal(step(ROWS), smooth(ROWS))
        for call in (step, root):
            kind, text, lines = error_of(call, X)
            assert (kind, lines[-1]) == (RuntimeError, root.__code__.co_firstlineno + 1)
            assert "sqrt() gave nan for inputs without nan" in text
    assert step(X).isnan()


def test_the_gradient_that_is_nan_is_named_and_nothing_is_written():
    weight = nn.Parameter(flambeau.ones(()))

    def step(x):
        weight.grad = None
        (weight * root(x) * 0.0).sum().backward()
        with flambeau.no_grad():
            weight.sub_(weight.grad)

    x = flambeau.ones(2, requires_grad=True)
    compiled = flambeau.compile(step, fullgraph=True)
    with checks(nan=True), pytest.raises(RuntimeError, match="SqrtBackward0 gave nan") as caught:
        compiled(x)
    assert "the line of the operator" in caught.value.__notes__[0]
    assert weight.item() == 1


def test_nan_that_is_given_is_no_error():
    nan = float("nan")
    step = flambeau.compile(lambda x: x.masked_fill(x > 0, nan) + flambeau.full_like(x, nan))
    with checks(nan=True):
        assert step(X).isnan().all()
        assert (X * flambeau.tensor(nan)).isnan().all()
        assert F.pad(X, (1, 1), value=nan).isnan().any()


def test_a_block_ends_and_settings_are_independent():
    with checks(indices=True):
        with checks(nan=True):
            assert flambeau.is_anomaly_enabled()
            with pytest.raises(RuntimeError, match="gave nan"):
                root(X)
            with pytest.raises(IndexError):
                flambeau.compile(lambda i: X[i])(flambeau.tensor(4))
        assert not flambeau.is_anomaly_enabled()
        assert root(X).isnan().any()
    assert flambeau.compile(lambda i: X[i])(flambeau.tensor(4)).isnan().all()


def test_wrong_settings_are_refused():
    with pytest.raises(TypeError, match=r"checks\(\): nan must be a bool, got str"):
        checks(nan="inf")  # pyright: ignore[reportArgumentType]


def test_the_environment_sets_them(monkeypatch):
    with checks():
        monkeypatch.setenv("FLAMBEAU_CHECKS", "nan, indices")
        module._from_environment()
        assert module.now() == (True, True)
    assert module.now() == (False, False)
    monkeypatch.setenv("FLAMBEAU_CHECKS", "indexes")
    with pytest.raises(ValueError, match=r"FLAMBEAU_CHECKS .* got 'indexes'"):
        module._from_environment()
