"""Probability distributions under PyTorch's names: `torch.distributions`.

A distribution has a batch of parameters. It draws samples, differentiable ones if ``has_rsample``,
and computes log-densities or log-probabilities of values.

>>> import flambeau
>>> from flambeau.distributions import Normal, kl_divergence
>>> loc = flambeau.tensor([0.0, 1.0], requires_grad=True)
>>> kl_divergence(Normal(loc, 1.0), Normal(0.0, 1.0)).sum().backward()
>>> loc.grad
tensor([0., 1.])

A family consists of the constraints of its parameters (``arg_constraints``) and a few formulas;
broadcasting, checks and `expand` follow (`parametric.py`). Divergences between families need one
formula for each second argument, which serves several first ones (`cross_entropy.py`). Draws by
rejection are operators of a key (`ops/draws/rejection_draws.py`); gradients of gamma samples are
implicit, and those of distributions made of gammas follow. Covariance matrices are kept as their
Cholesky factors with batch dimensions of their own, so vectors that share one are solved for
together (`covariances.py`). May import `core`, `ops` and `autograd`, and not JAX.
"""

from flambeau.distributions import constraints as constraints
from flambeau.distributions import cross_entropy as _cross_entropy  # noqa: F401 (registers)
from flambeau.distributions import gaussian_divergences as _gaussians  # noqa: F401 (registers)
from flambeau.distributions import transforms as transforms
from flambeau.distributions.categories import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from flambeau.distributions.compositions import (
    Independent,
    MixtureSameFamily,
    TransformedDistribution,
)
from flambeau.distributions.constraint_registry import biject_to, transform_to
from flambeau.distributions.continuous import (
    Cauchy,
    GeneralizedPareto,
    Laplace,
    Normal,
    StudentT,
    Uniform,
    VonMises,
)
from flambeau.distributions.counts import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.gammas import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
)
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.lkj_cholesky import LKJCholesky
from flambeau.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from flambeau.distributions.module_names import add_names as _add_names
from flambeau.distributions.multivariate_normal import MultivariateNormal
from flambeau.distributions.relaxed import (
    LogisticNormal,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from flambeau.distributions.transformed import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogNormal,
    Pareto,
    Weibull,
)
from flambeau.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from flambeau.distributions.wishart import Wishart

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal",
    "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "identity_transform", "kl_divergence",
    "register_kl", "transform_to",
]  # fmt: skip

_add_names(__name__)
