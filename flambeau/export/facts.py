"""Names, shapes, dtypes and structures of a program, as the header of its file."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.export import structure
from flambeau.export.dims import Bounds
from flambeau.export.structure import Structure

#: The version of the header.
VERSION = 1
#: The platforms that programs can be for.
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


class Entry(NamedTuple):
    """An input or a result.

    Attributes:
        name: Its path, such as ``x`` or ``state[0]``.
        dtype: NumPy's name of its dtype.
        shape: Numbers, names of open sizes and, in results, expressions of them.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class Facts(NamedTuple):
    """All that a program knows of itself besides its code and its state.

    Attributes:
        name: The name of the model's class, or of the function.
        parameters: The names of the parameters, the program's first inputs.
        buffers: The names of the buffers, the next inputs.
        tied: Further names of a parameter or buffer, with its first name.
        inputs: The tensors in the arguments, the last inputs.
        outputs: The tensors in the result.
        positional: The names of the arguments given by position.
        arguments: The structure of ``(args, kwargs)``.
        result: The structure of the result.
        bounds: The bounds of the open sizes.
        platforms: Where it runs: ``cpu``, ``cuda``, ``rocm``, ``tpu``.
    """

    name: str
    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    tied: dict[str, str]
    inputs: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    positional: tuple[str, ...]
    arguments: Structure
    result: Structure
    bounds: dict[str, Bounds]
    platforms: tuple[str, ...]

    @property
    def state(self) -> tuple[str, ...]:
        """The names of the parameters and then of the buffers, each tensor once."""
        return *self.parameters, *self.buffers

    def to_json(self) -> dict[str, Any]:
        """The facts as data of JSON."""
        return {"version": VERSION, **self._asdict()}

    @classmethod
    def from_json(cls, given: dict[str, Any], depth: int) -> Facts:
        """The facts in a header of this version.

        Raises:
            ValueError: They are malformed.
        """
        if {*given} != {"version", *cls._fields}:
            raise ValueError(f"its header has the entries {[*given]!r:.200}")
        names = {each: _texts(given[each]) for each in ("parameters", "buffers", "positional")}
        names["platforms"] = _texts(given["platforms"])
        if not names["platforms"] or not {*names["platforms"]} <= {*PLATFORMS}:
            raise ValueError(f"there are no platforms {given['platforms']!r:.80}")
        entries = {each: _entries(given[each]) for each in ("inputs", "outputs")}
        for each, of in (("arguments", "inputs"), ("result", "outputs")):
            structure.check(given[each], len(entries[of]), depth)
        tied, bounds = given["tied"], given["bounds"]
        if type(given["name"]) is not str or type(tied) is not dict or type(bounds) is not dict:
            raise ValueError("its header has entries of other types")
        _texts(list(tied.values()))
        sides = [next(iter(each), None) for each in _parts_of(given["arguments"])]
        if sides != ["tuple", "dict"] or len(names["positional"]) != len(
            given["arguments"]["tuple"][0]["tuple"]
        ):
            raise ValueError("its arguments are no tuple and dict")
        found = {each: _bounds(limits) for each, limits in bounds.items()}
        named = {size for each in entries["inputs"] for size in each.shape if type(size) is str}
        if named != {*found}:
            raise ValueError(f"the open sizes {sorted(named)!r:.200} have no bounds")
        if sizes := [n for e in entries["inputs"] for n in e.shape if type(n) is int and n < 0]:
            raise ValueError(f"the sizes {sizes!r:.200} are negative")
        return cls(**{**given_without_version(given), **names, **entries, "bounds": found})


def given_without_version(given: dict[str, Any]) -> dict[str, Any]:
    """A header without its version."""
    return {name: each for name, each in given.items() if name != "version"}


def _parts_of(arguments: Structure) -> list[Structure]:
    return arguments.get("tuple", [])


def _texts(given: Any) -> tuple[str, ...]:
    if type(given) is not list or not all(type(each) is str for each in given):
        raise ValueError(f"{given!r:.80} is no list of names")
    return tuple(given)


def _entries(given: Any) -> tuple[Entry, ...]:
    if type(given) is not list:
        raise ValueError(f"{given!r:.80} is no list of inputs or outputs")
    found = []
    for each in given:
        name, dtype, shape = each
        _texts([name, dtype])
        if type(shape) is not list or not all(type(size) in (int, str) for size in shape):
            raise ValueError(f"{shape!r:.80} is no shape")
        found.append(Entry(name, dtype, tuple(shape)))
    return tuple(found)


def _bounds(given: Any) -> Bounds:
    least, most = given
    if type(least) is not int or type(most) is not int:
        raise ValueError(f"{given!r:.80} are no bounds of a size")
    return Bounds(least, most)
