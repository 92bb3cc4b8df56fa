"""Drawing inside functions that are transformed: by a key, or not at all."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import flambeau
from flambeau import func, nn
from flambeau.func import functional_call
from flambeau.random import key_scope

DROPOUT = nn.Dropout(0.5)


def ones(*shape):
    return jnp.ones(shape or (8,), "float32")


def keys(count):
    return jax.random.split(jax.random.key(3), count)


def noisy(key, x):
    with key_scope(key):
        return functional_call(DROPOUT, {}, x)


def rows_differ(found):
    rows = [tuple(row) for row in found.tolist()]
    return len(set(rows)) == len(rows)


TRANSFORMED = {
    "jit": lambda f: jax.jit(f)(ones()),
    "grad": lambda f: jax.grad(lambda x: f(x).sum())(ones()),
    "vmap": lambda f: jax.vmap(f)(ones(2, 8)),
    "scan": lambda f: jax.lax.scan(lambda c, x: (c, f(x)), 0, ones(2, 8)),
    "checkpoint": lambda f: jax.checkpoint(f)(ones()),
    "jit of vmap": lambda f: jax.jit(jax.vmap(f))(ones(2, 8)),
}
DRAWS = {
    "dropout": lambda x: functional_call(DROPOUT, {}, x),
    "a module called directly": lambda x: DROPOUT(flambeau.from_jax(x)).jax(),
    "rand": lambda x: x + flambeau.rand(8).jax(),
    "randperm": lambda x: x[flambeau.randperm(8).jax()],
    "a Linear": lambda x: nn.Linear(2, 1).weight.jax() + x.sum(),
    "a named generator": lambda x: x + flambeau.rand(8, generator=flambeau.Generator()).jax(),
    "a mapped draw": lambda x: func.vmap(lambda t: t * flambeau.rand(()), randomness="same")(
        x
    ).jax(),
    "a pushed draw": lambda x: func.jvp(DROPOUT, (flambeau.from_jax(x),), (flambeau.from_jax(x),))[
        1
    ].jax(),
    "multinomial": lambda x: x + flambeau.from_jax(x).multinomial(8).jax(),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("transformed", TRANSFORMED)
def test_a_draw_without_a_key_is_refused_where_jax_transforms(transformed, draw):
    before = flambeau.get_rng_state().tolist()
    with pytest.raises(RuntimeError, match="key_scope"):
        TRANSFORMED[transformed](DRAWS[draw])
    assert flambeau.get_rng_state().tolist() == before


def test_other_work_goes_on_where_jax_transforms():
    jax.jit(lambda x: functional_call(nn.Dropout(0.5).eval(), {}, x))(ones())
    with flambeau.device("meta"):
        jax.jit(lambda x: x + flambeau.rand(8).ndim)(ones())


def test_each_key_gives_its_own_numbers_and_the_same_ones_again():
    call = jax.jit(noisy)
    found = jnp.stack([call(key, ones()) for key in keys(3)])
    assert rows_differ(found)
    assert (found == jnp.stack([call(key, ones()) for key in keys(3)])).all()


def test_a_block_gives_what_it_gives_outside_of_transformations():
    (key,) = keys(1)
    assert (jax.jit(noisy)(key, ones()) == noisy(key, ones())).all()


def test_the_draws_of_a_block_differ():
    with key_scope(jax.random.key(0)):
        found = flambeau.stack([flambeau.rand(4) for _ in range(3)])
    assert rows_differ(found)


def test_a_block_moves_no_generator():
    before = flambeau.get_rng_state().tolist()
    noisy(jax.random.key(0), ones())
    jax.jit(noisy)(jax.random.key(0), ones())
    assert flambeau.get_rng_state().tolist() == before


def test_a_gradient_goes_through_the_same_mask():
    (key,) = keys(1)

    @jax.jit
    def both(key, x):
        return noisy(key, x), jax.grad(lambda x: noisy(key, x).sum())(x)

    value, gradient = both(key, ones())
    assert (value == gradient).all()


def test_the_block_may_stand_outside_the_gradient_of_this_library():
    @jax.jit
    def both(key, x):
        with key_scope(key):
            gradient, value = func.grad_and_value(lambda x: DROPOUT(x).sum())(flambeau.from_jax(x))
        return value.jax(), gradient.jax()

    value, gradient = both(jax.random.key(0), ones())
    assert value == gradient.sum()


def test_examples_with_keys_of_their_own_differ():
    assert rows_differ(jax.vmap(noisy)(keys(4), ones(4, 8)))
    same = jax.vmap(noisy, in_axes=(None, 0))(keys(1)[0], ones(4, 8))
    assert (same == same[0]).all()


def test_steps_of_a_scan_with_keys_of_their_own_differ():
    _, found = jax.lax.scan(lambda carry, each: (carry, noisy(*each)), 0, (keys(4), ones(4, 8)))
    assert rows_differ(found)


def test_recomputed_activations_take_the_same_mask():
    (key,) = keys(1)

    def loss(x):
        return jnp.sin(noisy(key, x)).sum()

    plain, again = jax.grad(loss)(ones()), jax.grad(jax.checkpoint(loss))(ones())
    assert (plain == again).all()


@pytest.mark.parametrize("transformed", TRANSFORMED)
def test_a_block_does_not_hold_for_what_jax_transforms_inside_it(transformed):
    with key_scope(jax.random.key(0)), pytest.raises(RuntimeError, match="key_scope"):
        TRANSFORMED[transformed](DRAWS["dropout"])


def test_a_named_generator_is_refused_in_a_block_where_jax_transforms():
    generator = flambeau.Generator()

    def draw(key):
        with key_scope(key):
            return flambeau.rand(2, generator=generator).jax()

    with pytest.raises(RuntimeError, match="generator="):
        jax.jit(draw)(jax.random.key(0))
    expected = flambeau.rand(2, generator=flambeau.Generator()).tolist()
    assert draw(jax.random.key(0)).tolist() == expected


@pytest.mark.parametrize(
    "draw",
    [
        lambda: flambeau.rand(8),
        lambda: flambeau.randn(8),
        lambda: flambeau.randint(0, 100, (8,)),
        lambda: flambeau.randperm(8),
        lambda: flambeau.bernoulli(flambeau.full((8,), 0.5)),
        lambda: flambeau.poisson(flambeau.full((8,), 3.0)),
        lambda: flambeau.multinomial(flambeau.ones(8), 4),
        lambda: flambeau.empty(8).exponential_(),
        lambda: nn.init.trunc_normal_(flambeau.empty(8)),
    ],
)
def test_all_kinds_of_draws_take_the_key(draw):
    def drawn(key):
        with key_scope(key):
            return draw().jax()

    one, other = jax.vmap(drawn)(keys(2))
    assert one.tolist() != other.tolist()
    assert one.tolist() == jax.jit(drawn)(keys(2)[0]).tolist()


def test_modules_are_initialized_by_keys():
    def made(key):
        with key_scope(key):
            net = nn.Linear(4, 3)
        return {name: each.jax() for name, each in net.named_parameters()}

    models = jax.jit(jax.vmap(made))(keys(3))
    assert models["weight"].shape == (3, 3, 4)
    assert rows_differ(models["bias"])
    net, x = nn.Linear(4, 3), ones(4)
    found = jax.vmap(lambda params: functional_call(net, params, x))(models)
    assert found.shape == (3, 3)


@pytest.mark.parametrize(
    "key",
    [
        jax.random.key(7),
        jax.random.PRNGKey(7),
        jax.random.key(7, impl="rbg"),
        flambeau.tensor([0, 7], dtype=flambeau.uint32),
    ],
)
def test_keys_of_all_kinds(key):
    with key_scope(key):
        first = flambeau.rand(4).tolist()
    with key_scope(key):
        assert flambeau.rand(4).tolist() == first


def test_the_two_words_of_a_key_are_that_key():
    with key_scope(jax.random.key(7)):
        expected = flambeau.rand(4).tolist()
    with key_scope(jax.random.key_data(jax.random.key(7))):
        assert flambeau.rand(4).tolist() == expected


@pytest.mark.parametrize("key", [3, None, jnp.ones(2), jnp.uint32(3)])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(TypeError, match=r"jax.random.key\(0\)"):
        key_scope(key)


@pytest.mark.parametrize("several", [keys(3), jax.random.key_data(keys(3))])
def test_several_keys_are_refused(several):
    with pytest.raises(ValueError, match=r"\[3\]"):
        key_scope(several)


def test_an_inner_block_holds_until_it_ends():
    def drawn(*, inner):
        with key_scope(jax.random.key(0)):
            flambeau.rand(4)
            if inner:
                with key_scope(jax.random.key(1)):
                    flambeau.rand(4)
            return flambeau.rand(4).tolist()

    assert drawn(inner=True) == drawn(inner=False)


def test_an_error_ends_the_block():
    flambeau.manual_seed(0)
    expected = flambeau.rand(3).tolist()
    with pytest.raises(ZeroDivisionError), key_scope(jax.random.key(0)):
        1 / 0  # noqa: B018
    flambeau.manual_seed(0)
    assert flambeau.rand(3).tolist() == expected


# With the transformations of this library


def test_vmap_takes_keys_of_examples():
    def example(key, x):
        with key_scope(key):
            return DROPOUT(x)

    words = jax.random.key_data(keys(4))
    found = func.vmap(example)(words, flambeau.ones(4, 8))
    assert rows_differ(found)
    assert found[1].tolist() == noisy(keys(4)[1], ones()).tolist()


def test_vmap_inside_a_block_says_what_drawing_means():
    batch = flambeau.ones(3, 8)
    with key_scope(jax.random.key(0)):
        with pytest.raises(RuntimeError, match="randomness"):
            func.vmap(DROPOUT)(batch)
        same = func.vmap(DROPOUT, randomness="same")(batch)
        assert (same == same[0]).all()
        assert rows_differ(func.vmap(DROPOUT, randomness="different")(batch))


def test_vmap_inside_jit_inside_a_block_inside_that():
    @jax.jit
    def call(key, x):
        with key_scope(key):
            return func.vmap(func.grad(lambda t: DROPOUT(t).sum()), randomness="same")(x).jax()

    one, other = (call(key, ones(2, 8)) for key in keys(2))
    assert (one[0] == one[1]).all()
    assert one.tolist() != other.tolist()


def test_a_gradient_of_a_gradient_keeps_the_mask():
    w = flambeau.full((8,), 2.0, requires_grad=True)

    def function(x):
        return DROPOUT(x * w * w)

    flambeau.manual_seed(0)
    found = func.vmap(function, randomness="same")(flambeau.ones(2, 8))
    (first,) = flambeau.autograd.grad(found.sum(), w, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), w)
    assert 0 < (found[0] > 0).sum() < 8
    assert first.tolist() == (found[0] * 2).tolist()
    assert second.tolist() == (found[0]).tolist()
    flambeau.manual_seed(0)
    with flambeau.no_grad():
        assert func.vmap(function, randomness="same")(flambeau.ones(2, 8)).tolist() == (
            found.tolist()
        )


def test_a_gradient_of_a_gradient_keeps_the_mask_of_each_examples_key():
    w = flambeau.full((8,), 2.0, requires_grad=True)

    def function(key, x):
        with key_scope(key):
            return DROPOUT(x * w * w)

    words = jax.random.key_data(keys(2))
    found = func.vmap(function)(words, flambeau.ones(2, 8))
    (first,) = flambeau.autograd.grad(found.sum(), w, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), w)
    assert second.tolist() == (found.sum(0) / 2).tolist()


def test_a_draw_beside_what_does_not_depend_on_the_example():
    def function(x):
        noise = flambeau.rand(2)
        return x + noise, noise

    sums, noise = func.vmap(function, out_dims=(0, None), randomness="same")(flambeau.zeros(3, 2))
    assert sums.tolist() == [noise.tolist()] * 3


def test_forward_mode_draws_once():
    flambeau.manual_seed(0)
    expected = DROPOUT(flambeau.ones(8)).tolist()
    w = flambeau.ones(8, requires_grad=True)
    flambeau.manual_seed(0)
    x = flambeau.ones(8)
    output, tangent = func.jvp(lambda x: DROPOUT(x * w), (x,), (x,))
    assert output.tolist() == tangent.tolist() == expected


# Inside compiled programs


def test_a_block_inside_a_compiled_function():
    @flambeau.compile
    def call(words, x):
        with key_scope(words):
            return DROPOUT(x)

    x = flambeau.ones(8)
    words = [flambeau.from_jax(each) for each in jax.random.key_data(keys(2))]
    before = flambeau.get_rng_state().tolist()
    one, other, again = call(words[0], x), call(words[1], x), call(words[0], x)
    assert one.tolist() == again.tolist() != other.tolist()
    assert one.tolist() == noisy(keys(2)[0], ones()).tolist()
    assert flambeau.get_rng_state().tolist() == before


def test_a_compiled_function_inside_a_block_draws_as_ever():
    compiled = flambeau.compile(lambda x: DROPOUT(x))
    x = flambeau.ones(8)
    flambeau.manual_seed(0)
    with key_scope(jax.random.key(0)):
        found = compiled(x).tolist()
    flambeau.manual_seed(0)
    assert compiled(x).tolist() == found


def test_constants_can_be_drawn_on_purpose():
    def function(x):
        with jax.ensure_compile_time_eval():
            noise = flambeau.rand(8).jax()
        return x + noise

    assert jax.jit(function)(ones()).shape == (8,)
