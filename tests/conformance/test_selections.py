"""What masks select inside compiled functions: values and gradients are eager PyTorch's.

Each program is compiled once and runs with several masks, of which one picks everything and one
nothing. A program takes the library, so that both run the same lines.
"""

import numpy as np
import pytest
import torch

import flambeau

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")

RANDOM = np.random.default_rng(7)
X, Y = (RANDOM.standard_normal((4, 3)).astype(np.float32) for _ in range(2))
X[0, 1] = X[2, 0] = 0.0
W = np.array([0.5, -1.5, 2.0], np.float32)
TARGET = np.array([2, 0, 1, 2])
MASKS = {
    "some": [True, False, True, True],
    "all": [True] * 4,
    "none": [False] * 4,
    "one": [False, False, True, False],
}


def functional(lib):
    return lib.nn.functional


def doubled_in_place(lib, x, y, w, t, m):
    z = x * 1
    z[m] = z[m] * 2
    z[m] += y[m]
    return z


def written_through_indices(lib, x, y, w, t, m):
    z = x * 1
    rows = m.nonzero(as_tuple=True)[0]
    z[rows] = y[rows] * w
    z.index_put_((rows,), w, accumulate=True)
    z[rows, t[rows]] = 7.0
    return z


def written_by_flags(lib, x, y, w, t, m):
    z = x * 1
    z[w.sum() > 0] *= w
    z[:, w[0] < 0] = z[:, w[0] < 0].exp()
    return z, x[m.any()].sum()


def refined(lib, x, y, w, t, m):
    picked = x[m]
    picked[picked[:, 0] < 0] = 0.5
    return picked[picked[:, 1] > 0].sum(), picked[:2].sum(0)


def refined_flat(lib, x, y, w, t, m):
    flat = x[x > -0.5]
    flat[flat < 0] = flat[flat < 0] * 3
    return (flat * flat).sum()


def normalized_rows(lib, x, y, w, t, m):
    picked = x[m]
    picked = (picked - picked.mean(1, keepdim=True)) / (picked.std(1, keepdim=True) + 1)
    return picked.softmax(-1).sum(0), lib.cat([picked, y[m]], 1).square().mean()


# Each gives a tensor or several.
PROGRAMS = {
    "sum": lambda lib, x, y, w, t, m: x[m].sum(),
    "sum of rows": lambda lib, x, y, w, t, m: x[m].sum(0),
    "sum beside": lambda lib, x, y, w, t, m: (x[m].sum(1) * 2).sum(),
    "mean": lambda lib, x, y, w, t, m: (x[m] * w).mean(),
    "mean of rows": lambda lib, x, y, w, t, m: x[m].mean(0, keepdim=True),
    "prod": lambda lib, x, y, w, t, m: (x[m] + w).prod(),
    "var": lambda lib, x, y, w, t, m: (x[m].var(0), (x * w)[m].var(correction=0)),
    "std": lambda lib, x, y, w, t, m: x[m].std(0, unbiased=False) * 1,
    "norm": lambda lib, x, y, w, t, m: ((x[m] + 3).norm(), lib.linalg.vector_norm(x[m] + w, 3, 0)),
    "logsumexp": lambda lib, x, y, w, t, m: (x * w)[m].logsumexp(0).exp(),
    "nothing leaks from a logarithm": lambda lib, x, y, w, t, m: x[x > 0].log().sum(),
    "nothing leaks into what is shared": lambda lib, x, y, w, t, m: (
        (w[0] / x[x != 0]).mean() + (x[x > 0] * w[2]).sqrt().sum()
    ),
    "nothing leaks from what divides": lambda lib, x, y, w, t, m: (y[x != 0] / x[x != 0]).sum(),
    "nothing leaks through a product": lambda lib, x, y, w, t, m: (
        (1 / x[x[:, 0] != 0]).clamp(-9, 9) @ w
    ).sum(),
    # The other lanes hold 1, of which this has no finite derivative.
    "nothing leaks from the filling": lambda lib, x, y, w, t, m: (
        (((x * 3)[x * 3 > 1] - 1) * w[2]).log().sum() + ((y[y < 0.9] - 1) / w[1]).sqrt().sum()
    ),
    "two by one mask": lambda lib, x, y, w, t, m: (x[m] * y[m] - w).abs().mean(),
    "mask written twice": lambda lib, x, y, w, t, m: (x[y > 0] * y[y > 0]).sum(),
    "0-d operand of double precision": lambda lib, x, y, w, t, m: (x[m] * w.double().sum()).sum(),
    "columns": lambda lib, x, y, w, t, m: (
        x[:, w > 0].sum(1),
        (x[:, w > 0] * w[w > 0]).sum(0).sum(),
    ),
    "elements": lambda lib, x, y, w, t, m: (x[x > y].sum(), x.masked_select(x > y).square().mean()),
    "broadcast mask": lambda lib, x, y, w, t, m: x.masked_select(m.unsqueeze(1)).sum(),
    "integers": lambda lib, x, y, w, t, m: (t[m].sum(), (t[m] == 2).sum(), t[m].float().mean()),
    "truth": lambda lib, x, y, w, t, m: ((x[m] > 0).all(), (x[m] > 0).any(0), (x[m] != 0).sum()),
    "where": lambda lib, x, y, w, t, m: lib.where(x[m] > 0, x[m], w).sum(0),
    "indices of nonzero": lambda lib, x, y, w, t, m: (
        x[m.nonzero(as_tuple=True)].sum(),
        x[m.nonzero()[:, 0]].mean(),
        lib.argwhere(x > 0).sum(0),
    ),
    "indices of where": lambda lib, x, y, w, t, m: (x[lib.where(x > 0)].sqrt() * w[1]).sum(),
    "squeezed indices": lambda lib, x, y, w, t, m: x[lib.nonzero(m).squeeze(1)].sum(0),
    "index_select": lambda lib, x, y, w, t, m: x.index_select(0, m.nonzero().flatten()).sum(),
    "rows and columns": lambda lib, x, y, w, t, m: x[m, t[m]].sum(),
    "picked classes": lambda lib, x, y, w, t, m: (
        x.log_softmax(1)[m].gather(1, t[m].unsqueeze(1)).squeeze(1).mean()
    ),
    "lookup": lambda lib, x, y, w, t, m: (
        functional(lib).embedding(t[m], x).sum(0),
        (w[t[m]] * 2).sum(),
        w.take(t[m]).mean(),
    ),
    "one_hot": lambda lib, x, y, w, t, m: functional(lib).one_hot(t[m], 3).sum(0),
    "index_add": lambda lib, x, y, w, t, m: (x * 1).index_add(0, t[m], y[m] * w),
    "scatter_add": lambda lib, x, y, w, t, m: (w * 1).scatter_add(0, t[m], x[m].sum(1)),
    "cross_entropy": lambda lib, x, y, w, t, m: functional(lib).cross_entropy(x[m], t[m]),
    "cross_entropy with weights": lambda lib, x, y, w, t, m: functional(lib).cross_entropy(
        x[m] * w, t[m], weight=w.detach().abs(), label_smoothing=0.1
    ),
    "cross_entropy of each": lambda lib, x, y, w, t, m: (
        functional(lib).cross_entropy(x[m], t[m], reduction="none").square().mean()
    ),
    "cross_entropy of probabilities": lambda lib, x, y, w, t, m: functional(lib).cross_entropy(
        x[m], y[m].softmax(1)
    ),
    "masked losses": lambda lib, x, y, w, t, m: (
        functional(lib).cross_entropy(x, t, reduction="none")[m].mean()
    ),
    "nll_loss": lambda lib, x, y, w, t, m: functional(lib).nll_loss(
        x[m].log_softmax(-1), t[m], reduction="sum"
    ),
    "mse_loss": lambda lib, x, y, w, t, m: functional(lib).mse_loss(x[m], y[m]),
    "l1_loss": lambda lib, x, y, w, t, m: functional(lib).l1_loss(
        (x * w)[m], y[m], reduction="sum"
    ),
    "huber_loss": lambda lib, x, y, w, t, m: functional(lib).smooth_l1_loss(x[m], y[m]),
    "binary_cross_entropy": lambda lib, x, y, w, t, m: functional(
        lib
    ).binary_cross_entropy_with_logits(x[m], (y[m] > 0).float()),
    "kl_div": lambda lib, x, y, w, t, m: functional(lib).kl_div(
        x[m].log_softmax(1), y[m].softmax(1), reduction="batchmean"
    ),
    "cosine loss": lambda lib, x, y, w, t, m: functional(lib).cosine_embedding_loss(
        x[m] + 2, y[m], t[m].clamp(0, 1) * 2 - 1
    ),
    "linear": lambda lib, x, y, w, t, m: (
        functional(lib).linear(x[m], y, w.sum().expand(4)).relu().sum(0)
    ),
    "layer_norm": lambda lib, x, y, w, t, m: (
        functional(lib).layer_norm(x[m], (3,), w).square().mean()
    ),
    "matmul": lambda lib, x, y, w, t, m: ((x[m] @ w).sum(), x[m].T @ y[m], x[m, 0] @ y[m, 1]),
    "cumsum": lambda lib, x, y, w, t, m: (x[m].cumsum(0) * y[m]).sum(0),
    "softmax over what is selected": lambda lib, x, y, w, t, m: (
        (x[m, 0] * w[0]).softmax(0) * y[m, 0]
    ).sum(),
    "reshaped": lambda lib, x, y, w, t, m: (
        (x[m].reshape(-1) ** 2).mean(),
        x[m].view(-1, 3, 1).permute(1, 0, 2).flatten(1).sum(1),
    ),
    "joined": lambda lib, x, y, w, t, m: lib.cat([x[m], y[x[:, 0] > 0], x]).mean(0),
    "stacked": lambda lib, x, y, w, t, m: lib.stack([x[m], y[m]]).prod(0).sum(),
    "median of what is there": lambda lib, x, y, w, t, m: lib.cat([x[m], x]).flatten().median(),
    "greatest": lambda lib, x, y, w, t, m: (
        lib.cat([x[m], y]).max(),
        lib.cat([x[m], y]).amin(0),
        *lib.cat([x[m, 0], w]).max(0),
    ),
    "shape beside": lambda lib, x, y, w, t, m: x[m].sum() / x[m].shape[1],
    "masked_scatter": lambda lib, x, y, w, t, m: (
        (x * 1).masked_scatter(y > w, (y * w).masked_select(y > w)),
        y.clone().masked_scatter_(x > 0, x[x > 0] * 2),
    ),
    "bincount": lambda lib, x, y, w, t, m: t[m].bincount(y[m, 0], minlength=3).float(),
    "similarity": lambda lib, x, y, w, t, m: (
        functional(lib).cosine_similarity(x[m] + 2, y[m]).sum(),
        functional(lib).pairwise_distance(x[m], y[m]).mean(),
    ),
    "activations in place": lambda lib, x, y, w, t, m: (
        functional(lib).relu(x[m] * w, inplace=True).sum(0),
        (x[m] * 2).exp_().sum(),
    ),
    "converted": lambda lib, x, y, w, t, m: (
        x[m].double().sum(),
        x[m].to(y).mean(),
        t[m].new_ones(2),
        x[m].half().float().sum(0),
    ),
    "dropout in evaluation": lambda lib, x, y, w, t, m: (
        functional(lib).dropout(x[m], 0.5, training=False).sum()
    ),
    "dropout of nothing": lambda lib, x, y, w, t, m: functional(lib).dropout(x[m] * w, 1.0).sum(0),
    "slices": lambda lib, x, y, w, t, m: (
        x[m][1:].sum(0),
        x[m][::2, 1:].sum(),
        x[m][:3][:, 0].sum(),
    ),
    "turned": lambda lib, x, y, w, t, m: (
        (x[m].flip(0) * y[m].flip([0])).sum(0),
        x[m].flip(0)[:2].sum(),
        x[m].flip(1).sum(0),
    ),
    "elements of rows": lambda lib, x, y, w, t, m: (
        x[m][x[m] > 0].log().sum(),
        x[m].masked_select(y[m] > 0).sum(),
        x[m].masked_fill(y[m] > 0, w[0]).sum(0),
    ),
    "without dimensions": lambda lib, x, y, w, t, m: (
        (x[m] > 0).all(dim=()).sum(),
        x[m].clone().unsqueeze(1)[..., 0, :].sum(),
    ),
    "pooled": lambda lib, x, y, w, t, m: (
        functional(lib).avg_pool2d(x.view(4, 1, 1, 3)[m], (1, 2), 1).sum(0),
        functional(lib).conv1d(x.unsqueeze(1)[m], w.view(1, 1, 3).expand(2, 1, 3)).square().mean(),
    ),
    "buckets": lambda lib, x, y, w, t, m: (
        lib.bucketize(x[m], lib.tensor([-0.5, 0.5])).sum(),
        lib.isin(t[m], lib.tensor([0, 2])).sum(),
    ),
    "detached": lambda lib, x, y, w, t, m: (x[m] * x[m].detach()).sum(),
    "doubled in place": doubled_in_place,
    "written through indices": written_through_indices,
    "written by flags": written_by_flags,
    "refined": refined,
    "refined flat": refined_flat,
    "normalized rows": normalized_rows,
}


def tensors(lib, dtype=np.float32):
    x, w = (lib.tensor(each.astype(dtype), requires_grad=True) for each in (X, W))
    return x, lib.tensor(Y.astype(dtype)), w, lib.tensor(TARGET)


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


def total_of(results):
    """One number that every result has a part in."""
    total = 0
    for n, each in enumerate(listed(results)):
        if each.requires_grad:
            total = total + (each * (n + 1)).sum()
    return total


def expected(program, mask, dtype=np.float32):
    x, y, w, t = tensors(torch, dtype)
    results = listed(program(torch, x, y, w, t, torch.tensor(mask)))
    if any(each.requires_grad for each in results):
        total_of(tuple(results)).backward()
    return [each.detach().numpy() for each in results], [x.grad, w.grad]


def assert_equal(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        one = one.detach().numpy()
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def assert_equal_gradients(leaves, wanted):
    for leaf, grad in zip(leaves, wanted, strict=True):
        if grad is not None:
            # Sums of numbers of size 1, some of which cancel.
            np.testing.assert_allclose(leaf.grad.numpy(), grad.numpy(), rtol=2e-5, atol=2e-6)
        elif leaf.grad is not None:
            assert not leaf.grad.numpy().any()


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_outside(name):
    program = PROGRAMS[name]
    compiled = flambeau.compile(lambda *args: program(flambeau, *args))
    for mask in MASKS.values():
        wanted, gradients = expected(program, mask)
        x, y, w, t = tensors(flambeau)
        results = compiled(x, y, w, t, flambeau.tensor(mask))
        assert_equal(listed(results), wanted)
        total = total_of(results)
        if isinstance(total, flambeau.Tensor):
            total.backward()
        assert_equal_gradients((x, w), gradients)
    assert compiled.program_count == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_inside(name):
    program = PROGRAMS[name]

    @flambeau.compile
    def compiled(*args):
        results = program(flambeau, *args)
        total = total_of(results)
        if isinstance(total, flambeau.Tensor):
            total.backward()
        return results

    for mask in MASKS.values():
        wanted, gradients = expected(program, mask)
        x, y, w, t = tensors(flambeau)
        assert_equal(listed(compiled(x, y, w, t, flambeau.tensor(mask))), wanted)
        assert_equal_gradients((x, w), gradients)
    assert compiled.program_count == 1


# Random programs


STEPS = (
    lambda lib, a, b, w: a.sin(),
    lambda lib, a, b, w: a * b,
    lambda lib, a, b, w: a / (b + w.abs()),
    lambda lib, a, b, w: (a.abs() + w[0] ** 2).sqrt(),
    lambda lib, a, b, w: a.softmax(-1) * 3,
    lambda lib, a, b, w: a - a.mean(0),
    lambda lib, a, b, w: a.cumsum(0).tanh(),
    lambda lib, a, b, w: lib.where(a > b, a, w),
    lambda lib, a, b, w: a @ w.diag(),
    lambda lib, a, b, w: functional(lib).layer_norm(a, (3,), w, w),
    lambda lib, a, b, w: a.clone().clamp_(-1, 1),
    lambda lib, a, b, w: a.reshape(-1, 3, 1).squeeze(2).T.T,
)
ENDS = (
    lambda lib, a, b, w: a.sum(),
    lambda lib, a, b, w: (a * w).mean(0).sum(),
    lambda lib, a, b, w: functional(lib).mse_loss(a, b.detach()),
    lambda lib, a, b, w: (a.T @ b).square().sum(),
    lambda lib, a, b, w: a.var(1).mean(),
    lambda lib, a, b, w: lib.cat([a, b]).logsumexp(0).exp().sum(),
)


def random_program(seed):
    """A program that selects by one mask, and then by another those that it has."""
    draw = np.random.default_rng(seed)
    chosen = [STEPS[i] for i in draw.integers(len(STEPS), size=6)]
    again, end = draw.integers(6), ENDS[draw.integers(len(ENDS))]

    def program(lib, x, y, w, t, m):
        a, b = x[m], y[m] * w
        for n, step in enumerate(chosen):
            a = step(lib, a, b, w)
            if n == again:
                a, b = a[b[:, 1] > 0], b[b[:, 1] > 0]
        z = x * 1
        z[m] = z[m].exp() + y[m]
        return end(lib, a, b, w), z

    return program


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    program = random_program(seed)
    compiled = flambeau.compile(lambda *args: program(flambeau, *args))
    for mask in MASKS.values():
        wanted, gradients = expected(program, mask, np.float64)
        x, y, w, t = tensors(flambeau, np.float64)
        results = compiled(x, y, w, t, flambeau.tensor(mask))
        assert_equal(listed(results), wanted)
        total_of(results).backward()
        assert_equal_gradients((x, w), gradients)
    assert compiled.program_count == 1
