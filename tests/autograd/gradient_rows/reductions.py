"""Operators that reduce, accumulate or sort."""

from __future__ import annotations

import flambeau
from tests.autograd.gradient_rows.row import POSITIVE, A, B, C, V, Z, rows

ROWS = [
    *rows(
        "reduction",
        ("sum", lambda x: x.sum(0), A),
        ("mean", lambda x: x.mean(1, keepdim=True), A),
        ("prod", lambda x: x.prod(1), A),
        ("prod, with zeros", lambda x: (x * (B > 0)).prod(1), A),
        ("nansum", lambda x: x.nansum(1), A),
        ("nanmean", lambda x: x.nanmean(1), A),
        ("var", lambda x: x.var(1), A),
        ("var, complex", lambda z: z.var(), Z),
        ("std", lambda x: x.std(1), A),
        ("var_mean", lambda x: flambeau.var_mean(x, 1), A),
        ("std_mean", lambda x: flambeau.std_mean(x, 1), A),
        twice="prod std",
    ),
    *rows(
        "extremum",
        ("amax", lambda x: x.amax(1), A),
        ("amin", lambda x: x.amin(1), A),
        ("aminmax", lambda x: tuple(x.aminmax(dim=1)), A),
        ("max_of_all", lambda x: x.max(), A),
        ("min_of_all", lambda x: x.min(), A),
        ("max_along", lambda x: x.max(1).values, A),
        ("min_along", lambda x: x.min(1).values, A),
        ("median", lambda x: x.median(), A),
        ("median_dim", lambda x: x.median(1).values, A),
        ("nanmedian", lambda x: x.nanmedian(), A),
        ("nanmedian_dim", lambda x: x.nanmedian(1).values, A),
        ("mode", lambda x: x.mode(1).values, A),
    ),
    *rows(
        "cumulative",
        ("cumsum", lambda x: x.cumsum(1), A),
        ("cumprod", lambda x: x.cumprod(1), A),
        ("cummax", lambda x: x.cummax(1).values, A),
        ("cummin", lambda x: x.cummin(1).values, A),
        ("logcumsumexp", lambda x: x.logcumsumexp(1), A),
        twice="cumprod",
    ),
    *rows(
        "differences",
        ("diff", lambda x, y: x.diff(prepend=y), A, B),
        ("trapezoid", lambda y, x: flambeau.trapezoid(y, x), A, B),
        ("cumulative_trapezoid", lambda y, x: flambeau.cumulative_trapezoid(y, x), A, B),
    ),
    *rows(
        "norms",
        ("vector_norm", lambda x: x.norm(dim=1), A),
        ("vector_norm, of order 3", lambda x: x.norm(3, dim=1), A),
        ("vector_norm, greatest", lambda x: x.norm(float("inf"), dim=1), A),
        ("vector_norm, complex", lambda z: z.norm(), Z),
        ("nuclear_norm", lambda x: x.norm("nuc"), A),
        ("dist", lambda x, y: flambeau.dist(x, y, 3), A, B),
        ("renorm", lambda x: x.renorm(2, 0, 1.5), A),
        twice="vector_norm",
    ),
    *rows(
        "softmax",
        ("softmax", lambda x: x.softmax(1), A),
        ("log_softmax", lambda x: x.log_softmax(1), A),
        ("logsumexp", lambda x: x.logsumexp(1), A),
        twice="softmax logsumexp",
    ),
    *rows(
        "sorting",
        ("sort", lambda x: x.sort(1).values, A),
        ("msort", lambda x: x.msort(), A),
        ("topk", lambda x: x.topk(2).values, A),
        ("kthvalue", lambda x: x.kthvalue(2).values, A),
    ),
    *rows(
        "quantile",
        ("quantile", lambda x: x.quantile(0.3, dim=1), A),
        ("quantile, nearest", lambda x: x.nanquantile(0.3, interpolation="nearest"), A),
    ),
    *rows(
        "statistics",
        ("cov", lambda x: x.cov(), A),
        ("cov, weighted", lambda x: x.cov(aweights=V.abs()), A),
        ("corrcoef", lambda x: x.corrcoef(), A),
    ),
    *rows(
        "distance",
        ("cdist", lambda x, y: flambeau.cdist(x, y), A, C),
        ("cdist, of order 3", lambda x, y: flambeau.cdist(x, y, p=3.0), A, C),
        ("pdist", lambda x: flambeau.nn.functional.pdist(x), A),
        ("pairwise_distance", flambeau.nn.functional.pairwise_distance, A, C),
        ("cosine_similarity", flambeau.cosine_similarity, A, POSITIVE),
        twice="cdist",
    ),
]
