"""The module: a registry of parameters, buffers and submodules that can be called.

A module has five parts, one file each: this file registers its members on assignment; `traversal`
walks their tree; `conversion` changes the tree in place; `state_dict` saves and loads it; `calling`
runs the module with its hooks.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from flambeau.core.support.tracebacks import trim
from flambeau.core.support.world import bump
from flambeau.core.values.tensor import Tensor
from flambeau.nn import hooks
from flambeau.nn.calling import Calling
from flambeau.nn.common_types import Args, Kwargs
from flambeau.nn.conversion import Conversion
from flambeau.nn.deferred import DeferredInitialization
from flambeau.nn.parameter import Buffer, Parameter
from flambeau.nn.registry import TABLES, as_table, new_state
from flambeau.nn.state_dict import Persistence


class Module(Calling, Persistence, Conversion, DeferredInitialization):
    """The base of all layers and models.

    A subclass calls ``super().__init__()`` first, assigns its members to attributes, and defines
    `forward`. A `Parameter`, a `Buffer` or another module that is assigned to an attribute is
    registered under that name; everything else stays a plain attribute. Each name is in only one of
    these four places.

    >>> import flambeau
    >>> from flambeau import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(flambeau.ones(size))
    ...
    ...     def forward(self, input):
    ...         return input * self.factor
    >>> model = Scale(3)
    >>> [name for name, _ in model.named_parameters()]
    ['factor']
    >>> model(flambeau.ones(3)).shape
    flambeau.Size([3])
    """

    #: Whether `__init__` passes its arguments to the next base class, for multiple inheritance.
    call_super_init: bool = False
    #: The attributes that `extra_repr` shows, as ``name=value``. A leading star omits the name, a
    #: trailing question mark shows whether there is a value, and ``!r`` uses the value's `repr`. A
    #: pair (name, value) is shown only if the attribute differs from the value. A class that shows
    #: nothing has no such attribute: `Module` must not define names that PyTorch's lacks.
    _repr_attributes: ClassVar[tuple[str | tuple[str, object], ...]]

    _modules: dict[str, Module | None]
    if TYPE_CHECKING:
        # `Traversal` cannot name this class.
        def children(self) -> Iterator[Module]: ...
        def named_children(self) -> Iterator[tuple[str, Module]]: ...
        def modules(self, remove_duplicate: bool = True) -> Iterator[Module]: ...
        def named_modules(
            self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
        ) -> Iterator[tuple[str, Module]]: ...
        def get_submodule(self, target: str) -> Module: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            raise _arguments_error(self, args, kwargs)
        # Bypass this class's `__setattr__`, which needs the tables itself.
        super().__setattr__("training", True)
        self.__dict__.update(new_state())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # Attributes

    def __getattr__(self, name: str) -> Any:
        # Only called for names neither in the instance's __dict__ nor on its class. Look up each
        # table exactly once: other threads may change it. `state` marks a missing entry.
        state = self.__dict__
        try:
            if (member := state["_parameters"].get(name, state)) is not state:
                return member
            if (member := state["_modules"].get(name, state)) is not state:
                return member
            if (member := state["_buffers"].get(name, state)) is not state:
                return member
        except KeyError:
            # The tables do not exist yet, and so neither do members.
            pass
        missing = f"'{type(self).__name__}' object has no attribute '{name}'"
        if any(name in vars(cls) for cls in type(self).__mro__):
            # A property has raised an AttributeError, which Python has dropped: once more.
            try:
                return super().__getattribute__(name)
            except AttributeError as error:
                raise AttributeError(f"{missing}: its property raises: {error}") from error
        raise AttributeError(missing)

    def __setattr__(self, name: str, value: Any) -> None:
        # A plain attribute that gets another plain value is in no table, and need not be checked.
        may_register = name not in self.__dict__ or isinstance(value, (Module, Tensor))
        try:
            if may_register and _register_assigned(self, name, value):
                return
        except Exception as error:
            trim(error)
            raise
        super().__setattr__(name, as_table(name, value) if name in TABLES else value)
        bump()

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)
            bump()

    def __dir__(self) -> list[str]:
        members = (*self._parameters, *self._modules, *self._buffers)
        names = {*dir(type(self)), *self.__dict__, *members}
        return sorted(name for name in names if not name[:1].isdigit())

    # Registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, which is then also the attribute ``name``.

        Args:
            name: A name without dots.
            param: The parameter; ``None`` reserves the name for a parameter that does not exist
                (yet).

        Raises:
            AttributeError: ``Module.__init__`` has not run.
            TypeError: ``name`` is not a string, or ``param`` no `Parameter`.
            KeyError: The name is empty, contains a dot, or belongs to another attribute.
            ValueError: ``param`` is the result of a recorded computation.
        """
        parameters = self.__dict__.get("_parameters")
        if parameters is None:
            raise _not_initialized(self, "parameter", name)
        _check_name(self, "parameter", name, parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"parameter '{name}' must be a Parameter or None, "
                    f"but got a {type(param).__name__}"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"parameter '{name}' must be a leaf, but this one is the result of "
                    f"{param.grad_fn.name()}; to express a parameter by other tensors, compute it "
                    "in forward()"
                )
            if hooks._global_parameter_registration_hooks:
                param = hooks.filter_registration(
                    hooks._global_parameter_registration_hooks, self, name, param
                )
        parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer, which is then also the attribute ``name``.

        Args:
            name: A name without dots.
            tensor: The buffer; ``None`` reserves the name for a buffer that does not exist (yet).
            persistent: Whether it is part of the `state_dict`.

        Raises:
            AttributeError: ``Module.__init__`` has not run.
            TypeError: ``name`` is not a string, or ``tensor`` no Tensor.
            KeyError: The name is empty, contains a dot, or belongs to another attribute.

        >>> import flambeau
        >>> from flambeau import nn
        >>> module = nn.Module()
        >>> module.register_buffer("mean", flambeau.zeros(2))
        >>> list(module.state_dict())
        ['mean']
        """
        if "_modules" not in self.__dict__:
            raise _not_initialized(self, "buffer", name)
        _check_name(self, "buffer", name, self._buffers)
        if tensor is not None and not _is_tensor_like(tensor):
            raise TypeError(
                f"buffer '{name}' must be a Tensor or None, but got a {type(tensor).__name__}"
            )
        self._buffers[name] = hooks.filter_registration(
            hooks._global_buffer_registration_hooks, self, name, tensor
        )
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, which is then also the attribute ``name``.

        Args:
            name: A name without dots.
            module: The module; ``None`` reserves the name for a module that does not exist (yet).

        Raises:
            AttributeError: ``Module.__init__`` has not run.
            TypeError: ``name`` is not a string, or ``module`` no module.
            KeyError: The name is empty, contains a dot, or belongs to another attribute.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"module '{name}' must be a Module or None, but got a {type(module).__name__}"
            )
        if "_modules" not in self.__dict__:
            raise _not_initialized(self, "module", name)
        _check_name(self, "module", name, self._modules)
        _put_module(self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # Text, copies and pickles

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text in `repr` of this module besides its submodules; subclasses override it."""
        return ", ".join(
            [
                _shown(self, attribute)
                for attribute in getattr(type(self), "_repr_attributes", ())
                if isinstance(attribute, str) or getattr(self, attribute[0]) != attribute[1]
            ]
        )

    def __repr__(self) -> str:
        extra = self.extra_repr()
        own_lines = extra.split("\n") if extra else []
        child_lines = [
            f"({name}): {indented(repr(module))}" for name, module in self._modules.items()
        ]
        if not child_lines and len(own_lines) < 2:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join(own_lines + child_lines)
        return f"{self._get_name()}(\n  {body}\n)"

    def __getstate__(self) -> Kwargs:
        state = self.__dict__.copy()
        # A compiled program belongs to this object and this process.
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: Kwargs) -> None:
        self.__dict__.update(state)
        # Pickles of older versions lack some tables, or have plain dictionaries instead.
        for name, empty in new_state().items():
            value = self.__dict__.setdefault(name, empty)
            if name in TABLES:
                self.__dict__[name] = as_table(name, value)
        bump()


def indented(text: str) -> str:
    """``text`` with every line except the first indented by two columns."""
    first, *others = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in others)])


# Functions rather than methods, so that subclasses may use these names themselves.


def _register_assigned(module: Module, name: str, value: object) -> bool:
    """Register the value assigned to ``name``, unless it is a plain attribute."""
    state = module.__dict__
    is_tensor = isinstance(value, Tensor)
    if is_tensor and isinstance(value, Parameter):
        if "_modules" not in state:
            raise _not_initialized(module, "parameter", name)
        if name in state or name in state["_buffers"] or name in state["_modules"]:
            with _displaced(module, name, "_buffers", "_modules"):
                module.register_parameter(name, value)
        else:
            module.register_parameter(name, value)
    elif name in state.get("_parameters", ()):
        _require_none("parameter", "Parameter", name, value)
        module.register_parameter(name, None)
    elif isinstance(value, Module):
        if "_modules" not in state:
            raise _not_initialized(module, "module", name)
        if name not in state["_modules"] and _is_plain_in_class(type(module), name):
            raise _taken(module, "module", name)
        if name in state or name in state["_parameters"] or name in state["_buffers"]:
            with _displaced(module, name, "_parameters", "_buffers"):
                _put_module(module, name, value)
        else:
            _put_module(module, name, value)
    elif name in state.get("_modules", ()):
        _require_none("module", "Module", name, value)
        _put_module(module, name, None)
    elif (is_tensor and isinstance(value, Buffer)) or name in state.get("_buffers", ()):
        _assign_buffer(module, name, value)
    else:
        return False
    return True


@contextmanager
def _displaced(module: Module, name: str, *tables: str) -> Iterator[None]:
    """Remove ``name`` from `__dict__` and from ``tables``, unless the block fails."""
    state = module.__dict__
    places = (state, *(state[table] for table in tables))
    displaced = [(place, place.pop(name)) for place in places if name in place]
    was_unsaved = name in module._non_persistent_buffers_set
    module._non_persistent_buffers_set.discard(name)
    try:
        yield
    except BaseException:
        for place, old in displaced:
            place[name] = old
        if was_unsaved:
            module._non_persistent_buffers_set.add(name)
        raise


def _put_module(module: Module, name: str, child: Module | None) -> None:
    if hooks._global_module_registration_hooks:
        child = hooks.filter_registration(
            hooks._global_module_registration_hooks, module, name, child
        )
    module._modules[name] = child


def _assign_buffer(module: Module, name: str, value: Any) -> None:
    if value is not None and not _is_tensor_like(value):
        raise TypeError(
            f"cannot assign a {type(value).__name__} to the buffer '{name}': "
            "a Buffer, a Tensor or None is needed"
        )
    if isinstance(value, Buffer):
        persistent = value.persistent
    else:
        persistent = name not in module._non_persistent_buffers_set
    if type(module).register_buffer is Module.register_buffer or _takes_persistent(module):
        module.register_buffer(name, value, persistent)
    elif persistent:
        module.register_buffer(name, value)
    else:
        raise RuntimeError(
            f"{type(module).__name__}.register_buffer() takes no argument 'persistent', so it "
            f"cannot register the non-persistent buffer '{name}'"
        )


def _check_name(module: Module, kind: str, name: str, own: Container[str]) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} must be a string, but got a {type(name).__name__}")
    if name == "":
        raise KeyError(f"{kind} name can't be empty string")
    if "." in name:
        raise KeyError(f"{kind} name can't contain a dot, but got '{name}'")
    if name not in own and _is_taken(module, name):
        raise _taken(module, kind, name)


def _taken(module: Module, kind: str, name: str) -> KeyError:
    return KeyError(
        f"cannot register the {kind} '{name}': attribute '{name}' already exists in "
        f"{type(module).__name__}"
    )


def _is_plain_in_class(cls: type, name: str) -> bool:
    """Whether a class has a plain value of this name, such as None, which would hide a submodule.

    Properties may read the submodule, and methods hide it in PyTorch too.
    """
    for each in cls.__mro__:
        if name in each.__dict__:
            return not hasattr(type(each.__dict__[name]), "__get__")
    return False


def _is_taken(module: Module, name: str) -> bool:
    """Whether an attribute of this name exists: ``hasattr``, which is slow if it does not."""
    cls, state = type(module), module.__dict__
    looks_up_plainly = (
        cls.__getattr__ is Module.__getattr__ and cls.__getattribute__ is object.__getattribute__
    )
    if looks_up_plainly and not (
        name in state
        or name in state["_parameters"]
        or name in state["_modules"]
        or name in state["_buffers"]
        # A key that is not an identifier, such as a number in a list, cannot be a name in a class.
        or (name.isidentifier() and hasattr(cls, name))
    ):
        return False
    return hasattr(module, name)


def _arguments_error(module: Module, args: Args, kwargs: Kwargs) -> TypeError:
    given = f"the keyword '{next(iter(kwargs))}'" if kwargs else f"{len(args)} positional"
    return TypeError(
        f"{type(module).__name__} passed {given} argument(s) to Module.__init__(), which takes "
        "none; set call_super_init = True to pass them on to the next base class"
    )


def _not_initialized(module: Module, kind: str, name: str) -> AttributeError:
    return AttributeError(
        f"cannot register the {kind} '{name}' before Module.__init__(): call "
        f"super().__init__() at the start of {type(module).__name__}.__init__"
    )


def _require_none(kind: str, cls: str, name: str, value: object) -> None:
    if value is not None:
        raise TypeError(
            f"cannot assign a {type(value).__name__} to the {kind} '{name}': a {cls} or None is "
            "needed; delete the attribute first to give the name another meaning"
        )


def _is_tensor_like(value: object) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def _takes_persistent(module: Module) -> bool:
    return "persistent" in inspect.signature(module.register_buffer).parameters


def _shown(module: Module, attribute: str | tuple[str, object]) -> str:
    """The text in `Module.extra_repr` of an attribute listed in `Module._repr_attributes`."""
    text = attribute if isinstance(attribute, str) else attribute[0]
    name = text.removesuffix("!r").removesuffix("?").removeprefix("*")
    value = getattr(module, name)
    if "?" in text:
        value = value is not None
    shown = repr(value) if text.endswith("!r") else f"{value}"
    return shown if text[0] == "*" else f"{name}={shown}"
