"""Modules as functions, here and under JAX's own transformations."""

from __future__ import annotations

import contextlib
import types

import jax
import jax.numpy as jnp
import pytest

import flambeau
from flambeau import nn
from flambeau.func import functional_call, stack_module_state


class Counting(nn.Module):
    """A module that counts its calls in a buffer, and hides part of its work from gradients."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("calls", flambeau.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        y = self.linear(x)
        with flambeau.no_grad():
            hidden = y * 2
        return y * hidden + y.detach() + x.sum() * 0


def arrays_of(module):
    named = (*module.named_parameters(), *module.named_buffers())
    return {name: each.jax() for name, each in named}


def tensors_of(module):
    return {name: flambeau.from_jax(each) for name, each in arrays_of(module).items()}


def inputs():
    return jnp.asarray([[1.0, 2.0], [3.0, 4.0]], "float32")


def test_arrays_in_arrays_out():
    module = nn.Linear(2, 2)
    found = functional_call(module, arrays_of(module), inputs())
    assert isinstance(found, jax.Array)
    assert found.tolist() == module(flambeau.from_jax(inputs())).tolist()


def test_tensors_in_tensors_out():
    module = nn.Linear(2, 2)
    found = functional_call(module, {}, flambeau.from_jax(inputs()))
    assert isinstance(found, flambeau.Tensor)


def test_nested_results_come_as_arrays_too():
    class Several(nn.Module):
        def forward(self, x, *, scale):
            return {"a": (x, x * scale), "b": 3}

    found = functional_call(Several(), {}, inputs(), {"scale": inputs()})
    assert isinstance(found["a"][1], jax.Array)
    assert found["b"] == 3


def test_a_module_inside_jit_grad_and_vmap():
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    params = arrays_of(module)

    def loss(params, x):
        return functional_call(module, params, x).sum()

    by_jax = jax.jit(jax.grad(loss))(params, inputs())
    module(flambeau.from_jax(inputs())).sum().backward()
    for name, each in module.named_parameters():
        assert jnp.allclose(by_jax[name], each.grad.jax(), atol=1e-6)
    rows = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, inputs())
    assert jnp.allclose(rows["0.weight"].sum(0), by_jax["0.weight"], atol=1e-6)


def test_no_grad_and_detach_hold_under_jax():
    module = Counting()
    params = arrays_of(module)
    calls = flambeau.from_jax(params.pop("calls"))

    def loss(params, calls):
        return functional_call(module, {**params, "calls": calls}, inputs()).sum()

    by_jax = jax.jit(jax.grad(loss))(params, calls)
    module(flambeau.from_jax(inputs())).sum().backward()
    assert jnp.allclose(by_jax["linear.weight"], module.linear.weight.grad.jax(), atol=1e-5)


def test_no_grad_outside_does_not_stop_jax():
    module = nn.Linear(2, 1)
    with flambeau.no_grad():
        found = jax.grad(lambda p: functional_call(module, p, inputs()).sum())(arrays_of(module))
    assert found["weight"].tolist() == [[4.0, 6.0]]


def test_nothing_is_recorded_under_jax():
    module = nn.Linear(2, 1)
    seen = []
    module.register_forward_hook(lambda module, args, output: seen.append(output.requires_grad))
    jax.jit(lambda x: functional_call(module, {}, x))(inputs())
    assert seen == [False]


def test_a_buffer_that_is_not_given_cannot_be_written_under_jax():
    module = Counting()
    with pytest.raises(RuntimeError, match=r"outside.*argument"):
        jax.jit(lambda x: functional_call(module, {}, x))(inputs())
    assert module.calls.item() == 0


def test_a_tensor_that_is_given_comes_back_written():
    module = Counting()

    @jax.jit
    def call(state, x):
        return functional_call(module, state, x), state

    state = tensors_of(module)
    output, after = call(state, inputs())
    assert isinstance(output, jax.Array)
    assert (after["calls"].item(), state["calls"].item(), module.calls.item()) == (1.0, 0.0, 0.0)
    assert call(after, inputs())[1]["calls"].item() == 2.0


def test_what_is_written_is_the_aux_of_a_gradient():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    params = {name: each.jax() for name, each in module.named_parameters()}
    buffers = {name: each.jax() for name, each in module.named_buffers()}

    @jax.jit
    def step(params, buffers, x):
        def loss(params):
            values = jax.tree.map(flambeau.from_jax, buffers)
            found = functional_call(module, (params, values), x)
            return (found**2).sum(), {name: each.jax() for name, each in values.items()}

        return jax.grad(loss, has_aux=True)(params)

    gradients, after = step(params, buffers, inputs())
    module(flambeau.from_jax(inputs())).pow(2).sum().backward()
    for name, each in module.named_parameters():
        assert jnp.allclose(gradients[name], each.grad.jax(), atol=1e-5)
    for name, each in module.named_buffers():
        assert jnp.allclose(after[name], each.jax())


def test_a_tensor_that_is_no_argument_of_the_function_cannot_be_written():
    module = Counting()
    params = {name: each.jax() for name, each in module.named_parameters()}
    calls = flambeau.zeros(())
    with pytest.raises(RuntimeError, match=r"outside.*argument"):
        jax.grad(lambda p: functional_call(module, {**p, "calls": calls}, inputs()).sum())(params)
    assert calls.item() == 0


@pytest.mark.parametrize("transform", [lambda call: call, jax.jit])
def test_an_array_that_is_written_is_an_error(transform):
    module = Counting()
    call = transform(lambda state, x: functional_call(module, state, x))
    with pytest.raises(RuntimeError, match=r"'calls'.*from_jax"):
        call(arrays_of(module), inputs())
    assert module.calls.item() == 0


class Assigning(nn.Module):
    """A module that assigns to its attributes."""

    def __init__(self, name):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("total", flambeau.zeros(()))
        self.last = None
        self.name = name

    def forward(self, x):
        y = self.linear(x)
        if self.name == "failing":
            self.last = y
            raise ZeroDivisionError
        setattr(self, self.name, y.sum() if self.name == "total" else (y, [x.detach()]))
        return y


@pytest.mark.parametrize("name", ["total", "last", "new"])
def test_a_traced_value_that_is_assigned_does_not_stay(name):
    outer = nn.Sequential(Assigning(name))
    before = vars(outer[0]).copy()
    for transform in (jax.jit, jax.grad, jax.vmap):
        with pytest.raises(RuntimeError, match=rf"Sequential assigned \['0.{name}'\]"):
            transform(lambda x: functional_call(outer, {}, x).sum())(inputs())
    assert outer[0].total.item() == 0
    assert vars(outer[0]) == before


def test_an_array_in_whose_place_something_is_assigned_is_an_error():
    module = Assigning("total")
    with pytest.raises(RuntimeError, match="'total'"):
        jax.jit(lambda s, x: functional_call(module, s, x))({"total": jnp.zeros(())}, inputs())
    assert module.total.item() == 0


@pytest.mark.parametrize(
    "reparametrize",
    [
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        lambda layer: nn.utils.prune.l1_unstructured(layer, "weight", 1),
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
    ],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_weights_that_are_computed_anew_before_each_call(reparametrize):
    # Whatever tests ran before: dividing by a small norm would make rounding errors large.
    flambeau.manual_seed(0)
    module = nn.Sequential(reparametrize(nn.Linear(2, 3)), nn.Tanh()).eval()
    params = {name: each.jax() for name, each in module.named_parameters()}
    gradients = jax.jit(jax.grad(lambda p: functional_call(module, p, inputs()).sum()))(params)
    module(flambeau.from_jax(inputs())).sum().backward()
    for name, each in module.named_parameters():
        assert jnp.allclose(gradients[name], each.grad.jax(), rtol=1e-4, atol=1e-5)
    assert isinstance(module[0].weight.jax(), jax.Array)
    assert not isinstance(module[0].weight.jax(), jax.core.Tracer)


def test_nothing_assigned_stays_after_an_error():
    module = Assigning("failing")
    with pytest.raises(ZeroDivisionError):
        jax.jit(lambda x: functional_call(module, {}, x))(inputs())
    assert module.last is None


def test_what_is_assigned_outside_of_transformations_stays():
    module = Assigning("last")
    functional_call(module, {}, inputs())
    assert module.last[0].shape == (2, 2)


def test_one_array_for_tied_names_is_one_value():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight = module[0].weight
    weight = jnp.ones((2, 2), "float32")
    found = functional_call(module, {"0.weight": weight, "1.weight": weight}, inputs())
    assert found.shape == (2, 2)


# Hooks


def hooked(**kinds):
    module, seen = nn.Sequential(nn.Linear(2, 3), nn.Tanh()), []
    for kind in kinds:
        getattr(module[0], kind)(lambda *given: seen.append(given[1:]))
    return module, seen


HOOKS = [
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook",
]


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap, jax.checkpoint])
def test_backward_hooks_that_jax_would_not_run_are_an_error(transform, kind):
    module, _ = hooked(**{kind: True})
    with pytest.raises(RuntimeError, match=r"hooks of this Linear.*flambeau.func.grad"):
        transform(lambda x: functional_call(module, {}, x).sum())(inputs())


@pytest.mark.parametrize("kind", HOOKS)
def test_where_no_gradient_is_wanted_backward_hooks_do_not_matter(kind):
    module, seen = hooked(**{kind: True})

    def call(x):
        with flambeau.no_grad():
            return functional_call(module, {}, x)

    assert jax.jit(call)(inputs()).shape == (2, 3)
    assert seen == []


def test_gradients_of_this_library_run_backward_hooks_under_jax():
    module, seen = hooked(register_full_backward_hook=True)

    @jax.jit
    def gradient(x):
        tensor = flambeau.from_jax(x)
        return flambeau.func.grad(lambda x: functional_call(module, {}, x).sum())(tensor).jax()

    expected = flambeau.func.grad(lambda x: module(x).sum())(flambeau.from_jax(inputs()))
    assert jnp.allclose(gradient(inputs()), expected.jax())
    assert len(seen) == 2


# Other transformations of JAX


def test_a_module_inside_a_scan():
    module = nn.Linear(2, 2)
    params = arrays_of(module)

    def loss(params):
        def body(carry, x):
            carry = functional_call(module, params, carry + x)
            return carry, carry.sum()

        return jax.lax.scan(body, jnp.zeros(2, "float32"), inputs())[1].sum()

    by_jax = jax.jit(jax.grad(loss))(params)
    carry, total = flambeau.zeros(2), 0
    for x in flambeau.from_jax(inputs()):
        carry = module(carry + x)
        total = total + carry.sum()
    total.backward()
    for name, each in module.named_parameters():
        assert jnp.allclose(by_jax[name], each.grad.jax(), atol=1e-5)


def test_a_state_carried_through_a_scan():
    module = Counting()
    state = tensors_of(module)

    @jax.jit
    def run(state, inputs):
        def body(state, x):
            return state, functional_call(module, state, x)

        return jax.lax.scan(body, state, inputs)

    after, outputs = run(state, jnp.ones((3, 4, 2), "float32"))
    assert outputs.shape == (3, 4, 2)
    assert after["calls"].item() == 3.0


def test_a_module_inside_checkpoint_and_cond():
    module = nn.Linear(2, 1)
    params = arrays_of(module)

    def loss(params, x):
        call = jax.checkpoint(lambda p, x: functional_call(module, p, x).sum())
        return jax.lax.cond(x.sum() > 0, call, lambda p, x: x.sum(), params, x)

    found = jax.grad(loss)(params, inputs())
    assert found["weight"].tolist() == [[4.0, 6.0]]
    assert jax.grad(loss)(params, -inputs())["weight"].tolist() == [[0.0, 0.0]]


def test_tensors_go_through_jaxs_transformations():
    x = flambeau.from_jax(inputs())
    module = nn.Linear(2, 1).requires_grad_(False)
    assert isinstance(jax.jit(module)(x), flambeau.Tensor)
    assert jax.vmap(lambda row: row.sum())(x).tolist() == [3.0, 7.0]
    gradient = jax.grad(lambda t: (t * t).sum().jax())(x)
    assert gradient.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    _, pushed = jax.jvp(lambda t: t * t, (x,), (x,))
    assert pushed.tolist() == [[2.0, 8.0], [18.0, 32.0]]


def test_the_module_is_as_before_after_an_error():
    module = nn.Linear(2, 1)
    weight = module.weight
    with pytest.raises(RuntimeError):
        functional_call(module, {"weight": flambeau.ones(1, 3)}, flambeau.ones(2))
    assert module.weight is weight
    assert list(module._parameters) == ["weight", "bias"]


def test_an_unknown_submodule_leaves_the_module_as_before():
    module = nn.Sequential(nn.Linear(2, 1))
    weight = module[0].weight
    with pytest.raises(AttributeError, match="9"):
        functional_call(module, {"0.weight": flambeau.ones(1, 2), "9.weight": weight}, ())
    assert module[0].weight is weight


def test_compiled_programs_stay_valid():
    module = nn.Linear(2, 1)
    compiled = flambeau.compile(lambda x: module(x))
    x = flambeau.ones(2)
    compiled(x)
    functional_call(module, {"weight": flambeau.zeros(1, 2)}, x)
    compiled(x)
    assert compiled.program_count == 1


def test_a_compiled_functional_call_leaves_the_module_as_it_was():
    module = Counting()
    given = {"linear.weight": flambeau.ones(2, 2), "calls": flambeau.zeros(())}
    compiled = flambeau.compile(lambda given, x: functional_call(module, given, x))
    x = flambeau.from_jax(inputs())
    for _ in range(2):
        found = compiled(given, x)
    assert isinstance(module.linear.weight, nn.Parameter)
    assert given["calls"].item() == 2
    assert module.calls.item() == 0
    expected = functional_call(module, {**given, "calls": flambeau.zeros(())}, x)
    assert flambeau.allclose(found, expected)


def test_stacked_parameters_share_no_elements_with_the_models():
    models = [nn.Linear(2, 1) for _ in range(2)]
    params, buffers = stack_module_state(models)
    with flambeau.no_grad():
        params["weight"].zero_()
    assert models[0].weight.abs().sum() > 0
    assert buffers == {}


def test_the_parameter_that_is_frozen_in_some_models_is_named():
    models = [nn.Linear(2, 1), nn.Linear(2, 1)]
    models[1].bias.requires_grad_(False)
    with pytest.raises(RuntimeError, match="'bias'"):
        stack_module_state(models)


class Stepping(nn.Module):
    """A module that assigns its buffer again at each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", flambeau.zeros(()))

    def forward(self, fail):
        self.steps = self.steps + 1
        if fail:
            raise KeyError("failed")


@pytest.mark.parametrize("wrap", [lambda given: given, lambda given: [{}, given]])
@pytest.mark.parametrize("fail", [False, True])
def test_what_is_assigned_anew_goes_into_the_given_dictionary(wrap, fail):
    module, given = Stepping(), {"steps": flambeau.tensor(4.0)}
    with pytest.raises(KeyError) if fail else contextlib.nullcontext():
        functional_call(module, wrap(given), (fail,))
    assert given["steps"] == 5
    assert module.steps == 0


def test_a_dictionary_that_cannot_change_is_left_alone():
    given = types.MappingProxyType({"steps": flambeau.tensor(4.0)})
    functional_call(Stepping(), given, (False,))
    assert given["steps"] == 4


def test_strict_without_ties_wants_every_name():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    model[1].weight = model[0].weight
    given = {"0.weight": flambeau.ones(1, 1)}
    functional_call(model, given, flambeau.ones(1, 1), strict=True)
    with pytest.raises(RuntimeError, match=r"1\.weight"):
        functional_call(model, given, flambeau.ones(1, 1), strict=True, tie_weights=False)


def test_name_of_a_plain_attribute_is_refused():
    with pytest.raises(TypeError, match="'in_features' is not a tensor of the module but a int"):
        functional_call(nn.Linear(1, 1), {"in_features": flambeau.ones(1)}, flambeau.ones(1, 1))


def test_what_is_assigned_anew_under_jax_can_be_returned():
    module = Stepping()

    @jax.jit
    def step(state):
        functional_call(module, state, (False,))
        return state

    state = step({"steps": flambeau.tensor(4.0)})
    assert step(state)["steps"] == 6
    assert module.steps == 0


def test_what_is_assigned_anew_under_vmap_can_be_returned():
    def step(steps):
        given = {"steps": steps}
        functional_call(Stepping(), given, (False,))
        return given["steps"]

    assert flambeau.func.vmap(step)(flambeau.arange(3.0)).tolist() == [1, 2, 3]


@pytest.mark.parametrize("wrap", [jax.jit, lambda f: jax.jit(jax.vmap(f))])
def test_weights_that_become_constants_of_a_jitted_function_are_told(wrap):
    net = nn.Linear(2, 2)
    x = flambeau.ones(1, 2).jax()

    def run(x):
        return net(flambeau.from_jax(x)).jax()

    with pytest.warns(UserWarning, match="are constants of its program"):
        wrap(run)(x)


def test_weights_that_are_given_frozen_or_seen_at_each_call_are_not_told():
    net = nn.Linear(2, 2)
    arrays = {name: each.jax() for name, each in net.named_parameters()}
    x = flambeau.ones(1, 2)
    jax.jit(lambda arrays, x: functional_call(net, arrays, x))(arrays, x.jax())
    jax.grad(lambda x: net(flambeau.from_jax(x)).sum().jax())(x.jax())
    jax.vmap(lambda x: net(flambeau.from_jax(x)).jax())(x.jax())
    net.requires_grad_(False)
    jax.jit(lambda x: net(flambeau.from_jax(x)).jax())(x.jax())
