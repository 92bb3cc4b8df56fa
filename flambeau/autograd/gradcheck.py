"""Checking gradients against finite differences: `gradcheck`, `gradgradcheck`.

For a function of real tensors the Jacobian that backward gives is compared with central
differences. Complex numbers count as pairs of real ones: the gradient of a real value L by a
complex number x + iy is ∂L/∂x + i ∂L/∂y, and L is the real, then the imaginary part of each output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flambeau.autograd.backward import grad
from flambeau.autograd.perturbation import (
    Forward,
    like,
    random_array,
    random_like,
    real_parts,
    unit_changes,
    unit_cotangents,
    wide,
    wide_dtype,
)
from flambeau.core.programs.gears import held
from flambeau.core.support.warning import warn
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.engine import Backward
from flambeau.core.values.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """A gradient is wrong."""


class _Settings(NamedTuple):
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_batched_grad: bool
    check_batched_forward_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool
    fast_mode: bool


def gradcheck(
    func: _Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of a function against finite differences.

    Args:
        func: A function of the inputs that returns a Tensor or a tuple of them. Outputs that take
            no gradient are left out. If no output takes one, the function must be constant.
        inputs: A Tensor or a tuple of Tensors and other arguments. Inputs that require grad are
            checked and should be of double precision.
        eps: The step of the finite differences.
        atol: Absolute tolerance.
        rtol: Tolerance relative to the finite difference.
        raise_exception: Raise rather than return ``False``.
        nondet_tol: How much two runs of the same backward may differ.
        check_undefined_grad: Check that missing cotangents are treated as zeros.
        check_grad_dtypes: Check that each gradient has the dtype of its input.
        check_batched_grad: Check that batched gradients of several cotangents equal the gradients
            of each.
        check_batched_forward_grad: Check that batched forward derivatives along several directions
            equal the derivatives along each.
        check_forward_ad: Check the derivatives that forward mode gives.
        check_backward_ad: Check the gradients that backward gives.
        fast_mode: Compare one random projection of the Jacobian rather than all of it.
        masked: Accepted for compatibility, where it concerns sparse tensors.

    Returns:
        ``True`` if all checks pass.

    Raises:
        GradcheckError: A check fails and ``raise_exception`` is set.
        ValueError: No input requires grad.
        TypeError: An output is not a Tensor.
        AssertionError: Neither mode is checked, or batches are requested for a mode that is not.
        NotImplementedError: The function cannot be differentiated forward.

    >>> import flambeau
    >>> x = flambeau.tensor([0.5, 2.0], dtype=flambeau.float64, requires_grad=True)
    >>> flambeau.autograd.gradcheck(lambda x: x.exp() * x, x)
    True
    """
    settings = _Settings(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
        check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode,
    )  # fmt: skip
    _require(check_forward_ad or check_backward_ad, "check_forward_ad or check_backward_ad")
    _require(check_backward_ad or not check_batched_grad, "check_backward_ad", "check_batched_grad")
    _require(
        check_forward_ad or not check_batched_forward_grad,
        "check_forward_ad", "check_batched_forward_grad",
    )  # fmt: skip
    check = _Check(func, inputs, settings)
    try:
        # Equal calls must give equal bits.
        with held():
            check.run()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _require(holds: bool, needed: str, by: str = "") -> None:
    if not holds:
        raise AssertionError(f"{by}=True needs {needed}" if by else f"one of {needed} must be True")


def gradgradcheck(
    func: _Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check the gradients of a function's gradients against finite differences.

    Args:
        func: As for `gradcheck`.
        inputs: As for `gradcheck`.
        grad_outputs: The cotangents at which the gradients are taken, which are checked as inputs
            too; random ones by default.
        eps: The step of the finite differences.
        atol: Absolute tolerance.
        rtol: Tolerance relative to the finite difference.
        gen_non_contig_grad_outputs: Accepted for compatibility; all tensors are contiguous.
        raise_exception: Raise rather than return ``False``.
        nondet_tol: How much two runs of the same backward may differ.
        check_undefined_grad: Check that missing cotangents are treated as zeros.
        check_grad_dtypes: Check that each gradient has the dtype of its input.
        check_batched_grad: Check that batched gradients of several cotangents equal the gradients
            of each.
        check_fwd_over_rev: Check the derivatives of the gradients by forward mode.
        check_rev_over_rev: Check the derivatives of the gradients by backward.
        fast_mode: Compare one random projection of the Jacobian rather than all of it.
        masked: Accepted for PyTorch's sake, where it concerns sparse tensors.

    Returns:
        ``True`` if all checks pass.

    Raises:
        GradcheckError: A check fails and ``raise_exception`` is set.
        ValueError: No input requires grad.
        AssertionError: Neither mode is checked, or an option needs a mode that is not.
    """
    _require(check_fwd_over_rev or check_rev_over_rev, "check_fwd_over_rev or check_rev_over_rev")
    _require(
        check_rev_over_rev or not check_undefined_grad, "check_rev_over_rev", "check_undefined_grad"
    )
    _require(
        check_rev_over_rev or not check_batched_grad, "check_rev_over_rev", "check_batched_grad"
    )
    arguments = _as_tuple(inputs)
    count = len(arguments)
    if grad_outputs is None:
        outputs = _differentiable(func(*arguments))
        cotangents = [random_like(each).requires_grad_() for each in outputs]
    else:
        cotangents = list(_as_tuple(grad_outputs))

    def gradients(*both: Any) -> tuple[Any, ...]:
        given = both[:count]
        wanted = [each for each in given if _is_checked(each)]
        outputs = _differentiable(func(*given))
        found = grad(outputs, wanted, both[count:], create_graph=True, allow_unused=True)
        return tuple(each for each in found if each is not None)

    return gradcheck(
        gradients, (*arguments, *cotangents), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
    )  # fmt: skip


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, list | tuple) else (values,)


def _is_checked(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _differentiable(outputs: Any) -> tuple[Any, ...]:
    return tuple(each for each in _as_tuple(outputs) if _is_checked(each))


class _Check:
    """One call of `gradcheck`.

    Args:
        func: The function.
        inputs: Its arguments.
        settings: How to check.
    """

    def __init__(self, func: _Function, inputs: Any, settings: _Settings) -> None:
        self.func = func
        self.arguments = _as_tuple(inputs)
        self.settings = settings
        self.places = [i for i, each in enumerate(self.arguments) if _is_checked(each)]
        self.checked: list[Tensor] = [self.arguments[i] for i in self.places]
        if not self.checked:
            raise ValueError("gradcheck needs an input that requires grad, but none of them does")
        for place, each in zip(self.places, self.checked, strict=True):
            if each.dtype.name not in ("float64", "complex128"):
                warn(
                    f"input {place} of gradcheck is {each.dtype}; finite differences are too "
                    "coarse for less than double precision",
                )

    def run(self) -> None:
        """Run all checks; raise at the first failure."""
        returned = _as_tuple(self.func(*self.arguments))
        if not all(isinstance(each, Tensor) for each in returned):
            kinds = ", ".join(type(each).__name__ for each in returned)
            raise TypeError(f"gradcheck needs a function that gives Tensors, this one gave {kinds}")
        outputs = _differentiable(returned)
        if not outputs:
            self._check_constant()
            return
        if self.settings.check_forward_ad:
            self._check_forward()
        if self.settings.check_backward_ad:
            self._check_backward(outputs)

    def _check_backward(self, outputs: tuple[Tensor, ...]) -> None:
        if self.settings.fast_mode:
            self._check_projection(outputs)
        else:
            self._check_jacobians(outputs)
        if self.settings.check_grad_dtypes:
            self._check_dtypes(outputs)
        if self.settings.check_batched_grad:
            self._check_batched(outputs)
        if self.settings.check_undefined_grad:
            self._check_undefined(outputs)

    # Backward

    def _gradients(self, outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[np.ndarray]:
        found = grad(outputs, self.checked, cotangents, retain_graph=True, allow_unused=True)
        return [
            np.zeros(tuple(source.shape), wide_dtype(source)) if each is None
            else wide(each.detach()._read())
            for source, each in zip(self.checked, found, strict=True)
        ]  # fmt: skip

    def _analytical(self, output: Tensor) -> list[np.ndarray]:
        """For each input the Jacobian, one row per real or imaginary part of an element."""
        rows = [self._gradients((output,), (each,)) for each in unit_cotangents(output)]
        return [
            np.stack([row[k].ravel() for row in rows]) if rows else np.zeros((0, source.numel()))
            for k, source in enumerate(self.checked)
        ]

    # Finite differences

    def _moved(self, which: int, change: np.ndarray) -> list[np.ndarray]:
        """The outputs' derivatives along a change of one input."""
        ends = []
        for sign in (1, -1):
            arguments = list(self.arguments)
            for k, (place, source) in enumerate(zip(self.places, self.checked, strict=True)):
                values = wide(source.detach()._read())
                if k == which:
                    values = values + sign * self.settings.eps * change
                arguments[place] = like(source, values).requires_grad_()
            ends.append(self._values(self.func(*arguments)))
        return [(a - b) / (2 * self.settings.eps) for a, b in zip(*ends, strict=True)]

    def _values(self, outputs: Any) -> list[np.ndarray]:
        tensors = [each for each in _as_tuple(outputs) if isinstance(each, Tensor)]
        taking = [each for each in tensors if each.requires_grad]
        return [wide(each.detach()._read()) for each in taking or tensors]

    def _numerical(self, which: int, outputs: int) -> list[np.ndarray]:
        """For each output the Jacobian by one input, with rows in the order of `_analytical`."""
        source = self.checked[which]
        columns: list[list[np.ndarray]] = [[] for _ in range(outputs)]
        for change in unit_changes(source):
            for column, derivative in zip(columns, self._moved(which, change), strict=True):
                column.append(real_parts(derivative))
        joined = [np.stack(each, 1) if each else None for each in columns]
        if not source.dtype.is_complex:
            return [np.zeros((0, 0)) if each is None else each for each in joined]
        # Changes of the real and of the imaginary parts alternate.
        return [
            np.zeros((0, 0)) if each is None else each[:, 0::2] + 1j * each[:, 1::2]
            for each in joined
        ]

    # The checks

    def _check_jacobians(self, outputs: tuple[Tensor, ...]) -> None:
        analytical = [self._analytical(each) for each in outputs]
        for k, place in enumerate(self.places):
            for o, numerical in enumerate(self._numerical(k, len(outputs))):
                self._compare(analytical[o][k], numerical, o, place)
        for o, output in enumerate(outputs):
            self._check_repeatable(o, analytical[o], self._analytical(output))

    def _compare(
        self, analytical: np.ndarray, numerical: np.ndarray, output: int, place: int
    ) -> None:
        if not analytical.size:
            return
        off = np.abs(analytical - numerical)
        allowed = self.settings.atol + self.settings.rtol * np.abs(numerical)
        bad = ~(off <= allowed)
        if bad.any():
            row, column = np.unravel_index(int(np.argmax(np.where(bad, off, -1))), off.shape)
            raise GradcheckError(
                f"the Jacobian of output {output} with respect to input {place} does not match: "
                f"{int(bad.sum())} of {off.size} elements are off, most of all [{row}, {column}], "
                f"{analytical[row, column]:.8g} by backward and {numerical[row, column]:.8g} "
                f"numerically\nby backward:\n{analytical}\nnumerically:\n{numerical}"
            )

    def _check_repeatable(
        self, output: int, first: list[np.ndarray], second: list[np.ndarray]
    ) -> None:
        for place, one, other in zip(self.places, first, second, strict=True):
            off = float(np.abs(one - other).max()) if one.size else 0.0
            if not off <= self.settings.nondet_tol:
                raise GradcheckError(
                    f"two runs of the same backward of output {output} give gradients of input "
                    f"{place} that differ by {off:.3g}; nondet_tol is {self.settings.nondet_tol}"
                )

    def _check_projection(self, outputs: tuple[Tensor, ...]) -> None:
        for o, output in enumerate(outputs):
            cotangent = random_array(output.shape, output.dtype.numpy)
            gradients = self._gradients((output,), (like(output, cotangent),))
            again = self._gradients((output,), (like(output, cotangent),))
            self._check_repeatable(o, gradients, again)
            for k, (place, source) in enumerate(zip(self.places, self.checked, strict=True)):
                change = random_array(source.shape, source.dtype.numpy)
                by_backward = float(np.sum(np.conj(gradients[k]) * change).real)
                moved = self._moved(k, change)[o]
                numerically = float(np.sum(np.conj(cotangent) * moved).real)
                scale = float(np.abs(cotangent).sum() * np.abs(change).sum())
                allowed = self.settings.atol * scale + self.settings.rtol * abs(numerically)
                if not abs(by_backward - numerically) <= allowed:
                    raise GradcheckError(
                        f"the Jacobian of output {o} with respect to input {place} does not match: "
                        f"a random projection of it is {by_backward:.8g} by backward and "
                        f"{numerically:.8g} numerically; fast_mode=False shows all its elements"
                    )

    def _check_forward(self) -> None:
        for k, (place, source) in enumerate(zip(self.places, self.checked, strict=True)):
            forward = Forward(self.func, self.arguments, place)
            random = random_array(source.shape, source.dtype.numpy)
            for change in [random] if self.settings.fast_mode else unit_changes(source):
                pushed, moved = forward.along(change), self._moved(k, change)
                for o, (by_forward, numerically) in enumerate(zip(pushed, moved, strict=True)):
                    self._compare_forward(by_forward, numerically, o, place)
            if self.settings.check_batched_forward_grad:
                self._check_batched_forward(forward, random)

    def _compare_forward(
        self, by_forward: np.ndarray, numerically: np.ndarray, output: int, place: int
    ) -> None:
        off = np.abs(by_forward - numerically)
        if not (off <= self.settings.atol + self.settings.rtol * np.abs(numerically)).all():
            raise GradcheckError(
                f"the Jacobian of output {output} with respect to input {place} does not match: "
                f"along one direction it is\n{by_forward}\nin forward mode, numerically\n"
                f"{numerically}"
            )

    def _check_batched_forward(self, forward: Forward, change: np.ndarray) -> None:
        together, alone = forward.along_all([change, 2 * change]), forward.along(change)
        for o, (both, one) in enumerate(zip(together, alone, strict=True)):
            if not np.allclose(both, np.stack([one, 2 * one]), atol=1e-8, rtol=1e-5):
                raise GradcheckError(
                    f"the forward derivatives of output {o} along two changes of input "
                    f"{forward.place} at once are not those along each of them"
                )

    def _check_constant(self) -> None:
        for k, place in enumerate(self.places):
            for change in unit_changes(self.checked[k]):
                for o, derivative in enumerate(self._moved(k, change)):
                    if np.abs(derivative).max(initial=0.0) > self.settings.atol:
                        raise GradcheckError(
                            "no output of the function requires grad, but its output "
                            f"{o} changes with input {place}: the numerical gradient should be zero"
                        )

    def _check_dtypes(self, outputs: tuple[Tensor, ...]) -> None:
        cotangents = [random_like(each) for each in outputs]
        found = grad(outputs, self.checked, cotangents, retain_graph=True, allow_unused=True)
        for place, source, each in zip(self.places, self.checked, found, strict=True):
            if each is not None and each.dtype is not source.dtype:
                raise GradcheckError(
                    f"the gradient of input {place} is {each.dtype}, the input {source.dtype}"
                )

    def _check_batched(self, outputs: tuple[Tensor, ...]) -> None:
        for o, output in enumerate(outputs):
            row = random_array(output.shape, output.dtype.numpy)
            batch = like(output, np.stack([row, 2 * row]))
            together = grad(
                output, self.checked, batch, retain_graph=True, allow_unused=True,
                is_grads_batched=True,
            )  # fmt: skip
            alone = self._gradients((output,), (like(output, row),))
            for place, both, one in zip(self.places, together, alone, strict=True):
                if both is None:
                    continue
                expected = np.stack([one, 2 * one])
                if not np.allclose(wide(both._read()), expected, atol=1e-8, rtol=1e-5):
                    raise GradcheckError(
                        f"the gradients of input {place} for two cotangents of output {o} at once "
                        "are not those for each of them"
                    )

    def _check_undefined(self, outputs: tuple[Tensor, ...]) -> None:
        """Missing cotangents of outputs must be treated as zeros."""
        self._check_without(outputs, range(len(outputs)))
        if len(outputs) > 1:
            for left_out in range(len(outputs)):
                self._check_without(outputs, (left_out,))

    def _check_without(self, outputs: tuple[Tensor, ...], left_out: Sequence[int]) -> None:
        cotangents = [random_array(each.shape, each.dtype.numpy) for each in outputs]
        zeroed = [0 * each if o in left_out else each for o, each in enumerate(cotangents)]
        expected = self._gradients(
            outputs, [like(t, each) for t, each in zip(outputs, zeroed, strict=True)]
        )
        roots: Any = [
            (tape.edge_of(output), None if o in left_out else like(output, each))
            for o, (output, each) in enumerate(zip(outputs, cotangents, strict=True))
        ]
        targets = [tape.edge_of(each) for each in self.checked]
        try:
            found = Backward(roots, retain_graph=True, create_graph=False, targets=targets).run()
        except Exception as error:
            raise GradcheckError(
                f"backward fails if outputs {list(left_out)} get no gradient: {error}"
            ) from error
        for place, wanted, each in zip(self.places, expected, found, strict=True):
            given = np.zeros_like(wanted) if each is None else wide(each)
            if not np.allclose(given, wanted, atol=1e-8, rtol=1e-5):
                raise GradcheckError(
                    f"the gradient of input {place} is wrong if outputs {list(left_out)} get no "
                    "gradient, which must count as zeros"
                )
