"""What is compared of matrices: products, functions, factorizations, solvers; see `number_cases`.

Factors are unique up to signs and phases only; they enter through products in which those cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.fuzz.number_cases import Case, call, find, method
from tests.fuzz.number_inputs import Inputs, apart, cancelling, large, plain, shaped, well_posed

SINGLE = ("float32", "float64")
MATRICES = (*SINGLE, "complex64", "complex128")
HALF_TOO = (*MATRICES, "float16", "bfloat16")

#: What the elements of a result may be off by, in epsilons: some operations on numbers up to 5.
ROUNDED = 200.0


def changed(make: Inputs, change: Callable[[np.ndarray], Any]) -> Inputs:
    """The arrays of ``make``, the first of which is changed in place."""

    def changed_inputs(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        first, *others = make(dtype, random)
        change(first)
        return (first, *others)

    return changed_inputs


def _put(place: Any, value: float) -> Callable[[np.ndarray], Any]:
    return lambda array: array.__setitem__(place, value)


def _scale(factor: float) -> Callable[[np.ndarray], Any]:
    return lambda array: array.__imul__(array.dtype.type(factor))


def edges_of(make: Callable[..., Inputs], *more: tuple[int, ...]) -> Iterator[tuple[str, Inputs]]:
    """Matrices of several sizes, and of elements at the edges, by name.

    Args:
        make: Gives inputs of shapes, the first being that of a square matrix.
        more: The shapes of further inputs, without the dimension of batches.
    """
    yield "", make((2, 3, 3), *((2, *each) for each in more))
    yield "1 by 1", make((1, 1), *(tuple(1 for _ in each) for each in more))
    yield (
        "0 by 0",
        make((0, 0), *(tuple(0 if size == 3 else size for size in each) for each in more)),
    )
    yield "no batch", make((0, 3, 3), *((0, *each) for each in more))
    square = make((3, 3), *more)
    yield "nan", changed(square, _put((0, 1), np.nan))
    yield "inf", changed(square, _put((1, 1), np.inf))
    yield "singular", changed(square, _put((1, slice(None)), 0.0))
    yield "zero", changed(square, _put(Ellipsis, 0.0))
    yield "large", changed(square, _scale(1e18))
    yield "small", changed(square, _scale(1e-18))


def at_edges(operator: str, compute: Any, *more: tuple[int, ...], use: str = "") -> Iterator[Case]:
    """Cases of an operator of one square matrix, and of others of the shapes in ``more``."""
    for edge, inputs in edges_of(well_posed, *more):
        name = ", ".join(each for each in (use, edge) if each)
        dtypes = MATRICES if not edge else ("float32", "complex64")
        yield Case(operator, name, compute, inputs, dtypes, ROUNDED)


def positive_definite(lib: Any, x: Any) -> Any:
    return x @ x.mH + lib.eye(x.shape[-1], dtype=x.dtype)


def hermitian(x: Any) -> Any:
    return x + x.mH


def triangle(lib: Any, x: Any) -> Any:
    """A factor such as Cholesky's, whose diagonal is real."""
    return x.tril(-1) + lib.diag_embed(x.diagonal(0, -2, -1).abs()).to(x.dtype)


def rebuilt(vectors: Any, values: Any, others: Any) -> Any:
    """The product of two factors, with squared values between them."""
    return (vectors * (values * values)[..., None, :].to(vectors.dtype)) @ others


def factorizations() -> Iterator[Case]:
    """Factorizations, solvers and inverses."""
    yield from at_edges(
        "factorization.cholesky", lambda lib, x: lib.linalg.cholesky(positive_definite(lib, x))
    )
    upper = lambda lib, x: lib.linalg.cholesky(positive_definite(lib, x), upper=True)  # noqa: E731
    yield Case("factorization.cholesky", "upper", upper, well_posed((3, 3)), MATRICES, ROUNDED)
    yield from at_edges("factorization.linalg_qr", lambda lib, x: _rebuilt_qr(lib.linalg.qr(x)))
    yield from at_edges("factorization.lu_factor", lambda lib, x: lib.linalg.lu_factor(x).LU)
    yield from at_edges("factorization.lu", lambda lib, x: tuple(lib.linalg.lu(x))[1:])

    def eigh(lib: Any, x: Any) -> Any:
        values, vectors = lib.linalg.eigh(hermitian(x))
        return values, rebuilt(vectors, values, vectors.mH)

    def eig(lib: Any, x: Any) -> Any:
        values, vectors = lib.linalg.eig(x)
        return rebuilt(vectors, values, lib.linalg.inv(vectors))

    def svd(lib: Any, x: Any) -> Any:
        left, values, right = lib.linalg.svd(x, full_matrices=False)
        return values, rebuilt(left, values, right)

    yield from at_edges("factorization.eigh", eigh)
    yield from at_edges("factorization.eigvalsh", lambda lib, x: lib.linalg.eigvalsh(hermitian(x)))
    yield from at_edges("factorization.eig", eig)
    traces = lambda lib, x: _power_sums(lib.linalg.eigvals(x))  # noqa: E731
    yield from at_edges("factorization.eigvals", traces)
    yield from at_edges("factorization.linalg_svd", svd)
    yield from at_edges("factorization.svdvals", call("linalg.svdvals"))
    for shape in ((4, 2), (2, 4)):
        yield Case("factorization.linalg_svd", f"{shape}", svd, apart(shape), MATRICES, ROUNDED)
        tall = lambda lib, x: _rebuilt_qr(lib.linalg.qr(x))  # noqa: E731
        yield Case("factorization.linalg_qr", f"{shape}", tall, apart(shape), MATRICES, ROUNDED)
        yield Case("solving.pinv", f"{shape}", call("linalg.pinv"), apart(shape), MATRICES, ROUNDED)
    product = call("linalg.householder_product")
    yield Case(
        "factorization.householder_product", "", product, apart((4, 3), (3,)), MATRICES, ROUNDED
    )
    packed = lambda lib, x: lib.lu_unpack(x, lib.tensor([1, 2, 3], dtype=lib.int32))[1:]  # noqa: E731
    yield Case("older_factorizations.triangles", "", packed, plain((3, 3)), MATRICES)
    yield Case("older_factorizations.ormqr", "", call("ormqr"),
               plain((4, 3), (3,), (4, 2)), SINGLE, ROUNDED)  # fmt: skip

    yield from at_edges("solving.inverse", call("linalg.inv"))
    yield from at_edges("solving.solve", call("linalg.solve"), (3, 2))
    yield from at_edges("solving.solve", call("linalg.solve", left=False), (2, 3), use="right")
    for upper in (False, True):
        triangular = call("linalg.solve_triangular", upper=upper)
        yield from at_edges("solving.solve_triangular", triangular, (3, 2), use=f"{upper}")

    def lu_solve(lib: Any, x: Any, y: Any) -> Any:
        return lib.linalg.lu_solve(*lib.linalg.lu_factor(x), y)

    yield from at_edges("solving.lu_solve", lu_solve, (3, 2))
    by_factor = lambda lib, x, y: lib.cholesky_solve(y, triangle(lib, x))  # noqa: E731
    yield from at_edges("solving.cholesky_solve", by_factor, (3, 2))
    inverted = lambda lib, x: lib.cholesky_inverse(triangle(lib, x))  # noqa: E731
    yield from at_edges("solving.cholesky_inverse", inverted)
    yield from at_edges("solving.pinv", call("linalg.pinv"))
    least = lambda lib, x, y: lib.linalg.lstsq(x, y).solution  # noqa: E731
    yield Case("solving.least_squares", "", least, apart((4, 3), (4, 2)), MATRICES, ROUNDED)


def _rebuilt_qr(factors: Any) -> Any:
    q, r = factors
    return q @ r, r.abs()


def _power_sums(values: Any) -> Any:
    return values.sum(-1), (values * values).sum(-1)


def matrix_functions() -> Iterator[Case]:
    """Determinants, norms and powers."""
    yield from at_edges("matrix_functions.det", call("linalg.det"))
    yield from at_edges("matrix_functions.slogdet", lambda lib, x: tuple(lib.linalg.slogdet(x)))
    yield from at_edges(
        "matrix_functions.logdet", lambda lib, x: lib.logdet(positive_definite(lib, x))
    )
    yield from at_edges("matrix_functions.matrix_exp", call("linalg.matrix_exp"))
    for power in (0, 1, 3, -2):
        case = call("linalg.matrix_power", power)
        yield from at_edges("matrix_functions.matrix_power", case, use=f"{power}")
    for order in (1, -1, float("inf"), float("-inf"), "fro"):
        case = call("linalg.matrix_norm", order)
        name = "norms.vector_norm" if order == "fro" else "matrix_functions.matrix_norm"
        yield Case(name, f"matrix {order}", case, shaped((5, 3, 3), share=0.2), MATRICES)
        yield Case(name, f"matrix {order}, plain", case, plain((3, 3)), HALF_TOO)
    for order in (2, -2):
        case = call("linalg.matrix_norm", order)
        yield from at_edges("matrix_functions.spectral_norm", case, use=f"{order}")
    nuclear = call("linalg.matrix_norm", "nuc")
    yield from at_edges("matrix_functions.spectral_norm", nuclear, use="nuc")
    yield from at_edges("norms.nuclear_norm", method("norm", "nuc", (-2, -1)))
    yield Case(
        "matrix_functions.einsum", "", call_einsum("bi,bj->ij"), plain((2, 3), (2, 3)), HALF_TOO
    )
    yield Case("matrix_functions.einsum", "edges", call_einsum("bi,bj->bij"),
               shaped((6, 3), (6, 3), share=0.3), MATRICES)  # fmt: skip
    chain = lambda lib, *tensors: lib.linalg.multi_dot(tensors)  # noqa: E731
    yield Case("matrix_functions.multi_dot", "", chain, plain((2, 3), (3, 3), (3, 2)), HALF_TOO)
    yield Case("matrix_functions.vecdot", "", call("linalg.vecdot"),
               shaped((9, 3), (9, 3), share=0.2), MATRICES)  # fmt: skip
    yield Case("matrix_functions.vander", "", call("vander"), shaped((7,), share=0.4), MATRICES)


def call_einsum(equation: str) -> Any:
    """`einsum` of this equation."""
    return lambda lib, *tensors: lib.einsum(equation, *tensors)


def products() -> Iterator[Case]:
    """Products of vectors and matrices, with rounding, and with elements at the edges."""
    table: dict[str, tuple[Any, ...]] = {
        "matmul": ((2, 3, 3), (3,)),
        "bmm": ((2, 3, 3), (2, 3, 3)),
        "mv": ((3, 3), (3,)),
        "vdot": ((3,), (3,)),
        "inner": ((2, 3), (2, 3)),
        "addmm": ((2, 3), (2, 3), (3, 3)),
        "addmv": ((3,), (3, 3), (3,)),
        "addr": ((3, 3), (3,), (3,)),
        "addbmm": ((3, 3), (2, 3, 3), (2, 3, 3)),
        "baddbmm": ((3, 3), (2, 3, 3), (2, 3, 3)),
        "kron": ((2, 3), (3,)),
        "tensordot": ((2, 3), (2, 3, 3)),
    }
    for name, shapes in table.items():
        case = call(name, 2) if name == "tensordot" else call(name)
        yield Case(f"linalg.{name}", "edges", case, shaped(*shapes, share=0.2), MATRICES)
        yield Case(f"linalg.{name}", "small", case, plain(*shapes), HALF_TOO)
        if name.startswith(("add", "badd")):
            # What is multiplied by a beta of 0 does not count, NaN included.
            for beta in (0, 0.5):
                case = call(name, beta=beta, alpha=2)
                inputs = shaped(*shapes, share=0.2)
                yield Case(f"linalg.{name}", f"beta {beta}", case, inputs, SINGLE)
    yield Case(
        "linalg.cross", "", call("linalg.cross"), shaped((9, 3), (9, 3), share=0.3), MATRICES
    )
    bilinear = call("F.bilinear")
    shapes = ((2, 3), (2, 3), (2, 3, 3), (2,))
    yield Case("linalg.bilinear", "", bilinear, plain(*shapes), (*SINGLE, "float16", "bfloat16"))
    for operator in ("mm", "matmul", "bmm"):
        long = lambda lib, x, operator=operator: _long_product(lib, x, operator)  # noqa: E731
        halves = ("float32", "bfloat16")
        yield Case(f"linalg.{operator}", "summed, cancelling", long, cancelling, halves, 4)
        yield Case(f"linalg.{operator}", "summed, large", long, large((3, 3)), halves, 4)


def _long_product(lib: Any, x: Any, operator: str) -> Any:
    right = lib.ones(x.shape[1], 2, dtype=x.dtype)
    if operator == "bmm":
        return find(lib, operator)(x[None], right[None])
    return find(lib, operator)(x, right)


def parametrized(lib: Any, register: Callable[[Any, Any], Any], tensors: dict[str, Any]) -> Any:
    """The weight of a layer with a parametrization, computed from these tensors."""
    rows, columns = next(iter(tensors.values())).shape
    dtype = next(iter(tensors.values())).dtype
    layer = lib.nn.Linear(columns, rows, bias=False, dtype=dtype)
    register(lib.nn.utils.parametrizations, layer)
    layer.eval()
    given = {f"parametrizations.weight.{name}": each for name, each in tensors.items()}
    return lib.func.functional_call(layer, given, (lib.eye(columns, dtype=dtype),)).mT


def reparametrizations() -> Iterator[Case]:
    """Weights that are computed from other parameters."""

    def weight_norm(lib: Any, v: Any, g: Any) -> Any:
        names = {"original1": v, "original0": g}
        return parametrized(lib, lambda made, layer: made.weight_norm(layer), names)

    shapes = ((3, 4), (3, 1))
    yield Case("reparametrization.weight_norm", "", weight_norm, plain(*shapes), SINGLE)
    yield Case("reparametrization.weight_norm", "zero",
               weight_norm, changed(plain(*shapes), _put(1, 0.0)), SINGLE)  # fmt: skip
    for order in (1, 2, 3):
        case = lambda lib, x, order=order: lib.norm_except_dim(x, order, 0)  # noqa: E731
        yield Case("reparametrization.norm_except_dim", f"{order}", case, plain((3, 4)), SINGLE)

    def spectral(lib: Any, x: Any) -> Any:
        def register(made: Any, layer: Any) -> None:
            made.spectral_norm(layer)
            rows, columns = layer.parametrizations.weight[0]._u, layer.parametrizations.weight[0]._v
            rows.copy_(lib.full_like(rows, rows.numel() ** -0.5))
            columns.copy_(lib.full_like(columns, columns.numel() ** -0.5))

        return parametrized(lib, register, {"original": x})

    yield Case("reparametrization.divided_by_sigma", "", spectral, plain((3, 4)), SINGLE)
    for kind in ("matrix_exp", "cayley", "householder"):

        def orthogonal(lib: Any, x: Any, kind: str = kind) -> Any:
            def register(made: Any, layer: Any) -> None:
                made.orthogonal(layer, orthogonal_map=kind, use_trivialization=False)

            return parametrized(lib, register, {"original": x})

        yield Case(
            "orthogonal_maps.orthogonal_map", kind, orthogonal, plain((3, 3)), SINGLE, ROUNDED
        )


def matrices() -> Iterator[Case]:
    """Every case of matrices."""
    yield from products()
    yield from matrix_functions()
    yield from factorizations()
    yield from reparametrizations()
