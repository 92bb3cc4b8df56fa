"""Clipping, flattening and fusing parameters with both libraries."""

import numpy as np
import pytest

from tests.conformance.expression import check
from tests.conformance.small_layers import normal

CLOSE = 2e-6


def with_grads(lib, *shapes, scale=1.0):
    """Parameters with gradients."""
    parameters = []
    for number, shape in enumerate(shapes):
        parameter = lib.nn.Parameter(lib.zeros(shape))
        parameter.grad = normal(lib, *shape, seed=number) * scale
        parameters.append(parameter)
    return parameters


def clipped(lib, clip, *args, scale=1.0, **kwargs):
    parameters = with_grads(lib, (3, 4), (5,), scale=scale)
    parameters.append(lib.nn.Parameter(lib.zeros(2)))
    total = getattr(lib.nn.utils, clip)(parameters, *args, **kwargs)
    assert parameters[2].grad is None
    return total, parameters[0].grad, parameters[1].grad


def in_half(lib, clip, *args):
    parameters = with_grads(lib, (3, 4))
    parameters[0].data = parameters[0].data.half()
    parameters[0].grad = normal(lib, 3, 4).half()
    return getattr(lib.nn.utils, clip)(parameters, *args), parameters[0].grad.float()


def of_complex(lib, clip, *args):
    parameter = lib.zeros(2, dtype=lib.complex64)
    parameter.grad = lib.tensor([3 + 4j, 1j])
    return getattr(lib.nn.utils, clip)(parameter, *args), parameter.grad


def with_nan(lib, **kwargs):
    parameters = with_grads(lib, (3,))
    parameters[0].grad[1] = float("nan")
    return lib.nn.utils.clip_grad_norm_(parameters, 1.0, **kwargs), parameters[0].grad


CLIPPING = {
    "norm": lambda lib: clipped(lib, "clip_grad_norm_", 1.5),
    "norm that is small": lambda lib: clipped(lib, "clip_grad_norm_", 100),
    "norm of order 1": lambda lib: clipped(lib, "clip_grad_norm_", 1.0, 1),
    "norm of order 3": lambda lib: clipped(lib, "clip_grad_norm_", 1.0, norm_type=3.0),
    "norm of order 0": lambda lib: clipped(lib, "clip_grad_norm_", 1.0, norm_type=0),
    "norm of order inf": lambda lib: clipped(lib, "clip_grad_norm_", 1.0, norm_type="inf"),
    "norm of order -inf": lambda lib: clipped(lib, "clip_grad_norm_", 0.01, norm_type=-np.inf),
    "norm foreach": lambda lib: clipped(lib, "clip_grad_norm_", 1.5, foreach=True),
    "norm in half": lambda lib: in_half(lib, "clip_grad_norm_", 1.0),
    "norm of nan": with_nan,
    "norm of nan refused": lambda lib: with_nan(lib, error_if_nonfinite=True),
    "norm of one tensor": lambda lib: lib.nn.utils.clip_grad_norm_(with_grads(lib, (3,))[0], 1.0),
    "norm of none": lambda lib: lib.nn.utils.clip_grad_norm_([], 1.0),
    "norm of an empty generator": lambda lib: lib.nn.utils.clip_grad_norm_((x for x in []), 1.0),
    "norm deprecated": lambda lib: clipped(lib, "clip_grad_norm", 1.5),
    "value": lambda lib: clipped(lib, "clip_grad_value_", 0.3)[1:],
    "value foreach": lambda lib: clipped(lib, "clip_grad_value_", 1, foreach=False)[1:],
    "value of one tensor": lambda lib: lib.nn.utils.clip_grad_value_(with_grads(lib, (3,))[0], 1),
    "total norm": lambda lib: lib.nn.utils.get_total_norm([normal(lib, 3), normal(lib, 2, 2)]),
    "total norm of one": lambda lib: lib.nn.utils.get_total_norm(normal(lib, 3), 1.5),
    "total norm of none": lambda lib: lib.nn.utils.get_total_norm([]),
    "total norm of inf": lambda lib: lib.nn.utils.get_total_norm(
        [lib.full((2,), float("inf"))], error_if_nonfinite=True
    ),
    "total norm of integers": lambda lib: lib.nn.utils.get_total_norm([lib.arange(3)]),
    "with a number as the norm": lambda lib: clipped(lib, "clip_grads_with_norm_", 1.0, 4.0),
    "value of complex numbers": lambda lib: of_complex(lib, "clip_grad_value_", 0.5),
    "norm of complex numbers": lambda lib: of_complex(lib, "clip_grad_norm_", 0.5),
    "with norm": lambda lib: clipped(lib, "clip_grads_with_norm_", 1.0, lib.tensor(4.0))[1:],
    "with a small norm": lambda lib: clipped(lib, "clip_grads_with_norm_", 1, lib.tensor(0.5))[1:],
}


@pytest.mark.parametrize("name", CLIPPING)
def test_clipping(name):
    check(CLIPPING[name], CLOSE)


def vector_into(lib, size):
    layer = lib.nn.Linear(2, 3)
    vector = lib.arange(float(size))
    lib.nn.utils.vector_to_parameters(vector, layer.parameters())
    vector[0] = 7.0
    return layer.weight[0, 1], layer.bias


CONVERSION = {
    "to vector": lambda lib: lib.nn.utils.parameters_to_vector(
        [normal(lib, 2, 2), normal(lib, 3, seed=1)]
    ),
    "to vector of none": lambda lib: lib.nn.utils.parameters_to_vector([]),
    "from vector": lambda lib: vector_into(lib, 9),
    "from longer vector": lambda lib: vector_into(lib, 11),
    "from shorter vector": lambda lib: vector_into(lib, 8),
    "from no tensor": lambda lib: lib.nn.utils.vector_to_parameters([1.0], []),
    "memory format": lambda lib: (
        lib.nn.utils.convert_conv2d_weight_memory_format(
            lib.nn.Sequential(lib.nn.Conv2d(1, 1, 1)), lib.channels_last
        )[0].weight.shape
        == (1, 1, 1, 1)
    ),
}


@pytest.mark.parametrize("name", CONVERSION)
def test_conversion(name):
    check(CONVERSION[name])


def fused(lib, layer, bn, shape, fuse, *args):
    lib.manual_seed(1)
    first = layer(lib)
    second = bn(lib)
    second(first(normal(lib, *shape)))
    first.eval(), second.eval()
    found = getattr(lib.nn.utils, fuse)(first, second, *args)
    assert found is not first
    state = list(found.state_dict().values())
    return *state, found(normal(lib, *shape, seed=1)), found.weight.requires_grad


FUSED = {
    "convolution": lambda lib: fused(
        lib,
        lambda lib: lib.nn.Conv2d(2, 3, 2),
        lambda lib: lib.nn.BatchNorm2d(3),
        (2, 2, 4, 4),
        "fuse_conv_bn_eval",
    ),
    "transposed convolution without bias": lambda lib: fused(
        lib,
        lambda lib: lib.nn.ConvTranspose1d(2, 3, 2, bias=False),
        lambda lib: lib.nn.BatchNorm1d(3, affine=False),
        (2, 2, 4),
        "fuse_conv_bn_eval",
        True,
    ),
    "linear": lambda lib: fused(
        lib,
        lambda lib: lib.nn.Linear(4, 3),
        lambda lib: lib.nn.BatchNorm1d(3),
        (5, 4),
        "fuse_linear_bn_eval",
    ),
    "training": lambda lib: lib.nn.utils.fuse_linear_bn_eval(
        lib.nn.Linear(4, 3), lib.nn.BatchNorm1d(3)
    ),
    "without statistics": lambda lib: lib.nn.utils.fuse_conv_bn_eval(
        lib.nn.Conv1d(1, 1, 1).eval(), lib.nn.BatchNorm1d(1, track_running_stats=False).eval()
    ),
    "other features": lambda lib: lib.nn.utils.fuse_linear_bn_eval(
        lib.nn.Linear(4, 3).eval(), lib.nn.BatchNorm1d(4).eval()
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_fusion(name):
    check(FUSED[name], 1e-5)
