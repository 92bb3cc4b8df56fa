"""Functions that ask for values and may run eagerly: programs take the answers for granted."""

import math
import random
import warnings

import pytest

import flambeau
from flambeau import nn
from flambeau.compile import function as compiling
from flambeau.compile.errors import CompileWarning


def called(step, *args):
    """The result of a call, and whether it ran eagerly."""
    runs = []

    class Counting(compiling.Learning):
        def __enter__(self):
            runs.append(self)
            return super().__enter__()

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", CompileWarning)
        patch.setattr(compiling, "Learning", Counting)
        result = step(*args)
    return result, bool(runs)


def chooses(x):
    return x * 2 if (x > 0).all() else -x


ONES, MINUS = flambeau.ones(3), -flambeau.ones(3)


def test_after_an_eager_call_a_choice_is_a_program():
    step = flambeau.compile(chooses, fullgraph=False)
    results, ran = zip(*(called(step, ONES) for _ in range(4)), strict=True)
    assert [each.tolist() for each in results] == [[2, 2, 2]] * 4
    assert ran[2:] == (False, False)
    assert step.program_count == 1


@pytest.mark.parametrize("shape", [(1,), (1, 1)], ids=str)
def test_the_only_element_of_any_shape_is_an_answer(shape):
    def choose(x):
        return x * 2 if x.sum().reshape(shape) > 0 else -x

    step = flambeau.compile(choose, fullgraph=False)
    results, ran = zip(*(called(step, ONES) for _ in range(4)), strict=True)
    assert [each.tolist() for each in results] == [[2, 2, 2]] * 4
    assert ran[2:] == (False, False)
    assert step.program_count == 1


def test_other_answers_leave_nothing_behind_and_get_a_program_of_their_own():
    state = nn.Buffer(flambeau.zeros(()))

    def counts(x):
        state.add_(1)
        return chooses(x) + state

    step = flambeau.compile(counts, fullgraph=False)
    for number, x in enumerate([ONES, ONES, ONES, MINUS, MINUS, MINUS, ONES, MINUS], 1):
        result, ran = called(step, x)
        assert state.item() == number
        assert result.tolist() == [number + (2 if x is ONES else 1)] * 3
    assert not ran
    assert step.program_count == 2


def test_integers_give_shapes():
    def spread(index):
        return flambeau.zeros(int(index.max()) + 1).index_add(0, index, flambeau.ones(len(index)))

    step = flambeau.compile(spread, fullgraph=False)
    for _ in range(3):
        result, ran = called(step, flambeau.tensor([0, 2, 2]))
    assert (result.tolist(), ran) == ([1, 0, 2], False)
    assert called(step, flambeau.tensor([0, 1, 1]))[0].tolist() == [1, 2]


def test_a_float_is_taken_for_granted_once_two_calls_have_found_it():
    def scaled(x, rate):
        return x * float(rate)

    step = flambeau.compile(scaled, fullgraph=False)
    ran = [called(step, ONES, flambeau.tensor(0.5))[1] for _ in range(5)]
    assert ran[-2:] == [False, False]
    assert called(step, ONES, flambeau.tensor(0.25))[0].tolist() == [0.25] * 3


def test_a_list_of_elements_is_taken_for_granted_too():
    def picks(x, order):
        axes = flambeau.arange(x.ndim).tolist()
        return x.sum(axes) + x[order.tolist()]

    step = flambeau.compile(picks, fullgraph=False)
    orders = [flambeau.tensor(each) for each in ([2, 0], [1])]
    for _ in range(4):
        for order in orders:
            result, ran = called(step, SOME, order)
            assert result.tolist() == picks(SOME, order).tolist()
    assert not ran
    assert step.program_count == 2


def test_other_elements_of_a_list_are_other_answers():
    step = flambeau.compile(lambda x, order: x[order.tolist()], fullgraph=False)
    for order in ([0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [0, 1], [1, 0]):
        assert step(SOME, flambeau.tensor(order)).tolist() == SOME[order].tolist()


def repeated(step, numbers):
    for number in numbers:
        assert step(ONES, flambeau.tensor(number)).tolist() == [number] * 3


def test_zeros_of_both_signs_are_different_answers():
    step = flambeau.compile(lambda x: math.copysign(1.0, x.item()) + x, fullgraph=False)
    for number in (0.0, 0.0, 0.0, 0.0, -0.0, -0.0, 0.0, -0.0):
        result, _ = called(step, flambeau.tensor(number))
        assert result.item() == math.copysign(1.0, number)


def test_what_differs_at_each_call_runs_eagerly_in_the_end():
    step = flambeau.compile(lambda x, rate: x * rate.item(), fullgraph=False)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        repeated(step, [0.0, 1.0, 2.0, 3.0])
    assert step.program_count == 0
    repeated(step, [4.0, 4.0])


def test_calls_that_never_come_again_and_ask_are_warned_of_once(capsys):
    @flambeau.compile
    def report(number, x):
        return f"{number}: {x.sum().item()}"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [report(number, flambeau.ones(3)) for number in range(20)]
    assert found == [f"{number}: 3.0" for number in range(20)]
    (warning,) = caught
    assert warning.category is CompileWarning
    for text in ("in report: return f", "each of the last 8 calls had a new shape, or a new num"):
        assert text in str(warning.message)
    flambeau.compiler.explain(report)
    assert "each of the last 8 calls had a new shape" in capsys.readouterr().out


def test_new_shapes_that_come_again_are_not_warned_of():
    @flambeau.compile
    def clipped(x):
        return x / 2 if x.sum() > 1 else x

    for length in (2, 3, 4, 5, 6) * 2:
        clipped(flambeau.ones(length))
    assert clipped.program_count == 5


def test_answers_that_are_rarely_those_of_before_run_eagerly_in_the_end():
    step = flambeau.compile(lambda x, n: x * int(n), fullgraph=False)
    twice = [number for number in range(compiling.MOST_SITUATIONS) for _ in range(3)]
    with pytest.warns(CompileWarning, match="run eagerly|runs eagerly"):
        repeated(step, [*twice, *range(9)])
    assert step.program_count <= compiling.MOST_SITUATIONS


def test_programs_for_other_answers_say_the_line_and_both_values(capsys):
    step = flambeau.compile(chooses, fullgraph=False)
    for x in (ONES, ONES, MINUS, MINUS):
        step(x)
    flambeau.compiler.explain(step)
    line = chooses.__code__.co_firstlineno + 1
    text = f"the value that Python asks for at test_answers.py:{line} was True, and is False"
    assert text in capsys.readouterr().out


def test_an_answer_that_a_program_never_computes_gets_no_second_program():
    # A compiled function draws other numbers than eager code.
    def draws(x):
        return x * flambeau.rand(()).item()

    def run():
        for _ in range(3 * compiling.MOST_SITUATIONS):
            flambeau.manual_seed(0)
            step(ONES)

    step = flambeau.compile(draws, fullgraph=False)
    with pytest.warns(CompileWarning, match=r"test_answers.py:\d+ was 0\.\d+, and is 0\.\d+"):
        run()
    assert step._compilations == 1


def test_a_function_that_draws_numbers_of_python_runs_eagerly():
    generator = random.Random(0)

    def draws(x):
        return chooses(x) + generator.random()

    step = flambeau.compile(draws, fullgraph=False)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        found = [step(ONES)[0].item() for _ in range(4)]
    assert len({*found}) == 4


def test_a_training_step_with_checks_is_one_program():
    model = nn.Linear(3, 1)
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)

    def train(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        if not loss.isfinite():
            raise ValueError("the loss is not finite")
        loss.backward()
        optimizer.step()
        return loss

    step = flambeau.compile(train, fullgraph=False)
    losses = []
    for _ in range(5):
        loss, ran = called(step, ONES)
        losses.append(loss.item())
    assert not ran
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
    before = [each.clone() for each in model.parameters()]
    with pytest.raises(ValueError, match="not finite"):
        step(ONES * float("nan"))
    assert all(map(flambeau.equal, model.parameters(), before))


def test_with_fullgraph_a_question_stays_an_error():
    with pytest.raises(flambeau.CompileError, match="if tensor"):
        flambeau.compile(chooses, fullgraph=True)(ONES)


def test_gradients_outside_of_such_a_function_are_right():
    x = flambeau.ones(3, requires_grad=True)
    step = flambeau.compile(chooses, fullgraph=False)
    for _ in range(4):
        x.grad = None
        called(step, x)[0].sum().backward()
        assert x.grad.tolist() == [2, 2, 2]


SOME = flambeau.tensor([1.0, -2.0, 3.0])


def length(x):
    chosen = x[x > 0]
    return chosen * len(chosen)


def lengths_in_turn(x):
    found = [x[x > bound] for bound in (0, 2, -3)]
    return flambeau.stack([each.sum() / len(each) for each in found])


def positions(x):
    (found,) = flambeau.where(x > 0)
    return flambeau.zeros(len(found)) + found


def written(x):
    x = x.clone()
    x[x > 0] = flambeau.arange(int((x > 0).sum())).to(x.dtype)
    return x


def same(x):
    return x + 1 if flambeau.equal(x, SOME) else x


def repeats(x):
    return x.repeat_interleave((x > 0).long() + 1)


def counted_and_chosen(x):
    chosen = x.masked_select(x > 0)
    return chosen.reshape(chosen.numel(), 1) if chosen.sum() > 3 else chosen


def gradient_of_a_part(x):
    return flambeau.func.grad(lambda y: (y[y > 0] * len(y[y > 0])).sum())(x)


@pytest.mark.parametrize(
    "function",
    [length, lengths_in_turn, positions, written, same, repeats, counted_and_chosen],
)
def test_what_operators_ask_for_is_answered_as_well(function):
    step = flambeau.compile(function, fullgraph=False)
    for _ in range(5):
        result, ran = called(step, SOME)
        assert result.tolist() == function(SOME).tolist()
    assert not ran
    assert step.program_count == 1
    # Other values, another call: nothing is taken for granted that is not so.
    for x in (ONES, SOME, MINUS, SOME):
        result, _ = called(step, x)
        assert flambeau.allclose(result, function(x), equal_nan=True)


def test_a_mask_whose_count_varies_needs_no_answer():
    def takes(x):
        return x[x > 0].sum() if x.isfinite().all() else x.sum()

    step = flambeau.compile(takes, fullgraph=False)
    for x in (SOME, ONES, MINUS, SOME, ONES, MINUS):
        result, ran = called(step, x)
        assert result.item() == takes(x).item()
    assert not ran
    assert step.program_count == 1


def test_a_step_by_as_many_elements_as_a_mask_picks_is_one_program():
    model = nn.Linear(3, 4)
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    targets = flambeau.tensor([0, 1, -1, 2])
    inputs = flambeau.arange(12.0).reshape(4, 3) / 12

    def train(x):
        optimizer.zero_grad()
        kept = targets >= 0
        loss = nn.functional.cross_entropy(model(x)[kept], targets[kept], reduction="sum")
        loss = loss / targets[kept].numel()
        loss.backward()
        optimizer.step()
        return loss

    start = {name: each.clone() for name, each in model.state_dict().items()}
    expected = [train(inputs).item() for _ in range(5)]
    model.load_state_dict(start)
    step = flambeau.compile(train, fullgraph=False)
    found = [called(step, inputs) for _ in range(5)]
    assert [loss.item() for loss, _ in found] == pytest.approx(expected, rel=1e-6)
    assert not found[-1][1]
    assert step.program_count == 1


def test_a_question_under_a_transformation_is_right():
    step = flambeau.compile(gradient_of_a_part, fullgraph=False)
    for x in (SOME, SOME, SOME, SOME, ONES, SOME):
        assert called(step, x)[0].tolist() == gradient_of_a_part(x).tolist()


def test_with_fullgraph_a_count_stays_an_error():
    with pytest.raises(flambeau.CompileError, match="number of its elements is asked for"):
        flambeau.compile(length, fullgraph=True)(SOME)


def test_a_mask_that_picks_nothing_writes_nothing():
    def step(x):
        inside = (x > -1) & (x < 1)
        result = x * 2
        result[~inside] = x[~inside]
        if inside.any():
            result[inside] = flambeau.nn.functional.pad(x[inside], (1, 0))[1:] + 1
        return result, *flambeau.autograd.grad(result.sum(), x)

    compiled = flambeau.compile(step, fullgraph=False)
    x = flambeau.tensor([[0.5, -0.25]], requires_grad=True)
    for _ in range(4):
        result, gradient = called(compiled, x)[0]
        assert result.tolist() == [[1.5, 0.75]]
        assert gradient.tolist() == [[1.0, 1.0]]
    assert compiled.program_count == 1


def test_a_trace_that_fails_where_the_eager_call_does_not_is_given_up():
    def step(x):
        if flambeau.compiler.is_compiling():
            raise ZeroDivisionError("only while it is compiled")
        return x + 1

    compiled = flambeau.compile(step, fullgraph=False)
    for _ in range(compiling.FAILED_TRACES - 1):
        assert compiled(ONES).tolist() == [2, 2, 2]
    with pytest.warns(CompileWarning, match="ZeroDivisionError: only while it is compiled"):
        compiled(ONES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(ONES).tolist() == [2, 2, 2]
