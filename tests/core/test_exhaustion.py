"""Memory that has run out is the error that PyTorch's programs catch."""

import jax
import pytest

import flambeau
from flambeau.core.devices import exhaustion
from flambeau.core.kernels.kernel import Kernel

TEXT = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1024 bytes."


def exhausted(*arrays):
    raise jax.errors.JaxRuntimeError(TEXT)


def test_operators_their_gradients_and_programs_say_so(monkeypatch):
    x = flambeau.ones(2, requires_grad=True)
    y = (x * x).sum()
    step = flambeau.compile(lambda x: x * 3)
    step(flambeau.ones(2))
    (programs,) = [each.programs for each in step.kinds.values()]
    monkeypatch.setattr(programs[0], "executable", exhausted)
    with pytest.raises(flambeau.OutOfMemoryError, match="RESOURCE_EXHAUSTED"):
        step(flambeau.ones(2))
    monkeypatch.setattr(Kernel, "gradient", lambda *args: exhausted())
    with pytest.raises(flambeau.OutOfMemoryError, match="can't allocate memory"):
        y.backward()
    kernel = Kernel(lambda x: x, "identity", "IdentityBackward0")
    monkeypatch.setattr(kernel, "forward", exhausted)
    with pytest.raises(flambeau.OutOfMemoryError, match="can't allocate memory"):
        flambeau.core.operators.dispatch.run(kernel, (flambeau.ones(2),))


def test_the_words_are_those_that_programs_look_for(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    error = exhaustion.named(jax.errors.JaxRuntimeError(TEXT))
    assert isinstance(error, RuntimeError)
    assert str(error).startswith("CUDA out of memory. ")


def test_other_errors_stay():
    error = jax.errors.JaxRuntimeError("INTERNAL: something else")
    assert exhaustion.named(error) is error


def test_there_is_one_class():
    assert flambeau.cuda.OutOfMemoryError is flambeau.OutOfMemoryError


# More bytes than a process can address, so that no system grants them.
SIDE = 30_000_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: flambeau.zeros(SIDE, SIDE),
        lambda: flambeau.randn(SIDE, SIDE),
        lambda: flambeau.arange(10**15),
        lambda: flambeau.ones(1).expand(10**15).clone(),
        lambda: flambeau.nn.Linear(SIDE, SIDE),
    ],
)
def test_arrays_that_do_not_fit_are_refused(make):
    with pytest.raises(flambeau.OutOfMemoryError, match="can't allocate memory"):
        make()


def test_sizes_beyond_all_addresses_are_refused():
    with pytest.raises(RuntimeError, match=r"Storage size calculation overflowed with sizes=\["):
        flambeau.zeros(2**40, 2**40)
