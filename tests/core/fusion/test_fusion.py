"""Eager code that repeats gives what it gave, and runs as fewer programs."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.core.fusion import sequence, stream
from flambeau.core.programs.deferred import Deferred
from flambeau.core.programs.forms import form_of
from flambeau.core.programs.gears import settings
from flambeau.core.support.statistics import statistics
from flambeau.nn import functional as F


def unfused(function: Callable[[], Any]) -> Any:
    """The result of ``function`` where nothing is fused."""
    stream.boundary()
    before, settings.fuse = settings.fuse, 0
    kept, stream.here.stream = stream.here.stream, stream.Stream()
    try:
        return function()
    finally:
        settings.fuse, stream.here.stream = before, kept


class Fused:
    """How many sequences ran as one program, and how many did not, since it was made."""

    def __init__(self) -> None:
        self._before = statistics.fused, statistics.left

    @property
    def fused(self) -> int:
        return statistics.fused - self._before[0]

    @property
    def left(self) -> int:
        return statistics.left - self._before[1]


def network() -> Any:
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def batch(number: int) -> Any:
    values = np.random.default_rng(number).standard_normal((5, 4)).astype(np.float32)
    return flambeau.from_numpy(values)


def training(
    steps: int,
    optimizer: Callable[[Any], Any] = lambda p: flambeau.optim.SGD(p, lr=0.1, momentum=0.9),
    between: Callable[[int, Any, Any], Any] = lambda i, net, loss: None,
) -> tuple[list[float], list[Any]]:
    net = network()
    chosen = optimizer(net.parameters())
    losses = []
    for i in range(steps):
        chosen.zero_grad()
        loss = F.cross_entropy(net(batch(i)), flambeau.arange(5) % 3)
        loss.backward()
        between(i, net, loss)
        chosen.step()
        losses.append(loss.item())
    return losses, [each.detach().numpy().copy() for each in net.parameters()]


def assert_same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop", "Adagrad"])
def test_a_training_step_becomes_one_program(name: str) -> None:
    def optimizer(parameters: Any) -> Any:
        return getattr(flambeau.optim, name)(parameters, lr=0.01)

    expected = unfused(lambda: training(8, optimizer))
    count = Fused()
    assert_same(training(8, optimizer), expected)
    assert count.fused >= 4
    assert count.left == 0


def by_hand(steps: int, backwards: int = 1) -> list[Any]:
    """Training that asks for no value, by an optimizer that is no program."""
    net = network()
    for i in range(steps):
        for _ in range(backwards):
            F.cross_entropy(net(batch(i)), flambeau.arange(5) % 3).backward()
        with flambeau.no_grad():
            for each in net.parameters():
                each.sub_(each.grad, alpha=1.0 / (i + 1))
                each.grad = None
    return [each.detach().numpy() for each in net.parameters()]


@pytest.mark.parametrize("backwards", [1, 4])
def test_backward_passes_end_sequences_where_nothing_else_does(backwards: int) -> None:
    expected = unfused(lambda: by_hand(12, backwards))
    count = Fused()
    assert_same(([], by_hand(12, backwards)), ([], expected))
    assert count.fused >= 4 * backwards


@pytest.mark.parametrize("optimizer", [None, flambeau.optim.SGD])
def test_a_step_leaves_no_garbage(optimizer: Any) -> None:
    net = network()
    chosen = None if optimizer is None else optimizer(net.parameters(), lr=0.1)

    def steps(count: int) -> None:
        for i in range(count):
            net.zero_grad()
            loss = F.cross_entropy(net(batch(i)), flambeau.arange(5) % 3)
            loss.backward()
            loss.item() if chosen is None else chosen.step()

    def garbage() -> int:
        gc.collect()
        steps(4)
        return gc.collect()

    steps(8)
    count = Fused()
    gc.freeze()
    gc.disable()
    try:
        # What a thread compiles beside may leave some once; a step's own would be there each time.
        assert min(garbage() for _ in range(3)) == 0
    finally:
        gc.enable()
        gc.unfreeze()
    assert count.fused >= 12


def test_a_question_between_forward_and_backward_divides_the_step() -> None:
    def run() -> Any:
        net, losses = network(), []
        chosen = flambeau.optim.SGD(net.parameters(), lr=0.1)
        for i in range(8):
            chosen.zero_grad()
            loss = F.cross_entropy(net(batch(i)), flambeau.arange(5) % 3)
            losses.append(loss.item())
            loss.backward()
            chosen.step()
        return losses, [each.detach().numpy() for each in net.parameters()]

    expected = unfused(run)
    count = Fused()
    assert_same(run(), expected)
    assert count.fused >= 8


def test_a_branch_on_a_value_gives_two_sequences() -> None:
    def run() -> list[float]:
        found = []
        x = flambeau.ones(3)
        for i in range(20):
            y = (x * float(i)).sum() + 1.0
            z = y * 2.0 if y.item() % 2 < 1 else (y + 1.0).exp().log()
            found.append((z * 3.0).item())
        return found

    expected = unfused(run)
    count = Fused()
    np.testing.assert_allclose(run(), expected, rtol=1e-5)
    assert count.fused >= 12


def test_another_shape_leaves_the_sequence() -> None:
    def run() -> list[float]:
        found = []
        for i in range(12):
            x = flambeau.ones(2 + i % 3)
            y = flambeau.ones(3)
            found.append(((y * 2.0).sum() + (x + 1.0).sum()).item())
        return found

    expected = unfused(run)
    assert run() == expected


def test_a_result_that_is_kept_now_and_not_before_is_computed() -> None:
    kept = []

    def run(keep: bool) -> float:
        x = flambeau.full((3,), 2.0)
        y = x * 3.0
        if keep:
            kept.append(y)
        return (y + 1.0).sum().item()

    for i in range(12):
        assert run(keep=i == 6) == 21.0
    assert kept[0].tolist() == [6.0] * 3


def pending() -> tuple[Any, Any]:
    """A tensor whose elements have not been computed yet, and the tensor that led to it."""
    x = flambeau.arange(6.0).reshape(2, 3)
    for _ in range(5):
        stream.boundary()
        y = x * 2.0
        z = y + 1.0
        z.exp()
    assert type(z._cell.array) is Deferred
    assert z._cell.array.segment is not None
    return z, y


EXPECTED = (np.arange(6.0, dtype=np.float32) * 2 + 1).reshape(2, 3)


@pytest.mark.parametrize(
    "look",
    [
        lambda z: z.numpy(),
        lambda z: np.asarray(z),
        lambda z: np.asarray(z.jax()),
        lambda z: np.array(z.tolist(), np.float32),
        lambda z: copy.deepcopy(z).numpy(),
        lambda z: pickle.loads(pickle.dumps(z)).numpy(),
        lambda z: np.from_dlpack(z),
        lambda z: z.clone().detach().numpy(),
        lambda z: np.stack([row.numpy() for row in z]),
        lambda z: z.t().contiguous().numpy().T,
        lambda z: z.to(flambeau.float64).numpy().astype(np.float32),
        lambda z: z[:, :].view(6).view(2, 3).numpy(),
        lambda z: flambeau.compile(lambda a: a * 1.0)(z).numpy(),
        lambda z: flambeau.vmap(lambda a: a * 1.0)(z).numpy(),
        lambda z: flambeau.func.grad(lambda a: (a * a).sum() / 2)(z).numpy(),
    ],
)
def test_elements_that_wait_are_computed_when_they_are_asked_for(
    look: Callable[[Any], Any],
) -> None:
    z, _ = pending()
    np.testing.assert_allclose(look(z), EXPECTED)


def test_shape_dtype_and_device_are_known_without_computing() -> None:
    z, _ = pending()
    assert (z.shape, z.dtype, z.ndim, z.numel()) == ((2, 3), flambeau.float32, 2, 6)
    assert z.device.type == "cpu"
    assert len(z) == 2
    assert not z.is_meta
    assert z._cell.array.segment is not None


def test_saving_and_loading_computes() -> None:
    z, y = pending()
    file = io.BytesIO()
    flambeau.save({"z": z, "y": y}, file)
    file.seek(0)
    np.testing.assert_allclose(flambeau.load(file)["z"].numpy(), EXPECTED)


def test_another_thread_may_ask_and_the_calls_go_on_waiting() -> None:
    z, _ = pending()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(z.numpy()))
    thread.start()
    thread.join()
    np.testing.assert_allclose(found[0], EXPECTED)
    assert stream.here.stream.segment is not None
    np.testing.assert_allclose((z + 1.0).numpy(), EXPECTED + 1)


def test_a_computed_array_takes_the_place_of_the_one_that_waited() -> None:
    z, y = pending()
    stream.boundary()
    assert type(z._cell.array) is not Deferred
    assert type(y._cell.array) is not Deferred


def test_writes_in_place_and_views_are_followed() -> None:
    def run() -> list[Any]:
        found = []
        for i in range(6):
            x = flambeau.arange(6.0)
            v = x[1:4]
            v += float(i)
            x[0] = 7.0
            w = x.view(2, 3).t()
            w.mul_(2.0)
            found.append((x.numpy().copy(), v.numpy().copy(), x._version))
        return found

    for one, other in zip(run(), unfused(run), strict=True):
        np.testing.assert_allclose(one[0], other[0])
        np.testing.assert_allclose(one[1], other[1])
        assert one[2] == other[2]


def test_second_derivatives_and_retained_graphs_are_followed() -> None:
    def run() -> list[float]:
        found = []
        for i in range(6):
            x = flambeau.full((3,), 0.5 + i, requires_grad=True)
            y = (x.exp() * x).sum()
            (g,) = flambeau.autograd.grad(y, x, create_graph=True)
            (g * g).sum().backward(retain_graph=True)
            y.backward()
            found.append(x.grad.sum().item())
        return found

    np.testing.assert_allclose(run(), unfused(run), rtol=1e-5)


def test_hooks_and_gradients_that_accumulate_are_followed() -> None:
    def run() -> list[Any]:
        found = []
        net = network()
        seen: list[Any] = []
        net[0].register_forward_hook(lambda m, a, out: seen.append(out.detach()))
        net[2].weight.register_hook(lambda g: g * 0.5)
        for i in range(8):
            for j in range(2):
                F.cross_entropy(net(batch(2 * i + j)), flambeau.arange(5) % 3).backward()
            found.append((net[2].weight.grad.numpy().copy(), seen[-1].numpy().copy()))
            net.zero_grad(set_to_none=i % 2 == 0)
        return found

    for one, other in zip(run(), unfused(run), strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(one[1], other[1], rtol=1e-4, atol=1e-6)


def test_an_array_that_the_user_holds_is_not_overwritten() -> None:
    held: list[Any] = []

    def between(i: int, net: Any, loss: Any) -> None:
        if i == 5:
            held.append((net[0].weight.jax(), net[0].weight.detach().numpy().copy()))

    assert_same(training(10, between=between), unfused(lambda: training(10)))
    np.testing.assert_array_equal(np.asarray(held[0][0]), held[0][1])


def test_a_scheduler_and_clipping_are_followed() -> None:
    def run() -> Any:
        net = network()
        chosen = flambeau.optim.AdamW(net.parameters(), lr=0.1)
        schedule = flambeau.optim.lr_scheduler.StepLR(chosen, 2, 0.5)
        losses = []
        for i in range(9):
            chosen.zero_grad()
            loss = F.cross_entropy(net(batch(i)), flambeau.arange(5) % 3)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            chosen.step()
            schedule.step()
            losses.append(loss.item())
        return losses, [each.detach().numpy() for each in net.parameters()]

    expected = unfused(run)
    count = Fused()
    assert_same(run(), expected)
    assert count.fused >= 5


def test_an_error_is_raised_by_the_call_that_makes_it() -> None:
    z, _ = pending()
    with pytest.raises(RuntimeError, match="do not broadcast"):
        z + flambeau.ones(7)
    np.testing.assert_allclose(z.numpy(), EXPECTED)


def test_a_call_that_fails_is_no_part_of_a_sequence() -> None:
    def run(fails: bool, kind: Any = np.float32) -> float:
        x, y, z = (flambeau.from_numpy(np.full(3, each, np.float32)) for each in range(1, 4))
        z = z if kind is np.float32 else flambeau.from_numpy(np.full(3, 3, kind))
        total = x * 2
        if fails:
            with contextlib.suppress(RuntimeError):
                flambeau.addcmul(y, z, flambeau.from_numpy(np.ones(7, np.float32)))
        return (total * z).sum().item()

    count = Fused()
    assert [run(True) for _ in range(8)] == [18] * 8
    assert [run(False) for _ in range(8)] == [18] * 8
    assert count.fused > 0
    assert [run(False, np.int32) for _ in range(8)] == [18] * 8


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    # A GPU is only deterministic with a flag that XLA reads when it starts.
    flambeau.use_deterministic_algorithms(True, warn_only=True)
    yield
    flambeau.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "switched_off", [lambda: flambeau.compiler.gears(fuse=False), deterministic]
)
def test_switching_it_off_computes_what_waits(switched_off: Any) -> None:
    z, _ = pending()
    with switched_off():
        assert stream.here.stream.segment is None
        np.testing.assert_allclose(z.numpy(), EXPECTED)
        count = Fused()
        training(4)
        assert count.fused == 0
    pending()


def test_gradients_that_are_views_are_read_before_the_step() -> None:
    def views(i: int, net: Any, loss: Any) -> None:
        if i % 5 != 4:
            for each in net.parameters():
                each.grad = each.grad[None][0]

    expected = unfused(lambda: training(20, between=views))
    count = Fused()
    assert_same(training(20, between=views), expected)
    assert count.fused >= 5


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_that_runs_eagerly_becomes_a_few_programs() -> None:
    net = network()

    def step(x: Any) -> Any:
        loss = net(x).square().sum()
        seen.append(float(loss.detach().numpy()))
        loss.backward()
        return [each.grad.norm() for each in net.parameters()]

    seen: list[float] = []
    compiled = flambeau.compile(step, fullgraph=False)
    count = Fused()
    for _ in range(8):
        net.zero_grad()
        compiled(batch(0))
    assert len(seen) >= 8
    assert count.fused >= 6
    np.testing.assert_allclose(seen[-8:], seen[-1], rtol=1e-6)


@pytest.mark.parametrize("turns", [[3] * 20 + [4] * 20, [3, 4] * 20, [3, 4, 4, 5] * 12])
def test_each_shape_of_the_same_functions_becomes_a_program(turns: list[int]) -> None:
    count = Fused()
    for size in turns:
        found = ((flambeau.ones(size) * 2.0).exp() + 1.0).sum().item()
        assert found == pytest.approx(8.389056 * size)
    assert count.fused >= len(turns) - 7 * len({*turns})


def test_lengths_that_never_come_back_are_given_up_until_they_do() -> None:
    def run(size: int) -> None:
        ((flambeau.ones(size) * 2.0).exp() + 1.0).sum().item()

    count = Fused()
    for size in range(2, 60):
        run(size)
    assert count.fused == 0
    assert not stream.here.stream._wanted
    for _ in range(250):
        run(100)
    assert count.fused >= 50


def labelled(steps: int, labels: Callable[[Any, Any], Any]) -> list[float]:
    """Training on labels that are looked at, since one that is out of range is an error."""
    net, losses = network(), []
    chosen = flambeau.optim.SGD(net.parameters(), lr=0.1)
    targets = flambeau.tensor([[0, 1, 2, 0, 1]])
    for i in range(steps):
        found = net(batch(i))
        loss = F.cross_entropy(found, labels(targets, found))
        chosen.zero_grad()
        loss.backward()
        chosen.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "labels", [lambda targets, _: (targets + 0).flatten(), lambda _, found: found.argmax(1)]
)
def test_labels_that_are_looked_at(labels: Callable[[Any, Any], Any]) -> None:
    expected = unfused(lambda: labelled(10, labels))
    count = Fused()
    np.testing.assert_allclose(labelled(10, labels), expected, rtol=1e-5)
    assert count.fused >= 4


def test_a_look_at_labels_does_not_divide_a_step() -> None:
    count = Fused()
    labelled(10, lambda targets, _: (targets + 0).flatten())
    assert count.left == 0
    stream.boundary()
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        labelled(2, lambda targets, _: (targets + 1).flatten())


def test_numbers_of_a_sequence_may_change() -> None:
    given = [(2, 0.5, True, 1j), (3, -0.0, False, 2j), (-1, 1e300, True, 0j), (7, 2.5, True, 1j)]

    def loop() -> list[Any]:
        found = []
        x = flambeau.tensor([1.0, -2.0])
        for number in range(80):
            n, rate, flag, turn = given[number % 4 if number > 60 else 0]
            y = x * n + rate
            y.mul_(rate).add_(x, alpha=n)
            z = (y * flag) * turn
            # A number that is computed with alone.
            w = flambeau.scalar_tensor(2.0, dtype=flambeau.float64) * rate
            found.append([*map(repr, (*y.tolist(), *z.tolist(), w.item()))])
        return found

    expected = unfused(loop)
    count = Fused()
    assert loop() == expected
    assert count.fused > 20


def test_a_number_that_is_too_large_is_refused_by_its_operator() -> None:
    x = flambeau.tensor([1, 2])

    def step(n: int) -> Any:
        product = x * n
        return (product + 1).sum().item()

    for _ in range(60):
        assert step(2) == 8
    with pytest.raises(RuntimeError, match=r"mul\(\) cannot take"):
        step(2**70)
    assert step(3) == 11


def test_what_cannot_be_compiled_runs_call_by_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any) -> None:
        raise MemoryError

    expected = unfused(lambda: training(8))
    monkeypatch.setattr(sequence, "prepare", failing)
    count = Fused()
    assert_same(training(8), expected)
    assert count.fused == 0
    assert count.left > 0


def test_avals_that_say_the_same_are_the_same_form() -> None:
    """As JAX gives them for results of different programs on a GPU."""

    class Aval:
        """An aval that is compared by identity."""

        def __init__(self, aval: Any) -> None:
            self.shape, self.dtype, self.weak_type = aval.shape, aval.dtype, aval.weak_type
            self.memory_space = getattr(aval, "memory_space", None)

    aval = flambeau.ones(3, 4)._read().aval
    form = form_of(aval)
    assert form_of(Aval(aval)) is form
    assert form_of(flambeau.zeros(3, 4)._read().aval) is form
    assert form_of(flambeau.zeros(4, 3)._read().aval) is not form
    assert form_of(flambeau.zeros(3, 4, dtype=flambeau.int32)._read().aval) is not form
