"""Other threads read whole tensors, of one step where one call reads them, and lose no gradient."""

import io
import os
import threading
import time

import pytest

import flambeau
from flambeau import nn, optim
from flambeau.core.programs import finishing

X = flambeau.ones(4, 3)


def trainer(compiled):
    """A model whose parameters all grow by the same number at each step, and the step."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    for each in model.parameters():
        nn.init.zeros_(each)
    optimizer = optim.SGD(model.parameters(), lr=1.0)

    def step():
        optimizer.zero_grad()
        total = sum(each.sum() for each in model.parameters())
        (-total).backward()
        optimizer.step()

    return model, flambeau.compile(step) if compiled else step


def values_of(state):
    return {value for each in state.values() for value in each.flatten().tolist()}


def saved(model):
    file = io.BytesIO()
    flambeau.save(model.state_dict(), file)
    file.seek(0)
    return values_of(flambeau.load(file))


def read(model):
    for each in model.state_dict().values():
        assert len({*each.flatten().tolist()}) == 1, "half a tensor"
    return {0.0}


def read_between(model):
    with flambeau.compiler.between_steps():
        return values_of(model.state_dict())


def evaluated(model):
    model(X).sum().item()
    return {0.0}


def evaluated_compiled(model):
    if not hasattr(evaluated_compiled, "by_model"):
        evaluated_compiled.by_model = {}
    if model not in evaluated_compiled.by_model:

        @flambeau.compile
        def all_of():
            return flambeau.cat([each.flatten() for each in model.parameters()])

        evaluated_compiled.by_model[model] = all_of
    with flambeau.no_grad():
        return {*evaluated_compiled.by_model[model]().tolist()}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("use", [saved, read, read_between, evaluated, evaluated_compiled])
def test_a_reader_beside_a_training_loop_gets_whole_steps(use, compiled):
    model, step = trainer(compiled)
    step()
    use(model)
    errors, found, done = [], [], threading.Event()

    def loop():
        try:
            found.extend(use(model) for _ in range(30))
        except BaseException as error:  # noqa: BLE001 - shown below, on the thread of the test.
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=loop)
    thread.start()
    steps = 1
    while not done.is_set() and steps < 100_000:
        step()
        steps += 1
    thread.join()
    assert not errors, errors[0]
    assert len(found) == 30
    assert all(len(each) == 1 for each in found), "tensors of two steps"
    assert values_of(model.state_dict()) == {float(steps)}


def together(count, work):
    """Run ``work`` on so many threads at once, and wait for all."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_gradients_of_several_threads_are_all_counted():
    weight = nn.Parameter(flambeau.zeros(3))

    def work():
        for _ in range(100):
            weight.sum().backward()

    together(4, work)
    assert weight.grad.tolist() == [400.0] * 3


def test_first_gradients_of_several_threads_are_all_counted():
    weight = nn.Parameter(flambeau.zeros(3))
    weight.sum().backward()
    for _ in range(20):
        weight.grad = None
        barrier = threading.Barrier(3)

        def work(barrier=barrier):
            barrier.wait()
            weight.sum().backward()

        together(3, work)
        assert weight.grad.tolist() == [3.0] * 3


def test_steps_of_several_threads_are_all_taken():
    model, step = trainer(True)
    step()
    together(3, lambda: [step() for _ in range(50)])
    assert values_of(model.state_dict()) == {151.0}


def test_an_error_between_steps_lets_others_go_on():
    model, step = trainer(True)
    step()
    with flambeau.compiler.between_steps(), pytest.raises(RuntimeError):
        model(flambeau.ones(1, 7))
    thread = threading.Thread(target=step)
    thread.start()
    thread.join(60)
    assert values_of(model.state_dict()) == {2.0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_forked_process_does_not_wait_for_a_step_of_its_parent():
    holds, ends = threading.Event(), threading.Event()

    def hold():
        with flambeau.compiler.between_steps():
            holds.set()
            ends.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if finishing.lock.acquire(timeout=5) else 1)
    ends.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_process_that_is_forked_during_a_step_has_all_values():
    weight, begun = flambeau.zeros(3), threading.Event()

    def program(array):
        begun.set()
        time.sleep(0.2)
        return array + 1

    def write(array):
        weight._cell.array = array

    step = threading.Thread(
        target=finishing.run, args=(program, [weight._cell], lambda taken: taken, write)
    )
    step.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if weight.tolist() == [1.0, 1.0, 1.0] else 1)
    step.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert weight.tolist() == [1.0, 1.0, 1.0]


def test_threads_that_call_first_at_once_share_one_program():
    model, gate, results = nn.Linear(4, 3), threading.Barrier(4), []
    run = flambeau.compile(lambda x: model(x))

    def work():
        gate.wait()
        results.append(run(flambeau.ones(2, 4)))

    together(4, work)
    assert len(results) == 4
    assert run.program_count == 1
