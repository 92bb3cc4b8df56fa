"""The rule of each operator that takes a Selection, in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.ops.reductions.extremum import nanmedian
from flambeau.ops.reductions.quantile import nanquantile
from flambeau.ops.selections import losses, products, reductions, shapes, subscripts
from flambeau.ops.selections.calls import Rule, refuse_operator, selections_in
from flambeau.ops.selections.elementwise import converted, elementwise
from flambeau.ops.selections.reductions import (
    along,
    bounds,
    compared,
    extreme,
    flags,
    greatest,
    least,
    position,
    reducing,
    without_nan,
)

__all__: list[str] = []

_INFINITY = float("inf")

# Each lane separately, also in place. Other operands are broadcast.
_ELEMENTWISE = """
add addcdiv addcmul div floor_divide fmod gcd lcm lerp mul neg positive reciprocal remainder rsub
square sub
angle conj conj_physical isclose eq ge gt le lt ne clone detach copy
keep_scaled keep_self_normalizing
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor isfinite isinf
isnan isneginf isposinf isreal logical_and logical_not logical_or logical_xor
celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu
silu softplus softshrink softsign tanhshrink threshold
abs acos acosh asin asinh atan atan2 atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2
expm1 float_power floor frac hypot i0 igamma igammac ldexp lgamma log log10 log1p log2 logaddexp
logaddexp2 logit nextafter polygamma pow rad2deg round rsqrt sgn sigmoid sign signbit sin sinc sinh
sqrt tan tanh trunc xlogy
clamp clamp_max clamp_min copysign fmax fmin heaviside maximum minimum nan_to_num where
zeros_like ones_like full_like rand_like randn_like fill_ zero_ real imag
"""

_MOVING = """
unsqueeze permute transpose swapaxes swapdims movedim moveaxis t adjoint
_get_T _get_mT _get_H _get_mH
"""

# Along one dimension other than the hidden one.
_BESIDE = "sort argsort topk cummax cummin normalize diff glu"

_PARTS = "split _split_method split_with_sizes chunk tensor_split narrow select unbind"

_LOSSES = """
binary_cross_entropy binary_cross_entropy_with_logits gaussian_nll_loss hinge_embedding_loss
huber_loss kl_div l1_loss margin_ranking_loss mse_loss poisson_nll_loss smooth_l1_loss
soft_margin_loss
"""

_ROW_LOSSES = """
cosine_embedding_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss
triplet_margin_loss
"""

# Of images.
_POOLS = "avg_pool2d max_pool2d adaptive_avg_pool2d"

# Operators that read only known properties.
_QUESTIONS = """
is_floating_point is_complex is_signed element_size get_device is_conj is_neg
new_tensor new_zeros new_ones new_full new_empty
"""


def _all(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


def _answered(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(args[0].lanes, *args[1:], **kwargs)


#: The rule of each operator, by its name.
RULES: dict[str, Rule] = {
    **_all(_ELEMENTWISE, elementwise),
    **_all("_where_method", elementwise),
    "to": converted,
    **_all(_QUESTIONS, _answered),
    # Along dimensions
    **_all(_BESIDE, along()),
    "cosine_similarity": compared(1),
    "pairwise_distance": compared(-1),
    **_all("cumsum", along(0)),
    **_all("cumprod", along(1)),
    **_all("softmax log_softmax logcumsumexp", along(-_INFINITY)),
    **_all("sum nansum count_nonzero", reducing(0)),
    "prod": reducing(1),
    "all": flags(True),
    "any": flags(False),
    "nanmean": reducing(float("nan")),
    "logsumexp": reducing(-_INFINITY),
    "mean": reductions.mean,
    **_all("var std var_mean std_mean", reductions.variance),
    **_all("norm vector_norm linalg_vector_norm linalg_norm", reductions.norm),
    "amax": bounds(least),
    "amin": bounds(greatest),
    "max": extreme(least),
    "min": extreme(greatest),
    "argmax": position(least),
    "argmin": position(greatest),
    **_all("median nanmedian", without_nan(nanmedian)),
    **_all("quantile nanquantile", without_nan(nanquantile)),
    # Losses
    **_all(_LOSSES, losses.loss),
    **_all(_ROW_LOSSES, losses.row_loss),
    **_all("cross_entropy nll_loss", losses.classes),
    # Shapes
    **_all(_MOVING, shapes.moving),
    **_all(_PARTS, shapes.parts),
    "squeeze": shapes.squeeze,
    "flip": shapes.flip,
    **_all("reshape view", shapes.reshape),
    **_all("flatten ravel", shapes.flatten),
    **_all("expand broadcast_to", shapes.expand),
    "expand_as": shapes.expand_as,
    **_all("cat concat concatenate", shapes.cat),
    "stack": shapes.stack,
    # Products
    **_all("matmul mm mv dot", products.matmul),
    "linear": products.shared(lambda given: 1),
    **_all("layer_norm rms_norm", products.shared(products.dims_of_shape)),
    **_all("prelu group_norm", products.shared(lambda given: given["input"].ndim - 1)),
    **_all(_POOLS, products.shared(lambda given: 3, batch=True)),
    "conv1d": products.shared(lambda given: 2, batch=True),
    "conv2d": products.shared(lambda given: 3, batch=True),
    "conv3d": products.shared(lambda given: 4, batch=True),
    # Indices
    "__getitem__": subscripts.getitem,
    "__setitem__": subscripts.setitem,
    **_all("index_put index_put_", subscripts.index_put),
    "index_select": subscripts.index_select,
    **_all("embedding one_hot take isin bucketize searchsorted", subscripts.lookup),
    "masked_select": subscripts.masked_select,
    **_all("masked_fill masked_fill_", subscripts.masked_fill),
    **_all("gather take_along_dim", subscripts.gather),
    **_all("masked_scatter masked_scatter_", subscripts.masked_scatter),
    "bincount": subscripts.counted,
    **_all(
        "index_add index_add_ index_copy index_copy_ index_fill index_fill_ scatter_add "
        "scatter_add_",
        subscripts.accumulate,
    ),
}


def run(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute ``func`` with Selections among its arguments.

    Raises:
        TracedValueError: The operator has no rule.
    """
    name = func.__name__
    rule = RULES.get(name)
    if rule is None and name.endswith("_") and RULES.get(name[:-1]) is elementwise:
        rule = elementwise
    if rule is None or "out" in kwargs:
        refuse_operator(name, next(selections_in((*args, *kwargs.values()))))
    return rule(func, args, kwargs)
