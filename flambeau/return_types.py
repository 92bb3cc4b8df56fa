"""Named tuples returned by operators with several results."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from flambeau.core.support import naming

__all__ = [
    "aminmax", "cummax", "cummin", "frexp", "geqrf", "histogram", "histogramdd", "kthvalue",
    "linalg_cholesky_ex", "linalg_eig", "linalg_eigh", "linalg_inv_ex", "linalg_ldl_factor",
    "linalg_ldl_factor_ex", "linalg_lstsq", "linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex",
    "linalg_qr", "linalg_slogdet", "linalg_solve_ex", "linalg_svd", "lu_unpack", "max", "median",
    "min", "mode", "nanmedian", "qr", "sort", "svd", "topk", "triangular_solve",
]  # fmt: skip


def named(name: str, *fields: str) -> Any:
    """A named tuple type that prints like PyTorch's, with one field per line."""
    result = namedtuple(name, fields)

    def represent(self: Any) -> str:
        shown = ",\n".join(f"{key}={value!r}" for key, value in zip(fields, self, strict=True))
        return f"{naming.package}.return_types.{name}(\n{shown})"

    def construct(cls: Any, *args: Any, **kwargs: Any) -> Any:
        # PyTorch's take all members as one sequence, as do its pickles, with a dictionary.
        if args and isinstance(args[0], tuple | list):
            return new(cls, *args[0])
        return new(cls, *args, **kwargs)

    new = result.__new__
    result.__new__ = construct
    result.__reduce__ = lambda self: (type(self), (tuple(self), {}))
    result.__repr__ = represent
    result.__module__ = __name__
    result.__doc__ = f"What `flambeau.{name}` returns: {' and '.join(fields)}."
    return result


aminmax = named("aminmax", "min", "max")
cummax = named("cummax", "values", "indices")
cummin = named("cummin", "values", "indices")
frexp = named("frexp", "mantissa", "exponent")
geqrf = named("geqrf", "a", "tau")
histogram = named("histogram", "hist", "bin_edges")
histogramdd = named("histogramdd", "hist", "bin_edges")
kthvalue = named("kthvalue", "values", "indices")
linalg_cholesky_ex = named("linalg_cholesky_ex", "L", "info")
linalg_eig = named("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = named("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_inv_ex = named("linalg_inv_ex", "inverse", "info")
linalg_ldl_factor = named("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = named("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lstsq = named("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_lu = named("linalg_lu", "P", "L", "U")
linalg_lu_factor = named("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = named("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_qr = named("linalg_qr", "Q", "R")
linalg_slogdet = named("linalg_slogdet", "sign", "logabsdet")
linalg_solve_ex = named("linalg_solve_ex", "result", "info")
linalg_svd = named("linalg_svd", "U", "S", "Vh")
lu_unpack = named("lu_unpack", "P", "L", "U")
max = named("max", "values", "indices")
median = named("median", "values", "indices")
min = named("min", "values", "indices")
mode = named("mode", "values", "indices")
nanmedian = named("nanmedian", "values", "indices")
qr = named("qr", "Q", "R")
sort = named("sort", "values", "indices")
svd = named("svd", "U", "S", "V")
topk = named("topk", "values", "indices")
triangular_solve = named("triangular_solve", "solution", "cloned_coefficient")
