"""Samples have their distribution, repeat under a seed, and have gradients."""

import importlib

import numpy as np
import pytest

import flambeau
from flambeau import distributions as D
from flambeau.distributions.multivariate_normal import _batch_mahalanobis

SIZE = 4000
COVARIANCE = flambeau.tensor([[2.0, 0.6], [0.6, 1.0]])
# Distributions whose samples need rejection or a transformation, with a distribution function.
DRAWN = {
    "Gamma": lambda: D.Gamma(2.5, 0.5),
    "small Gamma": lambda: D.Gamma(0.05, 1.0),
    "Normal": lambda: D.Normal(1.0, 2.0),
    "Laplace": lambda: D.Laplace(1.0, 2.0),
    "Cauchy": lambda: D.Cauchy(1.0, 2.0),
    "Exponential": lambda: D.Exponential(2.0),
    "GeneralizedPareto": lambda: D.GeneralizedPareto(0.0, 1.0, 0.3),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(0.8),
    "HalfNormal": lambda: D.HalfNormal(2.0),
    "Gumbel": lambda: D.Gumbel(1.0, 2.0),
    "Weibull": lambda: D.Weibull(1.0, 1.5),
    "Pareto": lambda: D.Pareto(1.0, 3.0),
    "Kumaraswamy": lambda: D.Kumaraswamy(2.0, 3.0),
}
# Those with moments only.
WITH_MOMENTS = {
    "Beta": lambda: D.Beta(2.0, 3.0),
    "StudentT": lambda: D.StudentT(6.0),
    "FisherSnedecor": lambda: D.FisherSnedecor(4.0, 12.0),
    "InverseGamma": lambda: D.InverseGamma(6.0, 2.0),
    "Binomial": lambda: D.Binomial(20.0, 0.3),
    "NegativeBinomial": lambda: D.NegativeBinomial(3.0, 0.4),
    "Poisson": lambda: D.Poisson(4.0),
    "Geometric": lambda: D.Geometric(0.3),
    "Dirichlet": lambda: D.Dirichlet(flambeau.tensor([0.5, 2.0, 4.0])),
    "MultivariateNormal": lambda: D.MultivariateNormal(flambeau.ones(2), COVARIANCE),
    "MultivariateNormal by precision": lambda: D.MultivariateNormal(
        flambeau.ones(2), precision_matrix=COVARIANCE
    ),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(
        flambeau.ones(2), COVARIANCE[:, :1], flambeau.tensor([0.5, 1.0])
    ),
    "Wishart": lambda: D.Wishart(4.5, COVARIANCE),
    "Multinomial": lambda: D.Multinomial(5, flambeau.tensor([0.2, 0.3, 0.5])),
}


@pytest.mark.parametrize("name", DRAWN)
def test_samples_follow_the_distribution_function(name):
    flambeau.manual_seed(3)
    distribution = DRAWN[name]()
    below = np.sort(distribution.cdf(distribution.sample((SIZE,))).numpy())
    distance = np.abs(below - (np.arange(SIZE) + 0.5) / SIZE).max()
    # Kolmogorov and Smirnov: exceeded once in ten thousand times.
    assert distance < 2.23 / SIZE**0.5


@pytest.mark.parametrize("name", WITH_MOMENTS)
def test_samples_have_the_moments(name):
    flambeau.manual_seed(4)
    distribution = WITH_MOMENTS[name]()
    drawn = distribution.sample((SIZE,)).numpy()
    mean, variance = distribution.mean.numpy(), distribution.variance.numpy()
    assert np.abs((drawn.mean(0) - mean) / np.sqrt(variance / SIZE)).max() < 4
    assert np.abs(drawn.var(0) / variance - 1).max() < 0.25


def test_von_mises_samples_have_the_circular_moments():
    flambeau.manual_seed(5)
    distribution = D.VonMises(flambeau.tensor(1.0), flambeau.tensor(2.0))
    drawn = distribution.sample((SIZE,)).numpy()
    resultant = np.exp(1j * drawn).mean()
    assert abs(np.angle(resultant) - 1) < 0.05
    assert abs(1 - abs(resultant) - distribution.variance.item()) < 0.03


def test_lkj_samples_have_the_distribution_of_correlations():
    """In two dimensions the correlation is 2 x - 1, with x from a beta distribution."""
    flambeau.manual_seed(6)
    drawn = D.LKJCholesky(2, 1.5).sample((SIZE,))[:, 1, 0]
    moments = D.Beta(1.5, 1.5)
    mean = ((drawn + 1) / 2).mean().item()
    assert abs(mean - 0.5) < 4 * (moments.variance.item() / SIZE) ** 0.5
    assert abs(((drawn + 1) / 2).var().item() / moments.variance.item() - 1) < 0.1
    factors = D.LKJCholesky(4, flambeau.tensor([0.5, 3.0])).sample((5,))
    assert factors.shape == (5, 2, 4, 4)
    assert D.constraints.corr_cholesky.check(factors).all()


def test_divergences_between_batches_of_wisharts_are_those_of_each():
    p = D.Wishart(flambeau.tensor([3.0, 5.0]), COVARIANCE)
    q = D.Wishart(4.0, flambeau.eye(2))
    together = D.kl_divergence(p, q)
    alone = [D.kl_divergence(D.Wishart(df, COVARIANCE), q) for df in (3.0, 5.0)]
    flambeau.testing.assert_close(together, flambeau.stack(alone))


def test_vectors_with_a_shared_triangle_are_solved_for_together():
    """Batches of matrices and vectors broadcast in all ways, as one by one."""
    flambeau.manual_seed(9)
    for of_matrices, of_vectors in [((), (3,)), ((2, 1), (4, 2, 3)), ((2,), (1,)), ((3,), (2, 3))]:
        triangles = flambeau.randn(*of_matrices, 2, 2).tril(-1) + flambeau.eye(2)
        vectors = flambeau.randn(*of_vectors, 2)
        batch = flambeau.broadcast_shapes(of_matrices, of_vectors)
        found = _batch_mahalanobis(triangles, vectors)
        solved = flambeau.linalg.solve(triangles.expand(*batch, 2, 2), vectors.expand(*batch, 2))
        flambeau.testing.assert_close(found, solved.square().sum(-1))


def test_a_compiled_log_likelihood_of_vectors():
    @flambeau.compile
    def fit(loc, triangle):
        normal = D.MultivariateNormal(loc, scale_tril=triangle)
        likelihood = normal.log_prob(normal.rsample((3,))).sum()
        return likelihood + D.Wishart(4.0, scale_tril=triangle).rsample().sum()

    loc, triangle = flambeau.zeros(2), flambeau.eye(2).requires_grad_()
    assert fit(loc, triangle).item() != fit(loc, triangle).item()
    fit(loc, triangle).backward()
    assert triangle.grad.isfinite().all()


def test_what_was_computed_before_expanding_is_not_kept():
    normal = D.LowRankMultivariateNormal(flambeau.zeros(2), flambeau.ones(2, 1), flambeau.ones(2))
    assert normal.covariance_matrix.shape == (2, 2)
    assert normal.expand((3,)).covariance_matrix.shape == (3, 2, 2)


def test_a_seed_repeats_samples():
    both = []
    for _ in range(2):
        flambeau.manual_seed(7)
        both.append(D.Gamma(2.5, 0.5).sample((SIZE,)))
    assert both[0].equal(both[1])
    assert not both[1].equal(D.Gamma(2.5, 0.5).sample((SIZE,)))


def test_the_gradient_of_a_gamma_sample_keeps_its_quantile():
    flambeau.manual_seed(8)
    concentration = flambeau.tensor([0.3, 2.0, 30.0], dtype=flambeau.float64, requires_grad=True)
    sample = flambeau._standard_gamma(concentration)
    sample.sum().backward()
    step, x = 1e-6, sample.detach()
    above, below = (flambeau.igamma(concentration.detach() + sign * step, x) for sign in (1, -1))
    density = D.Gamma(concentration.detach(), 1.0).log_prob(x).exp()
    expected = -(above - below) / (2 * step) / density
    np.testing.assert_allclose(concentration.grad.numpy(), expected.numpy(), rtol=1e-5)


def test_a_compiled_step_draws_new_samples_and_has_gradients():
    @flambeau.compile
    def loss(concentration):
        normal = D.Normal(concentration, 1.0).rsample()
        gamma = D.Gamma(concentration, 1.0)
        drawn = gamma.rsample()
        return (drawn + normal - gamma.log_prob(drawn)).sum()

    flambeau.manual_seed(1)
    concentration = flambeau.tensor([2.0, 3.0], requires_grad=True)
    first, second = loss(concentration), loss(concentration)
    assert first.item() != second.item()
    first.backward()
    assert concentration.grad.isfinite().all()
    flambeau.manual_seed(1)
    assert loss(concentration).item() == first.item()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: D.Normal(0.0, -1.0), "Expected parameter scale .* to satisfy the constraint"),
        (lambda: D.Normal(0.0, 1.0).log_prob(flambeau.tensor(float("nan"))), "within the support"),
        (lambda: D.Normal(0.0, 1.0).log_prob(1.0), "must be a Tensor"),
        (lambda: D.Bernoulli(0.5, 0.0), "Either `probs` or `logits` must be specified, but not"),
        (lambda: D.Categorical(flambeau.tensor(0.5)), "must be at least one-dimensional"),
        (lambda: D.Normal(flambeau.zeros(2), 1.0).log_prob(flambeau.zeros(3)), "not broadcastable"),
        (lambda: D.Geometric(0.0), "probs"),
        (lambda: D.transforms.ExpTransform(cache_size=2), "cache_size must be 0 or 1"),
    ],
)
def test_errors_say_what_is_wrong(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_what_is_not_checked_is_let_pass():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1


def test_each_module_has_the_base_class_too():
    names = ("categorical", "distribution", "half_cauchy", "multivariate_normal", "wishart")
    for name in names:
        module = importlib.import_module(f"flambeau.distributions.{name}")
        assert module.Distribution is flambeau.distributions.Distribution
