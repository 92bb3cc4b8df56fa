"""The statements that programs are made of: templates with placeholders.

One template a line; ``name other -> template`` gives one for each name, in the place of ``@``.

- ``a``: any tensor; ``n``: one of integers; ``x``: a floating-point one, also ``v``, ``t``, ``q``,
  ``c`` and ``g`` with 1, 2 (square: ``q``), 3 and 4 dimensions
- ``r``: a tensor that requires grad; ``w``: one to be written; ``l``: a leaf outside
- ``m``: a mask, ``y``, ``z``: tensors, of the first one's shape; ``b``: one that broadcasts to it
- ``s``: a number; ``k``: an integer; ``d``: a dimension; ``i``: an index
- ``dtype``, ``flag``, ``module``, ``optimizer``, ``parameters``: what their names say
"""

from __future__ import annotations


def templates(text: str) -> list[str]:
    """Every template of a table."""
    found = []
    for line in text.strip().splitlines():
        names, arrow, template = line.strip().rpartition(" -> ")
        found += [template.replace("@", name) for name in names.split()] if arrow else [template]
    return found


POINTWISE = templates("""
    abs neg exp sin cos tan tanh sigmoid sinh cosh atan -> {x}.@()
    asinh erf erfc expm1 exp2 square relu positive sinc nan_to_num sgn -> {x}.@()
    deg2rad rad2deg -> {x}.@()
    exp sin neg abs square tanh positive -> {a}.@()
    floor ceil round trunc frac sign -> {x}.@()
    log log2 log10 sqrt rsqrt reciprocal lgamma digamma log1p -> ({x}.abs() + 0.5).@()
    asin acos atanh erfinv -> ({x}.tanh() * 0.8).@()
    logit -> ({x}.sigmoid() * 0.8 + 0.1).@()
    isnan isinf isfinite signbit logical_not sgn -> {a}.@()
    i0 i1 i0e i1e ndtr entr erfcx log_ndtr -> lib.special.@({x})
    add sub mul -> {a}.@({b})
    add sub -> {a}.@({b}, alpha={k})
    add sub mul div -> {a}.@({s})
    maximum minimum fmax fmin atan2 hypot copysign logaddexp logaddexp2 -> lib.@({x}, {b})
    eq ne lt le gt ge -> {a}.@({b})
    eq ne lt le gt ge -> {a}.@({s})
    logical_and logical_or logical_xor -> {a}.@({b})
    bitwise_and bitwise_or bitwise_xor -> {n}.@({k})
    & | ^ -> {m} @ {m}
    + - * -> {a} @ {b}
    + - * / -> {x} @ {s}
    + - * / -> {s} @ ({x}.abs() + 1)
    % // -> {x} @ 1.5
    remainder fmod -> {x}.@(1.25)
    floor trunc -> lib.div({x}, 0.75, rounding_mode='@')
    {x} / ({b}.abs() + 1)
    {x} / ({b}.square() + 0.5)
    -{a}
    ~{m}
    {x} ** 2
    {x} ** 3
    ({x}.abs() + 0.5) ** {b}
    ({x}.abs() + 0.5).pow(1.5)
    2 ** {x}
    {x}.pow(0)
    {x}.clamp(-0.5, 0.75)
    {x}.clamp(min=0.1)
    {x}.clamp(max={b})
    {x}.clip(-1, {k})
    lib.where({m}, {x}, {y})
    lib.where({m}, {x}, {s})
    {x}.where({m}, {y})
    {x}.lerp({y}, 0.3)
    lib.lerp({x}, {y}, {z})
    {x}.addcmul({y}, {z}, value=0.5)
    {x}.addcdiv({y}, {z}.abs() + 1, value=2)
    {x}.masked_fill({m}, {s})
    {x}.masked_fill({m}, {x}.sum())
    lib.heaviside({x}, {y})
    lib.xlogy({x}, {y}.abs() + 1)
    lib.float_power({x}.abs() + 1, {k})
    lib.ldexp({x}, lib.tensor(2))
    {x}.nan_to_num(0.5)
    lib.polygamma(1, {x}.abs() + 1)
    lib.sigmoid({x})
    lib.special.xlog1py({x}, {y}.abs())
    lib.special.expit({x})
    lib.rsub({x}, {b})
    {x}.conj()
    {x}.real
    lib.complex({x}.float(), {y}.float())
    lib.polar({x}.float().abs(), {y}.float())
    {a}.abs()
    {a}.angle()
    {a}.square()
    {n}.bitwise_not()
    {n} << 1
    {n} >> 1
    lib.gcd({n}, {n})
    lib.isin({n}, {n})
    {n} % 3
    {n} // 2
    {n} / 2
    {n} ** 2
    {a} + True
    {a} * 2
    {a} * 0.5
    {a} + 1j
    {x}.isclose({y})
    {a} == {a}
    lib.nextafter({x}, {y})
    {x}.float_power(2)
    {x}.true_divide(3)
""")
REDUCTIONS = templates("""
    sum mean prod amax amin -> {x}.@({d})
    sum mean prod std var -> {x}.@()
    sum mean amax amin logsumexp -> {x}.@({d}, keepdim=True)
    std var -> {x}.@({d})
    std var -> {x}.@({d}, correction=0, keepdim=True)
    sum prod any all count_nonzero -> {a}.@()
    sum any all count_nonzero -> {a}.@({d})
    max min median mode cummax cummin -> {x}.@({d})[0]
    max min median -> {x}.@()
    argmax argmin -> {x}.@({d})
    argmax argmin -> {x}.@()
    cumsum cumprod logcumsumexp softmax log_softmax -> {x}.@({d})
    cumsum cumprod -> {n}.@({d})
    sort -> {x}.@({d})[0]
    {x}.sort({d}, descending=True)[1]
    {x}.argsort({d})
    {x}.topk(2, {d})[0]
    {x}.kthvalue(1, {d})[0]
    {x}.norm()
    {x}.norm(dim={d})
    {x}.norm(1, {d}, keepdim=True)
    lib.linalg.vector_norm({x}, 3)
    lib.linalg.norm({t})
    lib.var_mean({x}, {d})[1]
    lib.std_mean({x})[0]
    {x}.aminmax(dim={d})[0]
    {x}.quantile(0.3)
    {x}.nansum({d})
    {x}.nanmean({d})
    {x}.diff(dim={d})
    {x}.renorm(2, {d}, 1.0)
    {x}.sum(dtype=lib.float64)
    {x}.sum({d}, dtype=lib.float64)
    {x}.dist({y})
    lib.trapz({x})
    lib.cumulative_trapezoid({x})
    {x}.softmax({d}, dtype=lib.float64)
    lib.bincount({n}.flatten().abs() % 3, minlength=3)
    {x}.histc(3, -1.05, 1.15)
    lib.searchsorted({v}.sort()[0], {v})
    lib.bucketize({x}, lib.tensor([-0.5, 0.5]))
""")
SHAPES = templates("""
    t -> {t}.@()
    clone detach contiguous flatten ravel squeeze -> {a}.@()
    {t}.T
    {c}.mT
    {a}.transpose({d}, {d})
    {t}.transpose(0, 1)
    {c}.permute(0, 2, 1)
    {c}.movedim(0, 2)
    {a}.unsqueeze({d})[0]
    {a}.unsqueeze(0).squeeze(0)
    {a}.flip({d})
    {a}.roll(1, {d})
    {t}.rot90()
    {t}.reshape(-1)
    {t}.view(-1)
    {t}.reshape(3, 2)
    {t}.view(3, 2)
    {t}.t().reshape(-1)
    {c}.flatten(0, 1)
    {v}.expand(3, 3)
    {v}.expand(2, -1)
    {a}.expand_as({a})
    {v}.repeat(2, 1)
    {t}.tile(1, 1)
    {v}.repeat_interleave(2)
    {a}.narrow({d}, 0, 2)
    {a}.select({d}, 0)
    {a}.select({d}, -1)
    {t}.diagonal()
    {t}.diagonal(1)
    {t}.diag()
    {v}.diag()
    lib.diag_embed({v})
    {t}.tril()
    {t}.triu(1)
    {t}.trace()
    {a}.unbind({d})[0]
    {a}.chunk(2, {d})[0]
    {a}.split(1, {d})[-1]
    {a}.split([1, 2], {d})[1]
    {a}.tensor_split(2, {d})[0]
    {t}.unfold(1, 2, 1)[0]
    {v}.unflatten(0, (3, 1))[:, 0]
    {a}.swapaxes({d}, 0)
    lib.cat([{a}, {a}], {d})
    lib.stack([{x}, {y}], 0)
    lib.stack([{v}, {v}], {d})
    lib.cat([{t}, {t}])
    lib.hstack([{v}[:1], {v}[:2]])
    lib.vstack([{v}, {v}])
    lib.atleast_2d({v})
    lib.block_diag({x}, lib.ones(1, 1))
    lib.broadcast_tensors({x}, {b})[0]
    lib.meshgrid({v}, {v}, indexing='ij')[0]
    lib.tensordot({t}, {t}, 1)
    {a}.index_select({d}, lib.tensor([1, 0]))
    {t}.gather(1, lib.tensor([[0, 1], [1, 0]]))
    {a}.take(lib.tensor([1, 0, 1]))
    {t}.take_along_dim({t}.argsort(1), 1)
    {v}.take_along_dim({v}.argsort(), 0)
    lib.zeros_like({a})
    lib.ones_like({x})
    lib.full_like({x}, {s})
    {a}.new_zeros(3)
    {a}.new_ones((2, 3))
    {a}.new_full((3,), 1)
    {a}.new_tensor([1, 2, 3])
    lib.zeros(3)
    lib.ones(2, 3)
    lib.eye(3)
    lib.arange(3)
    lib.arange(3.0)
    lib.linspace(0, 1, 3)
    lib.full((2, 3), {s})
    lib.tensor([1.0, 2.0, 3.0])
    lib.scalar_tensor({s})
    {x}.view_as({x})
    {x}.reshape_as({y})
    {t}.scatter(1, lib.tensor([[0, 1], [1, 0]]), {s})
    {t}.scatter_add(1, lib.tensor([[0, 1], [1, 1]]), {t})
    {x}.index_add(0, lib.tensor([1, 0]), {x}[:2])
    {x}.index_fill({d}, lib.tensor([0]), {s})
    {t}.index_copy(0, lib.tensor([1]), {t}[:1])
    {t}.scatter_reduce(1, lib.tensor([[0, 1], [1, 1]]), {t}, 'sum')
    {v}.index_put((lib.tensor([0, 0]),), {v}[:2], accumulate=True)
    {t}.select_scatter({v}, 0, 1)
    {x}.slice_scatter({x}[:1], 0, 1, 2)
    {t}.diagonal_scatter({v}[:2])
    {x}.masked_scatter({m}, {y})
    {a}.movedim({d}, 0)
    lib.as_tensor({a})
    {x}.detach().requires_grad_()
    {x}.clone().detach()
    lib.flipud({a})
    {t}.fliplr()
    lib.combinations({v})
    lib.cartesian_prod({v}, {v}[:1])
    lib.cdist({t}, {t})
    lib.view_as_real({x} * (1 + 1j)).sum(-1)
    {t}.unfold(0, 2, 2)[0]
    {a}.swapdims(0, {d})
    {t}.as_strided((2,), (1,))
    {c}.unbind(1)[0]
    {a}.data
    {a}.squeeze({d})
""")
INDEXING = templates("""
    {x}[{m}].sum()
    {x}[{m}].square().mean()
    {x}.masked_select({m}).sum()
    {a}[{i}]
    {t}[{k}, 1:]
    {t}[:, {k}]
    {t}[..., -1]
    {t}[None, 0]
    {t}[::2]
    {t}[1:][:, 1:]
    {t}[lib.tensor([1, 0])]
    {t}[:, lib.tensor([1, 0, 1])]
    {t}[[1, 0]]
    {t}[lib.tensor([1, 0]), lib.tensor([0, 1])]
    {t}[lib.tensor(1)]
    {v}[{v}.argsort()]
    {v}[-2:]
    {t}[0][1]
    {c}[:, 1]
    {c}[1, :, {k}]
    {c}[lib.tensor([1, 0]), :, 0]
    {c}[:, lib.tensor([1, 0])]
    {a}[...]
    {a}[None][0]
    {v}[True][0]
    {x}[{i}][...]
    {c}[0, lib.tensor([1, 0]), lib.tensor([0, 2])]
    {c}[..., lib.tensor([0, 2])]
    {v}[lib.tensor([[0, 1, 2], [2, 1, 0]])]
""")
PRODUCTS = templates("""
    mm matmul -> {t}.@({t})
    inner -> {v}.@({v})
    {q} @ {q}
    {t} @ {v}
    {v} @ {v}
    {t}.mv({v})
    {v}.dot({v})
    {v}.outer({v})
    {c}.bmm({q}.expand(2, 3, 3))
    {c} @ {q}
    {t} @ {t}.t()
    lib.addmm({q}, {q}, {q}, beta=0.5, alpha=2)
    lib.addmv({v}, {q}, {v})
    lib.addr({q}, {v}, {v})
    lib.baddbmm({c}, {c}.bmm({c}.mT), {c})
    lib.einsum('ij,kj->ik', {t}, {t})
    lib.einsum('bij,j->bi', {c}, {v})
    lib.einsum('ii->i', {q})
    lib.kron({v}, lib.ones(1))
    lib.linalg.cross({v}, {v})
    lib.linalg.det({q})
    lib.linalg.inv({q} @ {q}.t() + 2 * lib.eye(3, dtype={q}.dtype))
    lib.linalg.solve({q} + 4 * lib.eye(3, dtype={q}.dtype), {v})
    lib.linalg.matrix_norm({t})
    lib.linalg.svdvals({t})
    lib.linalg.multi_dot([{q}, {q}, {v}])
    lib.linalg.matrix_power({q}, 2)
    lib.linalg.slogdet({q} @ {q}.t() + lib.eye(3, dtype={q}.dtype))[1]
    lib.linalg.cholesky({q} @ {q}.t() + lib.eye(3, dtype={q}.dtype))
    lib.linalg.eigvalsh({q} + {q}.t())
    {t}.cov()
    {t}.corrcoef()
    lib.vander({v})
    lib.linalg.vecdot({x}, {y})
    lib.chain_matmul({q}, {q})
    lib.fft.fft({v}).abs()
    lib.fft.rfft({x}.float()).real
    lib.fft.ifft({v}).imag
    lib.linalg.pinv({t})
    lib.matrix_exp({q} * 0.1)
""")
LAYERS = templates("""
    relu6 elu selu celu leaky_relu softplus softsign silu -> F.@({x})
    mish hardtanh hardswish hardsigmoid -> F.@({x})
    gelu logsigmoid tanhshrink softshrink hardshrink -> F.@({x})
    mse_loss l1_loss smooth_l1_loss huber_loss -> F.@({x}, {y})
    sum none mean -> F.mse_loss({x}, {y}, reduction='@')
    F.linear({t}, {q})
    F.linear({v}, {q}, {v})
    F.softmax({x}, {d})
    F.log_softmax({x}, {d})
    F.softmin({x}, {d})
    F.normalize({x}, dim={d})
    F.layer_norm({t}, (3,))
    F.layer_norm({t}, (3,), {v}, {v})
    F.rms_norm({x}, {x}.shape[-1:])
    F.group_norm({g}, 2)
    F.instance_norm({g})
    F.batch_norm({t}, None, None, training=True)
    F.cosine_similarity({x}, {y}, dim={d})
    F.pairwise_distance({t}, {t})
    F.gelu({x}, approximate='tanh')
    F.cross_entropy({t}, lib.tensor([0, 1]))
    F.cross_entropy({t}, lib.tensor([0, 1]), reduction='none', label_smoothing=0.1)
    F.nll_loss({t}.log_softmax(1), lib.tensor([2, 0]))
    F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())
    F.binary_cross_entropy({x}.sigmoid(), {y}.sigmoid())
    F.kl_div({x}.log_softmax(-1), {y}.softmax(-1), reduction='sum')
    F.pad({t}, (1, 0))[:, :3]
    F.pad({x}, (0, 0))
    F.pad({g}, (1, 1, 1, 1), mode='reflect')[..., 1:5, 1:5]
    F.one_hot(lib.tensor([0, 2]), 3)
    F.embedding(lib.tensor([1, 0]), {t})
    F.max_pool2d({g}, 2).flatten(1).sum(1)
    F.avg_pool2d({g}, 2).flatten()[:3]
    F.adaptive_avg_pool2d({g}, 1).flatten(1)[:, 0]
    F.conv2d({g}, {g}[:, :, :3, :3], padding=1)
    F.conv2d({g}, {g}[:, :, :1, :1])
    F.interpolate({g}, scale_factor=1.0)
    F.interpolate({g}, size=4, mode='bilinear')
    F.scaled_dot_product_attention({c}, {c}, {c})
    F.glu({g}, 1).sum((1, 2, 3))
    F.prelu({x}, lib.tensor([0.25], dtype={x}.dtype))
    F.threshold({x}, 0.1, 0.5)
    F.relu({x}, inplace=True)
    F.dropout({x}, 0.5, training=False)
    F.triplet_margin_loss({t}, {t}, {t})
    F.cosine_embedding_loss({t}, {t}, lib.tensor([1, -1]))
    F.hinge_embedding_loss({x}, lib.ones_like({x}))
    F.poisson_nll_loss({x}, {y}.abs())
    F.soft_margin_loss({x}, {y}.sign())
    F.gaussian_nll_loss({x}, {y}, {x}.detach().abs() + 1)
    {module}({x})
    {module}({module}({x}))
    {module}.weight * 2
    {module}.weight.sum()
    {module}({t}.detach())
    F.linear({x}, {module}.weight)
    F.pixel_shuffle({g}.reshape(1, 4, 4, 2), 2).flatten()[:3]
    F.unfold({g}, 2)[:, 0, :3]
    F.log_softmax({x}, -1, dtype=lib.float64)
    F.local_response_norm({g}, 2)
    F.lp_pool2d({g}.abs() + 0.1, 2, 2).flatten()[:3]
""")
CONVERSIONS = templates("""
    {a}.to(lib.{dtype})
    {a}.to({a}.dtype)
    {a}.float()
    {a}.double()
    {a}.long()
    {a}.bool()
    {a}.int()
    {x}.half()
    {x}.bfloat16()
    {a}.type_as({a})
    {a}.to({a})
    {a}.to(lib.{dtype}, copy=True)
    {a}.type(lib.{dtype})
    {a}.cpu()
    {x}.to(lib.complex64)
    lib.tensor(2.0, dtype=lib.{dtype}) * {a}
    {a} + lib.ones((), dtype=lib.{dtype})
    lib.result_type({a}, {a}) == lib.float32
    {a}.is_floating_point()
    {a}.numel()
    {a}.dim()
    list({a}.shape)
    {a}.requires_grad
    {a}.is_leaf
    {a}.dtype.itemsize
    len({t})
    {t}.size(-1)
    {l}.grad
    {l}.grad * 2
    {l}.grad.clone()
    {l}.detach() * {b}
    {l} * {b}
    {l}.grad is None
    lib.ones((2, 3), dtype=lib.{dtype}) * {s}
    lib.zeros(3, dtype=lib.{dtype}) + {a}
""")
GRADIENTS = templates("""
    lib.autograd.grad({r}.square().sum(), [{l}], retain_graph=True, allow_unused=True)[0]
    lib.autograd.grad({r}.sum(), [{l}], create_graph=True, allow_unused=True)[0]
    lib.autograd.grad({r}.square().sum(), [{l}], create_graph=True)[0]
    lib.autograd.grad({r}.sum(), [{r}], retain_graph=True, allow_unused=True)[0]
    lib.autograd.grad({r}, [{l}], lib.ones_like({r}), True, materialize_grads=True)[0]
    lib.autograd.grad({r}.sin().sum(), [{r}], create_graph=True, allow_unused=True)[0]
""")
# Statements that write in place.
WRITES = templates("""
    add_ mul_ sub_ copy_ -> {w}.@({b})
    add_ mul_ div_ fill_ -> {w}.@({s})
    {w}.zero_()
    {w}.add_({b}, alpha=2)
    tanh_ sigmoid_ exp_ neg_ abs_ sin_ relu_ square_ floor_ -> {w}.@()
    {w}.clamp_(-1, 1)
    {w}.clamp_(min=0)
    {w}.masked_fill_({m}, {s})
    {w}.addcmul_({y}, {z})
    {w}.addcdiv_({y}, {z}.abs() + 1)
    {w}.lerp_({y}, 0.5)
    {w}.index_fill_({d}, lib.tensor([0]), {s})
    {w}.t_()
    {w}.transpose_(0, -1)
    {w}.index_add_(0, lib.tensor([0]), {w}[:1] * 2)
    {w}.index_copy_(0, lib.tensor([0]), {w}[1:2])
    {w}.scatter_(0, lib.zeros_like({w}, dtype=lib.int64)[:1], {s})
    {w}.unsqueeze_(0).squeeze_(0)
    {w}[{i}] = {s}
    {w}[{i}] = {w}[{i}] * 2
    {w}[{i}] += {s}
    {w}[{i}] *= {w}[{i}]
    {w}[0] = {b}[0]
    {w}[...] = {b}
    {w}[:, 0] = {s}
    {w}[lib.tensor([1, 0])] = {s}
    {w}[{i}].mul_(0.5)
    {w}.view(-1)[0] = {s}
    {w}.select({d}, 0).add_(1)
    {w}.narrow({d}, 0, 1).zero_()
    {w}.diagonal().mul_(2)
    {w}.transpose(0, 1).add_({s})
    {w}[{m}] = {s}
    {w}[{m}] *= 2
    {w}[{m}] = {w}[{m}] + 1
    {w}.fill_diagonal_(1.0)
    {w}.tril_()
    {w}.data.mul_(0.5)
    {w}.detach().add_(1)
    {w} += {b}
    {w} *= {s}
    {w} -= {w}
    {w}.cumsum_({d})
    {w}.pow_(2)
    {w}.copy_({a})
    {w}.unbind(0)[0].add_(1)
    {w}.chunk(2)[0].mul_({s})
    {w}.flatten().add_(1)
    {w}.reshape(-1).mul_(2)
    {w}.squeeze_()
    {w}.clone().add_(1)
    {w}.index_put_((lib.tensor([0]),), {w}[:1])
    {w}.masked_scatter_({m}, {y})
    {w}.data.fill_({s})
    {w}.renorm_(2, 0, 1.0)
    {w}.bernoulli_(0.0)
    {w}.nan_to_num_()
    {w}.addmm_({q}, {q})
    lib.add({w}, {b}, out={w})
    lib.mul({a}, {s}, out=lib.empty(0, dtype={a}.dtype))
    {w}.requires_grad_(False)
""")
# Statements that change gradients, flags, hooks or layers.
EFFECTS = templates("""
    {r}.square().sum().backward(retain_graph=True)
    {r}.sum().backward()
    {r}.square().mean().backward()
    {r}.sum().backward(retain_graph=True, inputs=[{l}])
    {r}.backward(lib.ones_like({r}))
    {r}.square().sum().backward(create_graph=True)
    {r}.retain_grad()
    {r}.register_hook(lambda grad: grad * 2)
    {r}.register_hook(lambda grad: None)
    {r}.register_hook(lambda grad: grad.clamp(-1, 1))
    {r}.detach_()
    {a}.requires_grad_({flag})
    {l}.grad = None
    {l}.grad.zero_()
    {l}.grad = lib.ones_like({l})
    {l}.grad.mul_(0.5)
    {l}.grad = {y}.detach() * 2
    {optimizer}.step()
    {optimizer}.zero_grad()
    {optimizer}.zero_grad(set_to_none=False)
    {module}.zero_grad()
    {module}.eval()
    {module}.train()
    {module}.requires_grad_({flag})
    lib.nn.utils.clip_grad_norm_([{l}], 1.0)
    lib.nn.init.zeros_({l})
    lib.nn.init.constant_({w}, {s})
    lib.autograd.backward([{r}.sum(), {r}.square().sum()], retain_graph=True)
""")
# Values, and random numbers of PyTorch's, that only eager programs ask for.
EAGER_ONLY = templates("""
    {x}.sum().item()
    float({x}.mean())
    {t}.tolist()
    {x}[{m}]
    {x}.masked_select({m})
    {m}.nonzero()
    {n}.unique()
    lib.rand(3)
    lib.rand_like({x})
    F.dropout({x}, 0.5)
    lib.randn(2, 3)
    lib.randint(0, 5, (3,))
    lib.randperm(3)
    bool({x}.sum() > 0)
    {t}[lib.tensor([True, False])]
    {a}.equal({a})
    {x}.allclose({x})
    int({n}.sum())
    {x}.bernoulli(0.5)
    {a}.numpy().sum()
    {x}.normal_()
    {x}.uniform_()
    lib.multinomial({v}.abs() + 0.1, 2)
    lib.normal({x}, 1.0)
    {a}._is_view()
    {x}.exponential_()
    lib.poisson({x}.abs())
    lib.normal(0.0, 1.0, (3,))
""")
# What may stand outside of the function.
OUTSIDE_MODULES = templates("""
    lib.nn.Linear(3, 3)
    lib.nn.Linear(3, 3, bias=False)
    lib.nn.LayerNorm(3)
    lib.nn.BatchNorm1d(3)
    lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.Tanh(), lib.nn.Linear(3, 3))[0]
    lib.nn.PReLU()
    lib.nn.RMSNorm(3)
    lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(3, 3))
    lib.nn.Conv2d(2, 2, 3, padding=1)
    lib.nn.GroupNorm(1, 3)
    lib.nn.InstanceNorm1d(3, affine=True)
""")
OUTSIDE_HOOKS = templates("""
    {module}.register_forward_hook(lambda module, inputs, output: output * 2)
    {module}.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    {module}.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 2,))
    {module}.weight.register_hook(lambda grad: grad * 0.5)
    {l}.register_hook(lambda grad: grad + 1)
    {l}.register_post_accumulate_grad_hook(lambda p: [p.grad.mul_(2)] and None)
    {module}.eval()
    {module}.double()
""")
OUTSIDE_OPTIMIZERS = templates("""
    lib.optim.SGD({parameters}, lr=0.1)
    lib.optim.SGD({parameters}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    lib.optim.Adam({parameters}, lr=0.1)
    lib.optim.AdamW({parameters}, lr=0.1, amsgrad=True)
    lib.optim.RMSprop({parameters}, lr=0.1)
    lib.optim.Adagrad({parameters}, lr=0.1)
    lib.optim.Adamax({parameters}, lr=0.1, maximize=True)
    lib.optim.NAdam({parameters}, lr=0.1)
    lib.optim.Adadelta({parameters})
    lib.optim.RAdam({parameters}, lr=0.1)
    lib.optim.ASGD({parameters}, lr=0.1)
    lib.optim.Rprop({parameters}, lr=0.1)
""")
BLOCKS = templates("""
    with lib.no_grad():
    with lib.enable_grad():
    with lib.set_grad_enabled({flag}):
    for _ in range(2):
    with lib.inference_mode(False):
""")

VALUES = {
    "pointwise": POINTWISE,
    "reductions": REDUCTIONS,
    "shapes": SHAPES,
    "indexing": INDEXING,
    "products": PRODUCTS,
    "layers": LAYERS,
    "conversions": CONVERSIONS,
    "gradients": GRADIENTS,
}
