"""Linear algebra under PyTorch's names: `torch.linalg`."""

from flambeau.ops.matrices.factorization import (
    LinAlgError,
    cholesky,
    cholesky_ex,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    lu,
    lu_factor,
    lu_factor_ex,
    svdvals,
)
from flambeau.ops.matrices.factorization import linalg_qr as qr
from flambeau.ops.matrices.factorization import linalg_svd as svd
from flambeau.ops.matrices.linalg import linalg_cross as cross
from flambeau.ops.matrices.linalg import matmul
from flambeau.ops.matrices.matrix_functions import (
    cond,
    det,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    slogdet,
    vecdot,
)
from flambeau.ops.matrices.matrix_functions import linalg_diagonal as diagonal
from flambeau.ops.matrices.matrix_functions import linalg_norm as norm
from flambeau.ops.matrices.matrix_functions import linalg_vander as vander
from flambeau.ops.matrices.matrix_functions import linalg_vector_norm as vector_norm
from flambeau.ops.matrices.solving import (
    inv_ex,
    lstsq,
    lu_solve,
    pinv,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from flambeau.ops.matrices.solving import inverse as inv
from flambeau.ops.matrices.symmetric_indefinite import ldl_factor, ldl_factor_ex, ldl_solve

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex",
    "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve",
    "vander", "vecdot", "vector_norm",
]  # fmt: skip
