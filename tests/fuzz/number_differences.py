"""Where flambeau's numbers differ from PyTorch's on purpose, as docs/differences.md says."""

from __future__ import annotations

import re
from typing import NamedTuple


class Difference(NamedTuple):
    """A documented difference.

    Attributes:
        cases: Matches the start of the names of cases.
        where: Matches ``"value 0"``, or ``"gradient 0, nan"`` with the kind of cotangent.
        reason: The input class, and why.
        dtypes: Matches the names of dtypes.
    """

    cases: str
    where: str
    reason: str
    dtypes: str = ""


DIFFERENCES = [
    Difference(r"arithmetic\.(remainder|fmod)", r"value|gradient",
               "great quotients: PyTorch's vectorized remainder is NaN, here it is exact"),
    Difference(r"pointwise\.ldexp", "gradient", "of negative integer exponents PyTorch's is 0"),
    Difference(r"arithmetic\.div$|arithmetic\.square|special_power|special\.(xlogy|atan2|hypot|"
               r"logaddexp2|erfcx)|special_functions\.xlog1py|complex_numbers\.polar|loss\.kl_div",
               "gradient|value", "at the ends of the range, where another order of the operations "
               "over- or underflows on the way; of polar at 0, where PyTorch's is 0; of xlogy and "
               "kl_div for a cotangent of 0 where the slope is infinite",
               "float32|float64|bfloat16"),
    Difference(r"special\.xlogy|special_functions\.xlog1py|loss\.kl_div", "gradient .*zero",
               "a cotangent of 0 where the slope is infinite"),
    Difference(r"powers\.power$|powers\.power_number, (inf|nan)", "value|gradient",
               "complex powers of 0, and with infinite and NaN exponents", "complex"),
    Difference(r"special\.logaddexp, complex", "value", "imaginary parts are within pi of 0"),
    Difference(r"pointwise\.atanh", "gradient .*plain", "of complex -1: NaN", "complex"),
    Difference(r"powers\.power_number", "gradient", "fractional powers of minus infinity"),
    Difference(r"special\.(digamma|polygamma|lgamma)|special_functions\.zeta", "value|gradient",
               "poles are infinite, where PyTorch has large numbers; zeta of negative arguments"),
    Difference(r"special\.igamma", "value|gradient", "NaN, and the ends of the range"),
    Difference(r"special\.sinc", "gradient", "exact near 0, where PyTorch's terms cancel"),
    Difference(r"special\.logit", "gradient", "NaN"),
    Difference(r"special_functions\.(log_)?ndtr|special_functions\.(i0e|i1|i1e|erfcx)",
               "value|gradient", "more accurate far below 0; NaN, which PyTorch's i1 drops"),
    Difference(r"activation\.(gelu|tanhshrink)", "value", "more accurate; not NaN at infinity"),
    Difference(r"activation\.(relu6|hardtanh|hardshrink|softshrink|hardswish|elu|selu|celu)",
               "gradient", "at NaN, where PyTorch's vectorized loops differ from its others"),
    Difference(r"activation\.glu", "gradient", "infinite gates, which PyTorch multiplies by 0"),
    Difference(r"selection\.nan_to_num", "gradient", "NaN cotangents of what is replaced"),
    Difference(r"reduction\.(var|std)_mean", "value 1", "the mean of infinities is infinite"),
    Difference(r"reduction\.(nansum|nanmean)", "gradient", "NaN takes no gradient at all"),
    Difference(r"reduction\.prod|cumulative\.cumprod", "gradient",
               "with infinities and zeros: the product of the others"),
    Difference(r"cumulative\.logcumsumexp", "gradient|error",
               "NaN cotangents stay NaN; beside infinity gradients are finite; not complex"),
    Difference(r"extremum\.(amax|amin|aminmax|max_of_all|min_of_all)", "gradient",
               "the gradient of a NaN goes to the NaN, where PyTorch's row is NaN"),
    Difference(r"differences\.(cumulative_)?trapezoid", "value|gradient", "infinite ends"),
    Difference(r"(norms|distance)(?!.*large)", "gradient|value",
               "infinities and NaN among the elements, and zeros for orders below 1"),
    Difference(r"sorting\.(topk|kthvalue)", "gradient", "which of equals is taken"),
    Difference(r"quantile", "value|gradient", "between equal infinities"),
    Difference(r"loss\.(poisson|gaussian)|margin_loss\.soft_margin_loss", "value|gradient",
               "infinities, which PyTorch's formula subtracts from each other"),
]  # fmt: skip


def reason_for(case: str, where: str, dtype: str) -> str | None:
    """Why a case may differ there, or ``None`` if it may not."""
    for each in DIFFERENCES:
        given = ((each.cases, case), (each.where, where), (each.dtypes, dtype))
        if all(re.match(pattern, text) for pattern, text in given):
            return each.reason
    return None
