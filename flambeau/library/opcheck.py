"""`opcheck`, which checks the registrations of an operator against its kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.compile import compile as compiled
from flambeau.core.values.trees import map_tensors
from flambeau.library import registry
from flambeau.library.host_kernels import as_outputs, tensors_of
from flambeau.testing import assert_close

DEFAULT_TESTS = (
    "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic",
)  # fmt: skip


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    test_utils: Any = DEFAULT_TESTS, raise_exception: bool = True, atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:  # fmt: skip
    """Check an operator with example arguments.

    Args:
        op: The operator.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        test_utils: The checks: that only the arguments declared in the schema are mutated
            (``test_schema``), that there is a gradient where one is required
            (``test_autograd_registration``), that the fake implementation matches the results'
            shapes (``test_faketensor``), and that the compiled result is the same
            (``test_aot_dispatch_dynamic``).
        raise_exception: Whether a failed check raises instead of being reported in the result.
        atol: The absolute tolerance of comparisons.
        rtol: The relative tolerance.

    Returns:
        The result of each check.
    """
    operator = registry.find(op)
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    outcomes: dict[str, str] = {}
    for name in names:
        if name not in _CHECKS:
            raise RuntimeError(f"opcheck: there is no check {name!r}; there are {[*_CHECKS]}")
        try:
            _CHECKS[name](operator, args, kwargs or {}, {"atol": atol, "rtol": rtol})
            outcomes[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise type(error)(f"opcheck(op, ...): {name} failed with {error}") from error
            outcomes[name] = f"FAILED: {error}"
    return outcomes


def _check_schema(operator: Any, args: Any, kwargs: Any, tolerances: Any) -> None:
    values = operator._schema.bind(args, kwargs)
    before = [[each.clone() for each in tensors_of([value])] for value in values]
    operator(*args, **kwargs)
    for argument, value, kept in zip(operator._schema.arguments, values, before, strict=True):
        for each, old in zip(tensors_of([value]), kept, strict=True):
            if not argument.is_write and not each.equal(old):
                raise RuntimeError(
                    f"{operator._qualname}: the argument {argument.name!r} is written to, which "
                    f"the schema {operator._schema} does not say; name it in mutates_args"
                )


def _check_autograd(operator: Any, args: Any, kwargs: Any, tolerances: Any) -> None:
    wanted = any(each.requires_grad for each in tensors_of([*args, *kwargs.values()]))
    is_composite = "CompositeImplicitAutograd" in operator._kernels
    if wanted and operator._backward is None and not is_composite:
        raise RuntimeError(f"{operator._qualname}: no autograd formula is registered")


def _check_fake(operator: Any, args: Any, kwargs: Any, tolerances: Any) -> None:
    found = as_outputs(operator(*args, **kwargs))[1]
    values = operator._schema.bind(args, kwargs)
    if operator._fake is None:
        raise RuntimeError(f"{operator._qualname}: no fake implementation is registered")
    on_meta = map_tensors(lambda each: each.detach().to("meta"), values)
    empty = as_outputs(operator._call(operator._fake, on_meta))[1]
    described = [[(tuple(e.shape), e.dtype) for e in each] for each in (found, empty)]
    if described[0] != described[1]:
        raise RuntimeError(
            f"{operator._qualname}: the kernel gives {described[0]}, its fake implementation "
            f"{described[1]}"
        )


def _check_compiled(operator: Any, args: Any, kwargs: Any, tolerances: Any) -> None:
    ours = as_outputs(operator(*args, **kwargs))[1]
    theirs = as_outputs(compiled(operator)(*args, **kwargs))[1]
    for one, other in zip(ours, theirs, strict=True):
        assert_close(other.detach(), one.detach(), **tolerances)


_CHECKS: dict[str, Callable[..., None]] = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_autograd,
    "test_faketensor": _check_fake,
    "test_aot_dispatch_dynamic": _check_compiled,
}
