"""The precision in which `autocast` runs each operator, by the kind of device.

The lists are PyTorch's: https://docs.pytorch.org/docs/2.13/amp.html#autocast-op-reference. TPUs
share that of CUDA. An operator in no list runs without casts, with the usual promotion.
"""

from __future__ import annotations

__all__: list[str] = []

#: In the lower precision; in single precision; in the widest precision among the inputs.
LOWER, SINGLE, WIDEST = "lower", "single", "widest"

_PRODUCTS = (
    "addbmm addmm baddbmm bmm cell conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d "
    "conv_transpose3d einsum grouped_mm inner linalg_multi_dot linear matmul mm "
    "multi_head_attention prelu recurrent scaled_dot_product_attention tensordot"
)
_LOSSES = (
    "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy "
    "ctc_loss hinge_embedding_loss huber_loss kl_div l1_loss linear_cross_entropy "
    "margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss "
    "poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss"
)
_DECOMPOSITIONS = (
    "cholesky_ex cholesky_inverse cholesky_solve geqrf householder_product linalg_eig "
    "linalg_eigvals linalg_eigh linalg_eigvalsh linalg_inv_ex linalg_lstsq linalg_lu_solve "
    "linalg_matrix_rank linalg_qr linalg_solve_ex linalg_svd linalg_svdvals lu_factor_ex ormqr"
)
_CPU_SINGLE = (
    "adaptive_avg_pool3d avg_pool3d cdist fractional_max_pool grid_sample "
    "local_response_norm max_pool3d max_unpool pad_by_rule polar prod quantile trace"
)
_CUDA_SINGLE = (
    "acos asin cdist cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 gaussian_nll_loss "
    "group_norm layer_norm log log10 log1p log2 log_softmax multilabel_soft_margin_loss norm "
    "normalize pdist pow prod reciprocal renorm rsqrt sinh softmax softplus sum tan"
)


def _table(**policies: str) -> dict[str, str]:
    return {name: policy for policy, names in policies.items() for name in names.split()}


_CPU = _table(
    lower=f"{_PRODUCTS} linalg_vecdot",
    single=f"{_LOSSES} {_DECOMPOSITIONS} {_CPU_SINGLE}",
)
_CUDA = _table(
    lower=f"{_PRODUCTS} addmv addr mv",
    single=f"{_LOSSES} {_CUDA_SINGLE}",
    widest="addcdiv addcmul atan2 bilinear cross dot grid_sample put scatter_add vdot",
)
#: The policy of each operator, by device type.
POLICIES: dict[str, dict[str, str]] = {"cpu": _CPU, "cuda": _CUDA, "tpu": _CUDA}
