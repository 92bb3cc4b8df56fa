"""Finding the members of a tree of modules: by traversal, and by dotted path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from flambeau.core.values.tensor import Tensor
from flambeau.nn.parameter import Parameter
from flambeau.nn.registry import Member, ModuleState


class Traversal(ModuleState):
    """The part of `Module` that walks its tree: parents first, shared members only once."""

    def children(self) -> Iterator[Any]:
        """The modules registered directly in this one, each once."""
        if not self._modules and type(self).named_children is Traversal.named_children:
            return iter(())
        return (module for _, module in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules registered directly in this one, each once, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all modules below it; see `named_modules`."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self,
        memo: set[Any] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """This module and every module below it, with their dotted paths.

        Args:
            memo: Modules to skip; visited modules are added to it.
            prefix: The path of this module.
            remove_duplicate: Yield a module that is registered in several places only once.

        >>> from flambeau import nn
        >>> model = nn.Sequential(nn.Sequential(nn.Identity()), nn.Identity())
        >>> [path for path, _ in model.named_modules()]
        ['', '0', '0.0', '1']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        ordinary = Traversal.named_modules
        # One generator with its own stack: nested generators would pass every module up through all
        # of its ancestors.
        stack = [(_dotted(prefix), iter(self._modules.items()))]
        while stack:
            path, remaining = stack[-1]
            for name, module in remaining:
                if module is None:
                    continue
                if type(module).named_modules is not ordinary:
                    yield from module.named_modules(memo, path + name, remove_duplicate)
                elif module not in memo:
                    if remove_duplicate:
                        memo.add(module)
                    yield path + name, module
                    if module._modules:
                        stack.append((f"{path}{name}.", iter(module._modules.items())))
                        break
            else:
                stack.pop()

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, with ``recurse``, of every module below it."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their dotted paths.

        Args:
            prefix: The path of this module.
            recurse: Include the parameters of submodules.
            remove_duplicate: Yield a parameter that is registered in several places only once,
                under its first path.
        """
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, with ``recurse``, of every module below it."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their dotted paths; arguments as for `named_parameters`."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Member]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Member]]:
        """The members that ``get_members_fn`` returns for each module of the tree."""
        seen: set[object] = set()
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = iter([(prefix, self)])
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def apply(self, fn: Callable[[Any], object]) -> Self:
        """Call ``fn`` with every module of the tree, children before parents; return self.

        >>> from flambeau import nn
        >>> model = nn.Sequential(nn.Identity()).apply(lambda module: print(type(module).__name__))
        Identity
        Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def get_submodule(self, target: str) -> Any:
        """The module at the dotted path ``target``; the empty path is this module.

        Raises:
            AttributeError: A part of the path does not exist or is not a module.
        """
        module = self
        for name in () if target == "" else target.split("."):
            module = _member(module, name, target)
            # Traversal is a base of Module only.
            if not isinstance(module, Traversal):
                raise AttributeError(
                    f"'{name}' in the path '{target}' is not a module but a {type(module).__name__}"
                )
        return module

    def set_submodule(self, target: str, module: Traversal, strict: bool = False) -> None:
        """Put ``module`` at the dotted path ``target``.

        Args:
            target: The path; every part except the last must exist.
            module: The new module.
            strict: The last part must exist too; otherwise it may be a new name.

        Raises:
            ValueError: ``target`` is empty, or ``module`` is not a module.
            AttributeError: The path does not exist, or leads to something that is not a module.
        """
        if target == "":
            raise ValueError("set_submodule needs a path; a module cannot replace itself")
        if not isinstance(module, Traversal):
            raise ValueError(f"set_submodule needs a module, but got a {type(module).__name__}")
        parent_path, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_path)
        if strict or hasattr(parent, name):
            current = _member(parent, name, target)
            if not isinstance(current, Traversal):
                raise AttributeError(
                    f"'{target}' is not a module but a {type(current).__name__}; "
                    "set_submodule only replaces modules"
                )
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the dotted path ``target``.

        Raises:
            AttributeError: The path does not exist or does not lead to a parameter.
        """
        module_path, _, name = target.rpartition(".")
        parameter = _member(self.get_submodule(module_path), name, target)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"'{target}' is not a parameter but a {type(parameter).__name__}")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the dotted path ``target``.

        Raises:
            AttributeError: The path does not exist or does not lead to a buffer.
        """
        module_path, _, name = target.rpartition(".")
        module = self.get_submodule(module_path)
        buffer = _member(module, name, target)
        if name not in module._buffers:
            raise AttributeError(f"'{target}' is not a buffer but a {type(buffer).__name__}")
        return buffer


def _dotted(path: str) -> str:
    return f"{path}." if path else ""


def _member(module: Traversal, name: str, target: str) -> Any:
    """The attribute ``name`` of ``module``, part of the path ``target``."""
    if not hasattr(module, name):
        raise AttributeError(
            f"{type(module).__name__} has no attribute '{name}' (looked up for the path '{target}')"
        )
    return getattr(module, name)
