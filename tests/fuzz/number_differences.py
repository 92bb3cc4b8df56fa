"""Where flambeau's numbers differ from PyTorch's on purpose, as docs/differences.md says."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import NamedTuple


class Difference(NamedTuple):
    """A documented difference.

    Attributes:
        cases: Matches the whole name of a case.
        where: Matches ``"value 0"``, or ``"gradient 0, nan"`` with the kind of cotangent.
        kinds: Matches all of ``"nan for 0"``: flambeau's kind of number, and PyTorch's.
        edges: The element depends on an input of one of these kinds; empty if on any.
        reason: Why, in a few words.
        dtypes: Matches the names of dtypes.
    """

    cases: str
    where: str
    kinds: str
    edges: str
    reason: str
    dtypes: str = ""


#: Kinds of numbers.
_FINITE, _INFINITE = "(0|number)", "-?inf"
_SPECIAL = f"(nan|{_INFINITE})"
_ENDS = "huge tiny"

DIFFERENCES = [
    # Exact here, rounded or cancelled there.
    Difference(r"arithmetic\.(remainder|fmod)", "value", "0 for nan", _ENDS,
               "great quotients, whose remainder is exact"),
    Difference(r"special\.sinc", "gradient", "number for number", "number",
               "near 0 PyTorch's terms cancel"),
    Difference(r"special\.sinc, complex", "gradient", r".*number.* for .*number.*", "number",
               "near 0 PyTorch's terms cancel", "complex"),
    Difference(r"special\.sinc", "gradient 0, (nan|inf|some nan)", f"{_SPECIAL} for 0", "tiny 0",
               "the slope near 0 is not 0"),
    Difference(r"special\.(digamma|polygamma, 0)", "gradient", "number for number", "",
               "PyTorch's trigamma function has 9 digits", "float64"),
    Difference(r"special\.polygamma, 1", "value", "number for number", "",
               "PyTorch's trigamma function has 9 digits", "float64"),
    Difference(r"special\.lgamma", "value", "number for 0", "number",
               "at 1 and 2 the last bits of numbers near 1"),
    Difference(r"special\.logaddexp2", "value", "0 for number", "number",
               "PyTorch's sum of halves is 1e-8 off"),
    Difference(r"special_functions\.ndtr", "value", "number for (0|number)", "number",
               "far below 0 PyTorch's terms cancel"),
    Difference(r"special_functions\.log_ndtr", "value|gradient", "number for number", "number",
               "far from 0 PyTorch's terms cancel"),
    Difference(r"activation\.gelu", "value", "number for number", "number",
               "of negative numbers PyTorch's terms cancel", "float32"),
    Difference(r"activation\.gelu, tanh", "value|gradient", "number for (0|number)", "number",
               "of negative numbers terms cancel"),
    Difference(r"activation\.celu, 0\.7", "gradient", "number for number", "",
               "PyTorch's reciprocal of alpha is of single precision", "float64"),
    Difference(r"activation\.gelu", "value", "inf for nan", "inf", "its limit"),
    Difference(r"activation\.tanhshrink", "value", "number for (0|number)", "number",
               "near 0 PyTorch's terms cancel", "float32|bfloat16"),
    Difference(r"activation\.hardsigmoid", "gradient 0, (plain|some nan)", "number for number", "",
               "PyTorch's sixth is of single precision", "float64"),
    Difference(r"loss\.binary_cross_entropy", "gradient 0, (plain|some nan)", "number for number",
               "", "PyTorch's least probability is of single precision", "float64"),
    Difference(r"reduction\.(var|std)_mean(, biased)?", "value 1", "0 for number", "number",
               "PyTorch's mean of a row that sums to 0 is 1e-17"),
    Difference(r"pointwise\.ldexp", "gradient", "number for number", "",
               "of negative integer exponents PyTorch's is 0"),
    # Powers.
    Difference(r"powers\.power_number, 1\.5", "gradient 0, (plain|some nan)", "inf for nan", "inf",
               "fractional powers of minus infinity"),
    Difference(r"powers\.power", "value", r"number\+0i for nan\+nani|nan\+nani for 0\+0i", "0",
               "complex powers of 0", "complex64"),
    Difference(r"powers\.power", "gradient ., (plain|some nan)",
               r"(number|0)\+0i for nan\+nani", "0", "complex powers of 0", "complex64"),
    Difference(r"powers\.power_number, (inf|nan)", "value",
               r"nan\+nani for 0\+0i|number\+0i for nan\+nani", "",
               "complex powers with infinite and NaN exponents", "complex"),
    Difference(r"special\.logaddexp, complex", "value", r"number\+numberi for number\+numberi",
               "number", "imaginary parts are within pi of 0", "complex"),
    Difference(r"complex_numbers\.polar.*", "gradient 0, (plain|some nan)",
               "number for (0|nan|number)", "", "lengths of 0, below 0, and infinite ones"),
    # At the ends of the range.
    Difference(r"complex_numbers\.polar", "value", r"(0|number)\+0i for number\+numberi", "tiny",
               "subnormal parts"),
    Difference(r"complex_numbers\.polar", "gradient 1", f"({_SPECIAL}) for {_FINITE}", "huge",
               "products overflow on the way"),
    Difference(r"arithmetic\.div", "gradient 1, (plain|some nan)", f"{_INFINITE} for number",
               "huge", "products overflow on the way"),
    Difference(r"special\.(igammac?)", "value", f"nan for {_FINITE}", "nan", "NaN is not dropped"),
    Difference(r"special\.igammac", "value", "0 for number", "tiny", "orders that are taken for 0"),
    Difference(r"special\.igammac?", "value", f"{_FINITE} for nan", "huge",
               "the greatest orders, of which PyTorch's density is NaN"),
    Difference(r"special\.igammac?", "gradient 1, (plain|some nan)",
               f"({_FINITE}|{_INFINITE}) for nan", "", "the density at the ends"),
    Difference(r"special\.igammac?", "gradient 1", "nan for 0", "huge",
               "a logarithm times the greatest order"),
    Difference(r"special\.xlogy|special_functions\.xlog1py", "gradient 1, (plain|some nan)",
               f"(nan for {_INFINITE}|0 for (nan|number))", "huge",
               "reciprocals of the greatest numbers are 0"),
    Difference(r"special\.atan2", "gradient", "(0 for nan|number for 0)", _ENDS,
               "squares of which PyTorch's over- or underflow"),
    Difference(r"special\.hypot", "gradient", "0 for nan", "huge", "lengths that are infinite"),
    Difference(r"special_functions\.erfcx", "gradient 0, plain", "nan for inf", "huge",
               "products overflow on the way"),
    Difference(r"loss\.kl_div", "value|gradient 1, plain", f"{_INFINITE} for nan", "huge",
               "products overflow on the way"),
    Difference(r"loss\.kl_div", "gradient 1, (plain|some nan)", "number for number", "huge",
               "a logarithm of the greatest number plus 1"),
    Difference(r"activation\.mish", "value", "0 for number", "number",
               "the exponential of -710 is subnormal", "float64"),
    # A cotangent of 0 where the slope is infinite.
    Difference(r"special\.xlogy(, of 0\.0)?|special_functions\.xlog1py", "gradient 0, zero",
               "nan for 0", "", "a cotangent of 0 where the slope is infinite"),
    Difference(r"loss\.kl_div", "gradient 1, zero", "nan for 0", "",
               "a cotangent of 0 where the slope is infinite"),
    Difference(r"special\.(digamma|polygamma, 0)", "gradient 0, zero", "nan for 0", "number huge",
               "a cotangent of 0 where the slope is infinite"),
    Difference(r"activation\.glu", "gradient 0, (plain|some nan)",
               f"({_INFINITE} for number|nan for 0)", "huge",
               "a greatest number times its cotangent overflows on the way"),
    # Poles.
    Difference(r"special\.(digamma|polygamma, 0)", "gradient 0, (plain|some nan)",
               f"{_INFINITE} for (number|nan)", "", "poles are infinite"),
    Difference(r"special\.polygamma, 1", "value", "inf for (number|nan)", "",
               "poles are infinite"),
    # NaN.
    Difference(r"special_functions\.i1", "gradient", f"nan for {_FINITE}", "nan",
               "PyTorch drops NaN"),
    Difference(r"activation\.(relu6|hardtanh|hardshrink(, 0)?|softshrink(, 0)?)", "gradient",
               f"({_SPECIAL}|number) for 0", "nan", "as in PyTorch's plain loops"),
    Difference(r"activation\.(hardswish|selu|celu(, 0\.7)?|elu(, 0\.7)?)", "gradient 0, plain",
               "number for nan", "nan", "as in PyTorch's plain loops"),
    Difference(r"extremum\.(amax|amin|aminmax)", "gradient", f"{_FINITE} for nan", "nan",
               "the gradient of a NaN goes to the NaN"),
    # Infinities that PyTorch subtracts from each other, or multiplies by 0.
    Difference(r"reduction\.(var|std)_mean(, biased)?", "value 1", f"{_INFINITE} for nan", "inf",
               "the mean of infinities is infinite"),
    Difference(r"cumulative\.cumprod", "gradient", f"({_INFINITE}|number) for nan",
               "inf 0 nan", "the products of the others"),
    Difference(r"cumulative\.cumprod", "gradient", f"nan for ({_FINITE}|{_INFINITE})", "0",
               "the products of the others"),
    Difference(r"cumulative\.logcumsumexp.*", "gradient 0, (nan|some nan)", f"nan for {_FINITE}",
               "", "NaN cotangents stay NaN"),
    Difference(r"cumulative\.logcumsumexp", "gradient", f"{_FINITE} for nan", "inf",
               "beside infinity gradients are finite"),
    Difference(r"cumulative\.logcumsumexp", "error", "error", "", "not complex", "complex"),
    Difference(r"differences\.trapezoid", "value", f"{_INFINITE} for nan", "inf",
               "the mean of equal infinities"),
    Difference(r"norms\.(vector_norm|renorm), 0\.5", "gradient", f"{_FINITE} for nan", "0",
               "at 0 there is no gradient of orders below 1"),
    Difference(r"quantile\.quantile, (nan)?quantile (linear|midpoint)|quantile\.quantile, equals",
               "value", f"{_INFINITE} for nan", "inf", "between equal infinities"),
    Difference(r"quantile\.quantile, (nan)?quantile (linear|midpoint)", "gradient",
               f"{_FINITE} for number", "inf", "between equal infinities"),
    Difference(r"distance\.cdist, (1\.0|inf)", "gradient", f"{_FINITE} for nan", "",
               "differences of infinite rows that do not count"),
    Difference(r"distance\.cdist, inf", "value", f"nan for ({_FINITE}|inf)", "",
               "NaN is not dropped"),
    Difference(r"loss\.poisson_nll_loss", "value", f"{_INFINITE} for nan", "inf huge",
               "infinities that PyTorch subtracts from each other"),
    Difference(r"loss\.poisson_nll_loss, full", "gradient 1, (plain|some nan)",
               f"({_FINITE}|{_INFINITE}) for nan", "", "Stirling's terms that do not count"),
    Difference(r"loss\.gaussian_nll_loss", "gradient 1, plain", f"{_INFINITE} for nan", "inf",
               "infinities that PyTorch subtracts from each other"),
    Difference(r"margin_loss\.soft_margin_loss", "gradient 0, (plain|some nan)", "number for nan",
               "inf huge number", "exponentials that PyTorch divides by each other"),
    Difference(r"arithmetic\.r?(add|sub)_scaled", "value", r"nan for -?inf|-?inf for number",
               "inf huge", "a product that overflows before it is added, unless XLA fuses both"),
    Difference(r"distance\.cdist, inf", "gradient", f"{_FINITE} for number", "",
               "equal greatest differences share the gradient"),
    Difference(r"distance\.cosine_similarity, large", "value", "number for 0", "",
               "squares that overflow or not"),
    # Matrices.
    Difference(r"matrix_functions\.det, large", "value", "nan for -?inf", "",
               "factors whose product overflows", "float32"),
    Difference(r"matrix_functions\.slogdet, inf", "value 0", "number for 0", "",
               "the sign of a NaN", "float32"),
    Difference(r"matrix_functions\.spectral_norm, -2, singular", "value",
               f"{_FINITE} for {_FINITE}", "", "a singular value of 0, up to rounding", "complex"),
    Difference(r"solving\.inverse, nan", "value", "number for nan", "",
               "rows of the inverse that NaN does not reach", "float32"),
    Difference(r"(factorization|solving|matrix_functions)\..*, inf", "value|gradient",
               r".* for .*nan.*|nan\+nani for inf\+infi", "",
               "what is divided by infinity is 0, where PyTorch has NaN"),
    Difference(r"(matrix_functions\.spectral_norm, nuc|norms\.nuclear_norm), inf", "gradient",
               r"nan.* for .*", "", "singular vectors of infinite matrices"),
    Difference(r"(factorization\.(linalg_svd|svdvals)|solving\.pinv), inf", "error", "error", "",
               "infinite matrices are refused"),
    Difference(r"matrix_functions\.det, inf", "value|gradient", "nan for inf", "",
               "infinity times the other elements' sum", "float32"),
    Difference(r"matrix_functions\.det, singular", "gradient", r".* for 0(\+0i)?", "",
               "the cofactors of matrices without an inverse"),
    Difference(r"matrix_functions\.slogdet, nan", "value 0", "number for 0", "nan",
               "the sign of a NaN", "float32"),
    Difference(r"matrix_functions\.slogdet, (singular|zero)", "gradient", "nan for .*", "",
               "matrices without an inverse", "float32"),
    Difference(r"matrix_functions\.logdet, large", "value", r"number\+numberi for number\+numberi",
               "", "LAPACK's factors where squares overflow", "complex64"),
    Difference(r"matrix_functions\.matrix_exp, large", "value", "nan for -?inf", "",
               "norms beyond 2e9"),
    Difference(r"matrix_functions\.matrix_power, 3, large", "value|gradient",
               r".*inf.* for (nan|.*inf.*)", "", "products that overflow"),
    Difference(r"matrix_functions\.matrix_power, -2, small|solving\.cholesky_(solve|inverse), "
               r"(small|singular)|reparametrization\.weight_norm, zero", "gradient",
               r".*inf.* for .*nan.*|.*nan.* for .*inf.*", "",
               "infinities that are subtracted from each other"),
    Difference(r"matrix_functions\.matrix_norm, matrix -?(1|inf)", "gradient", "0 for nan", "nan",
               "the gradient of a NaN goes to its row or column"),
    Difference(r"factorization\.eigh, large", "value 1", r".*inf.* for nan\+nani", "",
               "products that overflow", "complex"),
    Difference(r"factorization\.linalg_svd, large", "gradient", r".*number.* for .*nan.*", "",
               "products that overflow", "float32|complex64"),
    Difference(r"factorization\.eigh, large", "gradient", r".*nan.* for 0(\+0i)?", "",
               "products that overflow", "complex64"),
    Difference(r"factorization\.lu_factor, nan", "value|gradient", "number for nan", "",
               "rows that NaN does not reach after other pivots"),
    Difference(r"factorization\.linalg_qr, singular", "gradient", "number for nan", "",
               "matrices whose least singular value is 0 have none"),
    Difference(r"unpooling\.fractional_max_pool", "gradient", ".*", "nan",
               "which NaN of a window is taken"),
    Difference(r"(matrix_functions\.spectral_norm, (-2|nuc)|norms\.nuclear_norm|"
               r"factorization\.(linalg_qr|linalg_svd|svdvals)), singular", "gradient",
               r"number\+numberi for number\+numberi", "0",
               "matrices whose least singular value is 0 have none", "complex"),
    # Images, signals and sequences.
    Difference(r"resampling\.interpolate_smoothly, .*", "gradient 0, (nan|inf|some nan)",
               f"nan for {_FINITE}", "", "cotangents are multiplied by matrices of weights"),
    Difference(r"grids\.grid_sample, bicubic, edges", "gradient 1", f"nan for {_INFINITE}", "inf",
               "weights of both signs times infinite pixels"),
    Difference(r"convolution\.conv_transpose2d, strided, edges", "gradient 1, (plain|zero)",
               f"nan for {_FINITE}", "nan inf", "NaN meets a cotangent of 0 beside the windows"),
    Difference(r"fourier\.real_to_complex, i?[hr]fft edges", "value", r".*nan.* for -?inf\+.*",
               "inf", "transforms of infinities"),
    Difference(r"ctc\.ctc_loss, impossible \{\}", "gradient 0, plain", "0 for nan", "",
               "impossible targets have a gradient of 0"),
    Difference(r"ctc\.ctc_loss, edges .*", "gradient 0, (plain|some nan)", f"{_FINITE} for nan",
               "inf", "scores of minus infinity, of which PyTorch subtracts two"),
    Difference(r"recurrent\.cell, gru ", "gradient", "number for number", "",
               "derivatives of gates that bfloat16 rounds to 1", "bfloat16"),
    # Ties.
    Difference(r"sorting\.(topk|kthvalue)", "gradient", r".*", "", "which of equals is taken"),
]  # fmt: skip


def difference_of(
    case: str, where: str, dtype: str, kind: str, edges: Set[str]
) -> Difference | None:
    """The documented difference that an element shows, or ``None``."""
    for each in DIFFERENCES:
        if (
            re.fullmatch(each.cases, case)
            and re.match(each.where, where)
            and re.match(each.dtypes, dtype)
            and re.fullmatch(each.kinds, kind)
            and (not each.edges or edges & set(each.edges.split()))
        ):
            return each
    return None
