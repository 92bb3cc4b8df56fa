"""Parametrizations that keep a weight orthogonal or normalize it."""

from __future__ import annotations

from flambeau.core.support.dtype import finfo
from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import StateDict
from flambeau.nn.module import Module
from flambeau.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.utils.parametrize import register_parametrization
from flambeau.ops.draws.sampling import randn
from flambeau.ops.elementwise.comparison import allclose
from flambeau.ops.factories.creation import eye, zeros_like
from flambeau.ops.matrices.orthogonal_maps import orthogonal_map, orthonormalized, reflections_of
from flambeau.ops.neural import reparametrization
from flambeau.ops.shapes.shape import cat

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """A matrix with orthonormal columns, or rows, as a function of any matrix.

    Args:
        weight: The tensor to parametrize.
        orthogonal_map: One of `_ORTHOGONAL_MAPS`.
        use_trivialization: Whether the value is the product of a base, which `right_inverse` sets,
            and the orthogonal matrix of the map.

    Attributes:
        base: ``(..., m, m)``, where m is the greater of rows and columns; with trivialization only.
    """

    base: Tensor

    def __init__(
        self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError(
                "the householder map is for real tensors; for complex ones use 'matrix_exp' or "
                "'cayley'"
            )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """The orthogonal matrix of ``X``, or of its part below the diagonal."""
        return orthogonal_map(X, self._buffers.get("base"), self.orthogonal_map)

    def right_inverse(self, Q: Tensor) -> Tensor:
        """The input for which `forward` returns ``Q``; ``Q`` becomes the base, if there is one."""
        if Q.shape != self.shape:
            raise ValueError(
                f"an orthogonal parametrization of shape {list(self.shape)} cannot be set to a "
                f"tensor of shape {list(Q.shape)}"
            )
        with no_grad():
            if "base" in self._buffers:
                self.base = self._as_base(Q)
                identity = eye(*Q.shape[-2:], dtype=Q.dtype, device=Q.device)
                return zeros_like(Q) - identity
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    f"a tensor parametrized by the {self.orthogonal_map} map can be assigned to "
                    "with use_trivialization=True only"
                )
            return reflections_of(Q)

    def _as_base(self, Q: Tensor) -> Tensor:
        tall = Q.mT if Q.size(-2) < Q.size(-1) else Q
        rows, columns = tall.shape[-2:]
        if rows > columns:
            shape = (*tall.shape[:-2], rows, rows - columns)
            more = randn(shape, dtype=tall.dtype, device=tall.device)
            return orthonormalized(cat([tall, more], dim=-1))
        return tall.clone() if _is_orthogonal(tall) else orthonormalized(tall)


def _is_orthogonal(Q: Tensor) -> bool:
    products = Q.mH @ Q
    identity = eye(Q.size(-1), dtype=Q.dtype, device=Q.device).expand_as(products)
    return allclose(products, identity, atol=10.0 * Q.size(-2) * finfo(Q.dtype).eps)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix of a module orthogonal during training.

    A matrix with at least as many rows as columns has orthonormal columns, otherwise rows.

    Args:
        module: The module.
        name: The name of its matrix, or batch of matrices.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``. By default the first
            for square and complex matrices, the last for others.
        use_trivialization: Whether the map is applied around a base point: the initial value, or
            the value assigned to the tensor.

    Returns:
        ``module``.

    Raises:
        ValueError: There is no such tensor, it is not a matrix, or the map is unknown or supports
            only real matrices.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> bool(((layer.weight @ layer.weight.T - flambeau.eye(3)).abs() < 1e-5).all())
    True
    """
    weight = _tensor_of(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"orthogonal() takes a matrix or a batch of them, but '{name}' has shape "
            f"{list(weight.shape)}"
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _ORTHOGONAL_MAPS:
        raise ValueError(
            f"orthogonal_map must be one of {', '.join(_ORTHOGONAL_MAPS)}, got {orthogonal_map!r}"
        )
    orth = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, orth, unsafe=True)


def _tensor_of(module: Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{type(module).__name__} has no parameter or buffer named '{name}'")
    return tensor


class _WeightNorm(Module):
    """A weight as ``g * v / |v|``.

    Args:
        dim: The dimension that the norm does not reduce; ``None`` to reduce all.
    """

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """The weight."""
        return reparametrization.weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The norms g, and the weight itself as v."""
        return reparametrization.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train a weight's length and direction separately, https://arxiv.org/abs/1602.07868.

    The length g is ``module.parametrizations.<name>.original0``, the direction v ``original1``.
    States saved with the older `nn.utils.weight_norm` can be loaded.

    Args:
        module: The module.
        name: The name of its weight.
        dim: The dimension with one length per slice; ``None`` for one length of the whole.

    Returns:
        ``module``.

    Raises:
        ValueError: There is no such tensor.

    >>> from flambeau import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape
    flambeau.Size([40, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OlderNames(name))
    return module


class _OlderNames:
    """Renames the tensors of the older `nn.utils.weight_norm` in a state dict."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: StateDict, prefix: str, *others: object) -> None:
        old = [f"{prefix}{self.name}_{suffix}" for suffix in ("g", "v")]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                new = f"{prefix}parametrizations.{self.name}.original{number}"
                state_dict[new] = state_dict.pop(key)


class _SpectralNorm(Module):
    """A weight divided by its greatest singular value.

    Args:
        weight: The tensor to parametrize.
        n_power_iterations: The number of power iterations at each use in training.
        dim: The dimension that is the rows of the matrix.
        eps: The least norm to divide by.

    Attributes:
        _u: ``(rows,)``, the estimate of the left singular vector.
        _v: ``(columns,)``, the estimate of the right singular vector.
    """

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.dim()
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"spectral_norm(): dimension {dim} is out of range for a weight of {ndim}"
            )
        if n_power_iterations <= 0:
            raise ValueError(f"n_power_iterations must be positive, got {n_power_iterations}")
        self.dim = dim % ndim
        self.eps = eps
        if ndim == 1:
            return
        self.n_power_iterations = n_power_iterations
        rows = weight.size(self.dim)
        for name, size in (("_u", rows), ("_v", weight.numel() // rows)):
            drawn = randn(size, dtype=weight.dtype, device=weight.device)
            self.register_buffer(name, F.normalize(drawn, dim=0, eps=eps))
        # The first estimate should be accurate, since evaluation never improves it.
        self._iterate(weight, 15)

    def _iterate(self, weight: Tensor, count: int) -> None:
        with no_grad():
            u, v = reparametrization.power_iterations(
                weight, self._u, self._v, count, self.dim, self.eps, True
            )
            self._u._store(u._read())
            self._v._store(v._read())

    def forward(self, weight: Tensor) -> Tensor:
        """The weight divided by its norm."""
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        if self.training:
            self._iterate(weight, self.n_power_iterations)
        return reparametrization.divided_by_sigma(weight, self._u, self._v, self.dim)

    def right_inverse(self, value: Tensor) -> Tensor:
        """``value``, which is assumed to have norm 1."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its greatest singular value, https://arxiv.org/abs/1802.05957.

    The singular vectors are estimated by power iteration at each use in training.

    Args:
        module: The module.
        name: The name of its weight.
        n_power_iterations: The number of steps at each use.
        eps: The least norm to divide by.
        dim: The dimension that is the rows of the matrix; all others are its columns. By default 1
            for transposed convolutions and else 0.

    Returns:
        ``module``.

    Raises:
        ValueError: There is no such tensor, or ``n_power_iterations`` is not positive.
        IndexError: There is no such dimension.
    """
    weight = _tensor_of(module, name)
    if dim is None:
        transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
        dim = 1 if isinstance(module, transposed) else 0
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, dim, eps)
    )
