"""Disagreements that are documented: by what, and why. Whatever fits none of these is a defect."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.observation import Difference
from tests.fuzz.program import Program


@dataclass(frozen=True)
class Known:
    """Fits a difference in which every given pattern occurs.

    Attributes:
        reason: The line of docs/differences.md, in short.
        theirs: In what PyTorch (or eager) gave or raised.
        ours: In what flambeau (or compiled) gave or raised.
        source: Somewhere in the program.
        what: In the name of the fact and the field that differ.
        happens: A fact of `tests.fuzz.as_documented`: what PyTorch does while the program runs.
        permuted: Whether both gave the same numbers, at other places.
    """

    reason: str
    theirs: str = ""
    ours: str = ""
    source: str = ""
    what: str = ""
    happens: str = ""
    permuted: bool = False

    def fits(self, difference: Difference, program: Program) -> bool:
        return (
            all(
                re.search(pattern, text, re.DOTALL)
                for pattern, text in (
                    (self.theirs, str(difference.expected)),
                    (self.ours, str(difference.found)),
                    (self.source, program.source()),
                    (self.what, fact_of(difference, program)),
                )
            )
            and (not self.permuted or is_permuted(difference.expected, difference.found))
            and (not self.happens or self.happens in facts_of(program))
        )


def fact_of(difference: Difference, program: Program) -> str:
    """The name of the fact that differs; of a flag that the program reads, that flag's."""
    fact = f"{difference.name} {difference.what}"
    read = re.search(r"\.(is_leaf|requires_grad)\b", program.source())
    return f"{fact} {read[1]}" if difference.what == "value" and read else fact


def facts_of(program: Program) -> set[str]:
    """What PyTorch does while the program runs; nothing without PyTorch."""
    if importlib.util.find_spec("torch") is None:
        return set()
    from tests.fuzz.as_documented import as_documented

    return as_documented(program)[1]


def is_permuted(one: Any, other: Any) -> bool:
    return np.allclose(np.sort(np.ravel(one)), np.sort(np.ravel(other)), rtol=1e-4, atol=1e-5)


FLAGS = "requires_grad|has_node|is_leaf"
RESHAPED = r"\.(t|squeeze|unsqueeze|transpose)_\("
CHOICE = (
    r"\b(a?min|a?max|minimum|maximum|nanmean|(nan)?quantile|(nan)?median|cummin|cummax|fmin|fmax"
    r"|kthvalue|nan_to_num|nextafter|pad|hinge_embedding_loss|masked_fill|bernoulli|topk|m?sort"
    r"|mode|clamp|clip)_?\("
)
EAGER = [
    Known("in-place writes never invalidate a graph", "modified by an inplace operation"),
    Known("in-place writes never invalidate a graph", "tensor that has been detached in-place"),
    Known("every tensor is contiguous: view never fails", "view size is not compatible"),
    Known("as_strided works on whole tensors only", ours=r"as_strided\(\) needs a view"),
    Known("views are not resized", ours="is a view of the wrong shape and cannot be resized"),
    Known(
        "expanded tensors and overlapping windows refuse writes", ours="cannot write in place to"
    ),
    Known("there is no complex32", source=r"float16|half\(\)|16", theirs="complex32|float16"),
    Known(
        "there is no complex32",
        theirs="^no error",
        ours=r"needs tensors of one dtype, got (float32(,| and) float16|float16(,| and) float32)",
        source="1j",
    ),
    Known(
        "the gradient of a gradient leads only to inputs that it depends on",
        theirs="True|None",
        ours="False|None",
        source="create_graph=True",
        what=f"{FLAGS}|is missing",
    ),
    Known(
        "the gradient of a gradient leads only to inputs that it depends on",
        theirs="^Tensor",
        ours="^None",
        source="create_graph=True",
        what=r": \w+(\.grad)? type",
    ),
    Known(
        "a view made under no_grad does not require grad",
        theirs="True",
        ours="False|None",
        source=r"no_grad|set_grad_enabled\(False\)",
        what=f"{FLAGS}|is missing",
    ),
    Known(
        "a view does not follow a later requires_grad_() of its base",
        theirs="^Tensor",
        ours="^None",
        source=r"requires_grad_\((True)?\)",
        what=r"\.grad type",
    ),
    Known(
        "a view made under no_grad does not require grad",
        theirs="False",
        ours="True",
        source=r"no_grad|set_grad_enabled\(False\)",
        what="is_leaf",
    ),
    Known(
        "of several mistakes another one may be told first",
        theirs="requires grad is being used in an in-place operation",
        ours="^IndexError at .* too many indices",
        what="error type",
    ),
    Known(
        "a view does not pick up a later requires_grad_() of its base",
        theirs="True|no error",
        ours="False|None|does not require grad",
        source=r"requires_grad_\((True)?\)",
        what=r"error|call \d(, after backward)?: \w+ (requires_grad|has_node|is missing)",
    ),
    Known(
        "a view does not pick up a later requires_grad_() of its base",
        theirs="False",
        ours="True",
        source=r"requires_grad_\((True)?\)",
        what=r"call \d(, after backward)?: \w+ is_leaf",
    ),
    Known(
        "a view of a tensor that is written to and detached in place does not require grad",
        theirs="True",
        ours="False",
        source=r"\.detach_\(\)",
        what=FLAGS,
    ),
    Known(
        "a view of a tensor that is written to and detached in place does not require grad",
        theirs="False",
        ours="True",
        source=r"\.detach_\(\)",
        what="is_leaf",
    ),
    Known(
        "a view of a tensor that is written to and detached in place does not require grad",
        ours="None",
        source=r"\.detach_\(\)",
        what="after backward: .* is missing",
    ),
    Known(
        "a hook on a view stays with its value when the view is written to in place",
        what="elements",
        happens="a view with a hook is written to, or its base",
    ),
    Known(
        "the gradient of a gradient passes through no result, and calls no hook on it",
        source=r"\.register_hook\(.*create_graph=True",
        what=r"\.grad elements",
    ),
    Known(
        "cumsum_ of bools is refused without dimensions and elements too",
        ours=r"cum(sum|prod)_\(\): a result of flambeau.int64 cannot be stored in .*flambeau.bool",
    ),
    Known(
        "gradients are tensors of their own, where PyTorch's may be expanded",
        theirs="True",
        ours="False",
        source=r"\bgrad\b.*\._is_view\(\)",
        what="value",
    ),
    Known(
        "what tensordot, einsum and chain_matmul give is no view of a tensor that nobody has",
        theirs="True",
        ours="False",
        source=r"(tensordot|einsum|chain_matmul)\(.*\._is_view\(\)",
        what="value",
    ),
    Known(
        "what tensordot, einsum and chain_matmul give is no view of a tensor that nobody has",
        theirs="Can't detach views in-place",
        ours="^no error",
        source=r"(tensordot|einsum|chain_matmul)\(.*\.detach_\(\)",
    ),
    Known(
        "what tensordot, einsum and chain_matmul give is no view of a tensor that nobody has",
        theirs="^no error",
        ours="a view of a leaf Variable that requires grad",
        source=r"(tensordot|einsum|chain_matmul)\(.*\.requires_grad_\(",
    ),
    Known(
        "gradients are tensors of their own, where PyTorch's may be expanded",
        source=r"\bgrad\(.*\.contiguous\(\)",
        what="is tensor value",
    ),
    Known(
        "a view made under no_grad does not require grad",
        ours="does not require grad",
        source=r"no_grad|set_grad_enabled\(False\)",
    ),
    Known(
        "a view made under no_grad does not require grad",
        theirs=r"Can't call numpy\(\) on Tensor that requires grad"
        r"|with out=\.\.\. arguments don't support automatic"
        r"|is a view and is being modified inplace",
        ours="^no error",
        source=r"no_grad|set_grad_enabled\(False\)",
    ),
    Known(
        "bernoulli(p) does not require grad: PyTorch's gradient is an error",
        source=r"\.bernoulli\(",
        what=f"{FLAGS}|error|value",
    ),
    Known(
        "a view of a tensor that is detached in place and then written to keeps its gradient",
        theirs="None",
        source=r"(?=.*\.detach_\(\)).*(no_grad|set_grad_enabled\(False\)|init\.)",
        what="grad",
    ),
    Known(
        "a gradient is a tensor of its own, and not a view from inside backward",
        theirs="A view was created in no_grad mode",
        source=r"autograd\.grad\(",
    ),
    Known(
        "PyTorch's scatter_add has gradients for sources of the index's shape only",
        theirs="Function Scatter.* returned an invalid gradient",
    ),
    Known(
        "an operator that saves nothing here has nothing that backward could free",
        theirs="backward through the graph a second time",
        ours="no error",
    ),
    Known(
        "PyTorch's take_along_dim does not check indices",
        ours=r"take_along_dim\(\): index \d+ is out of bounds",
    ),
    Known(
        "PyTorch cannot add to a gradient of zeros that has no memory",
        theirs="ZeroTensors are immutable",
    ),
    Known(
        "an operator that a dtype lacks is a NotImplementedError, which is a RuntimeError",
        theirs="^RuntimeError at",
        ours="^NotImplementedError at .* is not implemented for",
        what="error type",
    ),
    Known(
        "other operators save values here, so backward frees them",
        theirs="^no error",
        ours=r"^RuntimeError at .*Backward\d+: Trying to backward through the graph a second time",
    ),
    Known(
        "a retained gradient has the shape that its tensor was given in place",
        source=rf"\.retain_grad\(\).*{RESHAPED}|{RESHAPED}.*\.retain_grad\(\)",
        what=r"\.grad shape",
    ),
    Known(
        "a tensor with a retained gradient may be written to after a change of shape in place",
        theirs="out != nullptr INTERNAL ASSERT FAILED",
        source=RESHAPED,
    ),
    Known(
        "views made before an in-place change of shape are written no more",
        ours="given another shape in place after the view was made",
    ),
    Known(
        "in-place writes never invalidate a graph",
        theirs="its base or another view of its base has been modified inplace",
        ours="^no error",
    ),
    Known(
        "the gradient of a choice requires grad, with zeros",
        theirs="False|None",
        ours="True|None",
        source=f"{CHOICE}.*create_graph=True",
        what=f"{FLAGS}|is missing",
    ),
    Known(
        "the gradient of a choice requires grad, with zeros",
        theirs="^no error",
        ours=r"requires_grad can be changed on leaf tensors only; this one is the result of "
        r"\w+|one of several that (split|chunk|unbind)\(\) gave",
        source=f"{CHOICE}.*create_graph=True",
    ),
    Known(
        "the gradient of a gradient leads only to inputs that it depends on",
        theirs="^no error",
        ours="element 0 of tensors does not require grad and has no grad_fn"
        r"|an input of shape \[[\d, ]*\] does not require grad"
        "|cannot (register a hook on|retain the grad of) a tensor that does not require grad",
        source="create_graph=True",
    ),
    Known(
        "which of several equal elements the gradient goes to may differ",
        source=r"\b((nan)?quantile|kthvalue|(nan)?median|topk|sort|argsort|mode|msort)\(",
        what="elements",
        permuted=True,
    ),
    Known(
        "a view of a tensor that was written to is no leaf, and may be written to",
        theirs="a leaf Variable that requires grad is being used in an in-place operation",
        happens="a write to a view is refused as one to a leaf",
    ),
    Known(
        "what is resized to hold a result has elements of its own",
        ours=r"was given another shape in place under no_grad\(\)",
        source=r"\bout=",
    ),
    Known(
        "the gradient of a norm at 0 has a gradient of 0",
        theirs="nan",
        ours="^[^n]*$",
        source=r"\b(dist|cdist|norm|pairwise_distance)\(",
        what="grad elements",
    ),
    Known(
        "interpolation does not multiply elements that have no part in a result by 0",
        theirs="nan",
        source=r"\binterpolate\(",
        what="elements",
    ),
    Known("abs_ takes complex numbers", theirs="In-place abs is not supported", ours="^no error"),
    Known(
        "an index out of range is an IndexError",
        theirs="^RuntimeError at .*setStorage",
        ours="^IndexError at .* is out of bounds",
    ),
    Known(
        "trapezoid of nothing has a gradient",
        theirs="False|None",
        ours="True|None",
        source=r"\btrap(z|ezoid)\(",
        what=f"{FLAGS}|is missing",
    ),
    Known(
        "trapezoid of infinities is infinite",
        theirs="nan",
        source=r"\btrap(z|ezoid)\(",
        what="elements",
    ),
    Known("rates of poisson beyond 2 ** 63 are refused", ours="poisson needs rates below"),
    Known(
        "there is no complex32",
        theirs="^no error",
        ours="flambeau.float32 assigned to a tensor of flambeau.float16|got float32 and float16"
        "|of flambeau.float(16|32) cannot go into a tensor of flambeau.float(16|32)",
        source=r"float16.*\(1 \+ 1j\)",
    ),
    Known(
        "losses of two dtypes have gradients",
        theirs=r"^RuntimeError at `backward outside`: Found dtype \w+ but expected",
        ours="^no error",
        source=r"F\.(huber|soft_margin|hinge_embedding)_loss\(",
    ),
    Known(
        "gradients that PyTorch lacks or refuses exist",
        theirs=r"at `(backward outside|.*(autograd\.grad|\.backward)\(.*)`: ("
        "Got unsupported ScalarType ComplexHalf"
        "|Subtraction, the `-` operator, with a bool tensor"
        "|the derivative for '_cdist_backward' is not implemented"
        '|"i1e?_backward" not implemented'
        "|addmv input tensors must have the same dtype"
        r"|Expected isFloatingType\(grad\.scalar_type\(\)\)"
        r"|derivative for aten::\w+ is not implemented)",
        ours="^no error|Trying to backward through the graph a second time|NoneType",
    ),
    Known(
        "parameters of half precision are stepped in single precision",
        theirs="nan|inf",
        source=r"float16.*\.step\(\)",
        what=r"elements",
    ),
    Known(
        "the conversion of NaN and of numbers out of range to integers is undefined",
        theirs="-9223372036854775808|-2147483648",
        what="elements|value",
    ),
    Known("matrix_exp in half precision", source=r"(half|float16).*matrix_exp", what="elements"),
    Known(
        "operators that PyTorch lacks in half precision work, also of several dtypes",
        theirs="^NotImplementedError at .* not implemented for '(Half|BFloat16)'"
        "|^RuntimeError at [^:]*cdist[^:]*: expected scalar type",
        ours="^no error",
    ),
    Known(
        "integers take no part in gradients, also where values that do are written to them",
        theirs="Autograd not support dtype: (Long|Byte|Int|Bool)",
        ours="^no error",
    ),
    Known(
        "integers take no part in gradients, also where values that do are written to them",
        theirs="functions with out=... arguments don't support automatic differentiation",
        ours="^no error",
        source=r"dtype=lib\.(bool|u?int\d+)\).*\[\.\.\.\] = ",
    ),
    Known(
        "integers take no part in gradients, also where values that do are written to them",
        source=r"dtype=lib\.(bool|u?int\d+)\).*\w\[[^]]+\] = ",
        what=FLAGS,
    ),
    Known(
        "a NaN cotangent of logcumsumexp stays NaN", ours="nan", source="logcumsumexp", what="grad"
    ),
    Known(
        "gradients of gradients of logcumsumexp, sinc, atan2 and norms are not NaN",
        theirs="nan",
        source=r"(logcumsumexp|sinc|atan2|norm)\b.*create_graph=True",
        what="elements",
    ),
    Known(
        "integers take no part in gradients, also where values that do are written to them",
        theirs="^no error",
        ours="cannot register a hook on a tensor that does not require grad",
        source=r"dtype=lib\.(bool|u?int\d+)\).*\w\[[^]]+\] = ",
    ),
    Known(
        "linear of a vector is one of a row: its result is no view, and its bias has its dtype",
        source=r"F\.linear\(",
        ours="needs tensors of one dtype|False",
        theirs="^no error|True",
        what="error|value",
    ),
    Known(
        "the median of an expanded tensor is that of its elements, where PyTorch sorts in place",
        source=r"\.expand\(.*\.median\(",
        what="elements",
    ),
    Known(
        "lerp of tensors without dimensions keeps its dtype, whatever the weight's",
        source=r"\blerp_?\(",
        what="dtype",
    ),
    Known(
        "a view does not pick up a later requires_grad_() of its base",
        what=r"\.grad elements",
        happens="a tensor gets requires_grad after a view of it was made",
    ),
    Known(
        "subnormal numbers count as zeros",
        ours="nan",
        source=r"F\.kl_div\(.*softmax\(",
        what=r"\.grad elements",
    ),
    Known(
        "subnormal numbers count as zeros",
        source=r"\bnextafter_?\(",
        what="elements",
    ),
    Known(
        "of several mistakes another one may be told first",
        theirs="requires grad is being used in an in-place operation|is being modified inplace",
        ours=r"^IndexError at .* (a mask of shape|index_copy\(\): a source of shape)",
        what="error type",
    ),
    Known(
        "matrices in half precision are refused with a NotImplementedError",
        theirs=r"^RuntimeError at .*(expected a tensor with 2 or more dimensions of float, double"
        "|Low precision dtypes not supported|types other than float and double)",
        ours="^NotImplementedError at .* not implemented for '(Half|BFloat16)'",
        what="error type",
    ),
    Known(
        "a recorded gradient requires grad, also where it is constant, as those of clamp",
        theirs="False",
        ours="True",
        source="create_graph=True",
        what="requires_grad|has_node",
    ),
    Known(
        "the result of a module with a full backward hook may be overwritten",
        theirs="Output 0 of BackwardHookFunction is a view and is being modified inplace",
        ours="^no error",
    ),
    Known(
        "rounding decides which results are exactly 0",
        source=r"\.corrcoef\(",
        what=r"call \d+: \w+ elements",
    ),
    Known(
        "rounding decides which results are equal",
        theirs=r"^(\[*)?(True|False)\b",
        source=r"(_norm|Norm(\dd)?)\(.*(\.(eq|ne|lt|le|gt|ge|signbit)\(| (==|!=|<|<=|>|>=) )",
        what=r"call \d+: \w+ elements",
    ),
    Known(
        "rounding decides which results are exactly 0",
        theirs=r"^(\[*)?(True|False)\b",
        source=r"logaddexp2\((\w+), \1\).*\.bool\(\)",
        what=r"call \d+: \w+ elements",
    ),
    Known(
        "the gradient of a gradient leads only to inputs that it depends on",
        theirs="False",
        ours="True",
        source="create_graph=True",
        what=r": \w+(\.grad)? is_leaf",
    ),
    Known(
        "a recorded gradient that does not depend on a tensor may lead to it all the same",
        source="create_graph=True",
        what="grad zeros for None",
    ),
    Known(
        "a kept gradient has the shape of its tensor, also after transpose_()",
        source=rf"retain_grad\(\).*{RESHAPED}",
        what=r"\.grad elements",
        permuted=True,
    ),
    Known(
        "svd and pinv refuse matrices with NaN or infinity",
        theirs="^no error",
        ours="contains NaN or infinity, for which no algorithm converges",
    ),
    Known(
        "a recorded gradient requires grad, also where it is constant, as that of min",
        theirs="True",
        ours="False",
        source=r"create_graph=True.*\.is_leaf\b",
        what="value",
    ),
    Known(
        "the mean of var_mean of infinities is infinite",
        theirs="nan",
        ours="inf",
        source=r"(var|std)_mean\(",
        what="elements",
    ),
    Known(
        "cosine_similarity of zeros in half precision is 0",
        theirs="nan",
        ours=r"\b0\.0",
        source=r"(float16|half).*cosine_similarity|cosine_similarity.*(float16|half)",
        what="elements",
    ),
    Known(
        "einsum refuses two dtypes also where PyTorch multiplies no matrices",
        theirs="^no error",
        ours=r"einsum\(\) needs tensors of one dtype",
    ),
    Known("soft_margin_loss does not overflow", "inf", source="soft_margin_loss", what="elements"),
    Known(
        "quantiles between equal infinities are infinite",
        theirs="nan",
        ours="inf",
        source=r"quantile\(",
        what="elements",
    ),
    Known(
        "gradients of matrix_exp of large norms are right in single precision",
        source=r"matrix_exp\(",
        what="grad elements",
    ),
    Known(
        "the gradient of a choice requires grad with create_graph, so out= refuses it",
        theirs="^no error",
        ours="out= takes no part in gradients",
        source=rf"{CHOICE}.*create_graph=True",
    ),
    Known(
        "the gradient of a single normalized number is 0, or what rounding leaves of it",
        theirs=r"^-?0\.0$",
        source=r"(normalize|cosine_similarity)\(.*(autograd\.grad|backward)\(",
        what="elements",
    ),
]
COMPILED = [
    Known(
        "a leaf that is detached in place gets no gradient from earlier operations",
        theirs="a leaf variable has been moved into the graph interior",
        source=r"\.detach_\(\)",
    ),
    Known(
        "a result that gets no cotangent counts as one that got zeros", what="grad zeros for None"
    ),
    Known(
        "retain_grad is refused where backward() is called outside",
        source=r"\.retain_grad\(\)",
        what="grad is missing|requires_grad",
    ),
    Known(
        "all results of a call share one node, so a backward frees what the others need",
        ours="CompiledFunctionBackward: Trying to backward through the graph a second time",
    ),
    Known(
        "a function that has gone backward from what it returns shares the graph with all results",
        ours="backward through the graph a second time",
        source=r"\.backward\(",
    ),
    Known(
        "hooks that a function leaves on tensors from outside are refused",
        ours="compiled function registers (the|a) hook",
    ),
    Known(
        "a backward hook of a function compiled without its backward() may not write, "
        "and retain_grad is one that does",
        ours="inside a compiled function writes to a tensor or a container",
    ),
    Known(
        "a recorded gradient requires grad, also where a mask picks nothing",
        theirs="False",
        ours="True",
        source=r"masked_select.*create_graph=True",
        what="requires_grad|has_node",
    ),
    Known(
        "an index out of range is no error in a compiled function",
        theirs=r"index \d+ is out of bounds|out of range|masked_scatter.*source only",
        ours="^no error",
    ),
    Known(
        "a matrix that cannot be factored gives NaN in a compiled function",
        theirs="LinAlgError",
        ours="^no error",
    ),
]


def reason(difference: Difference, program: Program, *, compiled: bool) -> str | None:
    """Why the difference is as it should be, or None."""
    for known in COMPILED if compiled else EAGER:
        if known.fits(difference, program):
            return known.reason
    return None
