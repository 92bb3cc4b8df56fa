"""nn.init against PyTorch's, after the same seed."""

from typing import Any

import pytest
import torch

import flambeau
from tests.conformance.expression import check

CLOSE = 1e-6

SHAPES = [(3, 5), (20, 7), (4, 3, 5), (2, 3, 3, 2)]

FILLS = {
    "uniform_": lambda init, t: init.uniform_(t, -1.5, 2.5),
    "normal_": lambda init, t: init.normal_(t, 0.5, 2.0),
    "trunc_normal_": lambda init, t: init.trunc_normal_(t),
    "trunc_normal_ narrow": lambda init, t: init.trunc_normal_(t, std=0.02, a=-0.01, b=0.03),
    "trunc_normal_ of a tail": lambda init, t: init.trunc_normal_(t, 0.0, 1.0, 1.0, 2.0),
    "trunc_normal_ far away": lambda init, t: init.trunc_normal_(t, mean=5.0),
    "constant_": lambda init, t: init.constant_(t, 0.3),
    "ones_": lambda init, t: init.ones_(t),
    "zeros_": lambda init, t: init.zeros_(t),
    "eye_": lambda init, t: init.eye_(t),
    "dirac_": lambda init, t: init.dirac_(t),
    "dirac_ of groups": lambda init, t: init.dirac_(t, groups=2),
    "xavier_uniform_": lambda init, t: init.xavier_uniform_(t, gain=1.7),
    "xavier_normal_": lambda init, t: init.xavier_normal_(t),
    "kaiming_uniform_": lambda init, t: init.kaiming_uniform_(t, a=5**0.5),
    "kaiming_uniform_ fan_out": lambda init, t: init.kaiming_uniform_(t, 0.1, "fan_out"),
    "kaiming_normal_": lambda init, t: init.kaiming_normal_(t, nonlinearity="relu"),
    "kaiming_normal_ fan_out": lambda init, t: init.kaiming_normal_(t, mode="FAN_OUT"),
    "kaiming of a wrong mode": lambda init, t: init.kaiming_normal_(t, mode="fan"),
    "kaiming of what is unknown": lambda init, t: init.kaiming_uniform_(t, nonlinearity="x"),
    "orthogonal_": lambda init, t: init.orthogonal_(t, gain=1.5),
    "sparse_": lambda init, t: init.sparse_(t, 0.4),
    "sparse_ of a deviation": lambda init, t: init.sparse_(t, 0.1, std=2.0),
    "uniform_ backwards": lambda init, t: init.uniform_(t, 1.0, 0.0),
    "normal_ of a negative deviation": lambda init, t: init.normal_(t, 0.0, -1.0),
    "uniform": lambda init, t: init.uniform(t),
    "kaiming_normal": lambda init, t: init.kaiming_normal(t),
}

# PyTorch looks at no parameter of a distribution before it draws, and draws nothing here.
MORE_CHECKED_ON_META = {"uniform_ backwards"}

GAINS = [
    ("linear",), ("conv2d",), ("conv_transpose3d",), ("sigmoid",), ("tanh",), ("relu",), ("selu",),
    ("leaky_relu",), ("leaky_relu", 0.2), ("leaky_relu", 1), ("leaky_relu", True),
    ("leaky_relu", "a"), ("gelu",), ("relu", 0.3),
]  # fmt: skip


def _filled(fill: Any, shape: tuple[int, ...], **options: Any) -> Any:
    """The filled leaf, whether it is the one that went in, and the state that is left."""

    def run(lib: Any) -> Any:
        lib.manual_seed(11)
        kinds = {k: getattr(lib, v) if k == "dtype" else v for k, v in options.items()}
        tensor = lib.empty(shape, requires_grad=True, **kinds)
        result = fill(lib.nn.init, tensor)
        return tensor, result is tensor, lib.get_rng_state()

    return run


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FILLS)
def test_values_are_pytorchs(name: str, shape: tuple[int, ...]) -> None:
    check(_filled(FILLS[name], shape), CLOSE)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["uniform_", "normal_", "trunc_normal_", "trunc_normal_ of a tail", "kaiming_uniform_"]
)
def test_values_of_other_dtypes_are_pytorchs(name: str, dtype: str) -> None:
    tolerance = {"float64": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    check(_filled(FILLS[name], (3, 20), dtype=dtype), tolerance)


@pytest.mark.parametrize("shape", [(3,), (), (0, 3), (3, 0), (0,)], ids=str)
@pytest.mark.parametrize("name", FILLS)
def test_odd_shapes_are_treated_as_pytorch_does(name: str, shape: tuple[int, ...]) -> None:
    check(_filled(FILLS[name], shape), CLOSE)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (4, 3, 3)], ids=str)
@pytest.mark.parametrize("name", sorted(set(FILLS) - MORE_CHECKED_ON_META))
def test_on_meta_shapes_are_checked_and_nothing_is_drawn(name: str, shape: tuple[int, ...]) -> None:
    check(_filled(FILLS[name], shape, device="meta"))


@pytest.mark.parametrize(
    "name",
    ["uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_",
     "kaiming_uniform_", "kaiming_normal_", "orthogonal_"],
)  # fmt: skip
def test_a_generator_can_be_given(name: str) -> None:
    def run(lib: Any) -> Any:
        lib.manual_seed(0)
        generator = lib.Generator().manual_seed(5)
        filled = getattr(lib.nn.init, name)(lib.empty(4, 5), generator=generator)
        return filled, generator.get_state(), lib.get_rng_state()

    check(run, CLOSE)


@pytest.mark.parametrize("wrong", [None, "a", 1j, (0.0,)], ids=repr)
@pytest.mark.parametrize("name", ["uniform_", "normal_"])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_no_number_leaves_the_tensor(name: str, place: int, wrong: Any) -> None:
    arguments = [wrong, 1.0] if place == 0 else [0.0, wrong]
    for lib in (torch, flambeau):
        tensor = lib.ones(3)
        with pytest.raises(TypeError):
            getattr(lib.nn.init, name)(tensor, *arguments)
        with pytest.raises(TypeError):
            getattr(tensor, name)(*arguments)
        assert tensor.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("arguments", GAINS, ids=str)
def test_gains_are_pytorchs(arguments: tuple[Any, ...]) -> None:
    check(lambda lib: lib.nn.init.calculate_gain(*arguments))
