"""Operators give the CPU's results on an accelerator."""

import pytest

import flambeau


def numbers(*shape, dtype=flambeau.float32):
    return flambeau.randn(shape).to(dtype)


OPERATORS = {
    "add": lambda x, y, i, m: x + y,
    "pow": lambda x, y, i, m: x.abs() ** y,
    "remainder": lambda x, y, i, m: x % y,
    "floor_divide": lambda x, y, i, m: x // y,
    "integer division": lambda x, y, i, m: (i * 7 + 3) // (i - 9),
    "shifts": lambda x, y, i, m: (i << 2) ^ (i >> 1),
    "special functions": lambda x, y, i, m: flambeau.special.gammainc(x.abs() + 1, y.abs()),
    "erfinv": lambda x, y, i, m: flambeau.erfinv(x.tanh()),
    "digamma": lambda x, y, i, m: flambeau.digamma(x),
    "matmul": lambda x, y, i, m: x @ y.mT,
    "integer matmul": lambda x, y, i, m: i @ i.mT,
    "einsum": lambda x, y, i, m: flambeau.einsum("ij,kj->ik", x, y),
    "half matmul": lambda x, y, i, m: (x.bfloat16() @ y.bfloat16().mT).float().sum(0).round(),
    "double matmul": lambda x, y, i, m: x.double() @ y.double().mT,
    "complex": lambda x, y, i, m: flambeau.view_as_real(flambeau.complex(x, y).exp().abs() + 1j),
    "sum": lambda x, y, i, m: x.sum(0),
    "prod": lambda x, y, i, m: x.prod(1),
    "std": lambda x, y, i, m: x.std(1),
    "logsumexp": lambda x, y, i, m: x.logsumexp(1),
    "argmax": lambda x, y, i, m: x.argmax(1),
    "median": lambda x, y, i, m: x.median(1),
    "mode": lambda x, y, i, m: i.mode(1)[0],
    "quantile": lambda x, y, i, m: x.quantile(0.3, 1),
    "norm": lambda x, y, i, m: flambeau.linalg.vector_norm(x, 3, 1),
    "sort": lambda x, y, i, m: x.sort(1, descending=True),
    "stable sort of integers": lambda x, y, i, m: i.sort(1, stable=True),
    "topk": lambda x, y, i, m: x.topk(3, 1),
    "kthvalue": lambda x, y, i, m: x.kthvalue(2, 1),
    "unique": lambda x, y, i, m: i.unique(return_counts=True),
    "cumsum": lambda x, y, i, m: x.cumsum(1),
    "cumprod": lambda x, y, i, m: x.cumprod(0),
    "cummax": lambda x, y, i, m: x.cummax(1),
    "logcumsumexp": lambda x, y, i, m: x.logcumsumexp(0),
    "diff": lambda x, y, i, m: x.diff(dim=1),
    "gather": lambda x, y, i, m: x.gather(1, i),
    "scatter_add": lambda x, y, i, m: x.scatter_add(1, i, y),
    "scatter_reduce": lambda x, y, i, m: x.scatter_reduce(1, i, y, "amax"),
    "index_select": lambda x, y, i, m: x.index_select(0, i[0]),
    "index_add": lambda x, y, i, m: x.index_add(0, i[0], y),
    "index_put": lambda x, y, i, m: x.index_put((i[0],), y[0], accumulate=True),
    "advanced indexing": lambda x, y, i, m: x[i[0], :4],
    "boolean indexing": lambda x, y, i, m: x[m],
    "masked_fill": lambda x, y, i, m: x.masked_fill(m, 7),
    "masked_scatter": lambda x, y, i, m: x.masked_scatter(m, y),
    "where": lambda x, y, i, m: flambeau.where(m, x, y),
    "nonzero": lambda x, y, i, m: m.nonzero(),
    "take_along_dim": lambda x, y, i, m: x.take_along_dim(i, 1),
    "searchsorted": lambda x, y, i, m: flambeau.searchsorted(x.sort(1)[0], y),
    "bincount": lambda x, y, i, m: i.flatten().bincount(),
    "histc": lambda x, y, i, m: x.histc(5, -2, 2),
    "cat": lambda x, y, i, m: flambeau.cat([x, y], 1),
    "roll": lambda x, y, i, m: x.roll(3, 1),
    "flip": lambda x, y, i, m: x.flip(0),
    "as_strided": lambda x, y, i, m: x.as_strided((3, 3), (8, 2)),
    "unfold": lambda x, y, i, m: x.unfold(1, 3, 2),
    "tril": lambda x, y, i, m: x.tril(),
    "cdist": lambda x, y, i, m: flambeau.cdist(x, y),
    "fft": lambda x, y, i, m: flambeau.view_as_real(flambeau.fft.fft(x)),
    "rfft2": lambda x, y, i, m: flambeau.fft.irfft2(flambeau.fft.rfft2(x)),
    "det": lambda x, y, i, m: flambeau.linalg.det(x + 3 * flambeau.eye(8, device=x.device)),
    "inv": lambda x, y, i, m: flambeau.linalg.inv(x + 3 * flambeau.eye(8, device=x.device)),
    "solve": lambda x, y, i, m: flambeau.linalg.solve(
        x + 3 * flambeau.eye(8, device=x.device), y
    ),
    "cholesky": lambda x, y, i, m: flambeau.linalg.cholesky(
        x @ x.mT + flambeau.eye(8, device=x.device)
    ),
    "qr": lambda x, y, i, m: flambeau.linalg.qr(x)[1].abs(),
    "svdvals": lambda x, y, i, m: flambeau.linalg.svdvals(x),
    "eigvalsh": lambda x, y, i, m: flambeau.linalg.eigvalsh(x + x.mT),
    "eigvals": lambda x, y, i, m: flambeau.linalg.eigvals(x).abs().sort()[0],
    "matrix_exp": lambda x, y, i, m: flambeau.linalg.matrix_exp(x / 4),
    "lstsq": lambda x, y, i, m: flambeau.linalg.lstsq(x, y)[0],
    "views written to": lambda x, y, i, m: x.clone().index_fill_(0, i[0, :2], 5.0)[:, 1].mul_(2),
    "casts": lambda x, y, i, m: (x * 40).to(flambeau.int8).to(flambeau.float16).double(),
    "sparse": lambda x, y, i, m: (x * m).to_sparse().mm(y),
    "one_hot": lambda x, y, i, m: flambeau.nn.functional.one_hot(i),
    "grid_sample": lambda x, y, i, m: flambeau.nn.functional.grid_sample(
        x[None, None], flambeau.stack([x, y], -1)[None].tanh(), align_corners=False
    ),
    "meshgrid": lambda x, y, i, m: flambeau.meshgrid(x[0], y[0], indexing="ij"),
    "addcdiv": lambda x, y, i, m: x.addcdiv(y, y.abs() + 1, value=0.5),
    "isclose": lambda x, y, i, m: flambeau.isclose(x, x + 1e-9),
    "renorm": lambda x, y, i, m: x.renorm(2, 0, 1.0),
    "trapezoid": lambda x, y, i, m: flambeau.trapezoid(x, y),
    "vmap": lambda x, y, i, m: flambeau.func.vmap(lambda a, b: (a * b).cumsum(0))(x, y),
    "jacrev": lambda x, y, i, m: flambeau.func.jacrev(lambda a: (a @ a).sin())(x[:3, :3]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_gives_the_cpus_numbers(accelerator, name):
    flambeau.manual_seed(1)
    inputs = numbers(8, 8), numbers(8, 8), flambeau.randint(8, (8, 8)), numbers(8, 8) > 0
    expected = OPERATORS[name](*inputs)
    found = OPERATORS[name](*(each.to(accelerator) for each in inputs))
    for one, other in zip(_parts(found), _parts(expected), strict=True):
        assert one.device.type == accelerator.type
        flambeau.testing.assert_close(one.to("cpu:0"), other, rtol=2e-4, atol=2e-4)


def _parts(result):
    return [result] if isinstance(result, flambeau.Tensor) else list(result)
