"""Special functions under PyTorch's names: `torch.special`."""

from flambeau._absent import Absent as _Absent
from flambeau.ops.elementwise.pointwise import exp2, expm1, log1p, round
from flambeau.ops.elementwise.pointwise import sigmoid as expit
from flambeau.ops.elementwise.special import (
    digamma,
    erf,
    erfc,
    erfinv,
    i0,
    logit,
    polygamma,
    sinc,
    xlogy,
)
from flambeau.ops.elementwise.special import digamma as psi
from flambeau.ops.elementwise.special import igamma as gammainc
from flambeau.ops.elementwise.special import igammac as gammaincc
from flambeau.ops.elementwise.special import lgamma as gammaln
from flambeau.ops.elementwise.special import mvlgamma as multigammaln
from flambeau.ops.elementwise.special_functions import (
    bessel_j0,
    bessel_j1,
    entr,
    erfcx,
    i0e,
    i1,
    i1e,
    log_ndtr,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    ndtr,
    ndtri,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
    xlog1py,
    zeta,
)
from flambeau.ops.neural.softmax import log_softmax, logsumexp, softmax

__all__ = [
    "bessel_j0", "bessel_j1", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit",
    "expm1", "gammainc", "gammaincc", "gammaln", "i0", "i0e", "i1", "i1e", "log1p", "log_ndtr",
    "log_softmax", "logit", "logsumexp", "modified_bessel_i0", "modified_bessel_i1",
    "modified_bessel_k0", "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi",
    "round", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sinc", "softmax",
    "spherical_bessel_j0", "xlog1py", "xlogy", "zeta",
]  # fmt: skip

__getattr__ = _Absent(__name__)
