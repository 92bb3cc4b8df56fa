"""Functions of arrays as programs of XLA: one for each signature, bounded in number, kept on disk.

`jax.jit` keeps every program that it has ever compiled, which ends a process at Linux' limit of
memory maps, and must trace and lower a function to find its program on disk. The functions that
`compiled` gives share one cache of a bounded size, the least recently used program first out, and
look on disk under a key made from a description of the function; see `description`. A call whose
program is in memory goes the same way as one of `jax.jit`, through no Python.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from flambeau.core.devices import exhaustion, headroom, meshes, spanning
from flambeau.core.devices.compiler import cores, cpu_forms, cuda_capability
from flambeau.core.devices.device import available_devices
from flambeau.core.devices.donation import donated
from flambeau.core.devices.limits import give_back_memory, programs_at_once
from flambeau.core.devices.native import native_version
from flambeau.core.programs import ending, forks, jit_core
from flambeau.core.programs.cutting import compiled_with_barriers
from flambeau.core.programs.deferred import Deferred, computed
from flambeau.core.programs.description import IndescribableError, describe
from flambeau.core.programs.executables import Loaded, known, serialized
from flambeau.core.programs.finishing import shielded
from flambeau.core.programs.first_gear import FirstGear
from flambeau.core.programs.signatures import Place, facts_of, is_plain, place_of, text_of
from flambeau.core.programs.sources import digest_of
from flambeau.core.programs.store import Store, note_for, store
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.generations import put_aside
from flambeau.core.support.jax_private import ArrayImpl, xla_options
from flambeau.core.support.modes import modes
from flambeau.core.support.statistics import statistics
from flambeau.core.types import Args, Function, Key, Leaf, PyTreeDef, Tree

# While as many programs are made as there is room for, what was traced for them is forgotten, and
# memory given back, this often.
_CLEARINGS = 4
_found = itertools.count(1)


def compiled(
    function: Function,
    name: str | None = None,
    *,
    donate: tuple[int, ...] = (),
    options: dict[str, str | bool] | None = None,
    like: Function | None = None,
    at_once: bool = False,
) -> Function:
    """``function`` as programs of XLA, compiled when they are first called for.

    Args:
        function: A pure function of arrays, numbers and containers of them.
        name: Its name in profiles, compiler dumps and `statistics`; its own by default.
        donate: The positions of arguments whose arrays may be overwritten.
        options: XLA's options for these programs.
        like: Takes the arguments and gives those that the results lie like, where they lie on
            several devices: the structure of the results, with ``None`` for any that XLA decides.

        at_once: Whether to compile at the first call, whatever the gear; see `gears`.

    Returns:
        A function of the same arguments, all of them positional. Inside of JAX's transformations
        it is `jax.jit`'s. Where an argument lies
        on a mesh, those on one of its devices are copied to all; see `meshes.together`.
    """
    name = function.__name__ if name is None else name
    misses = _Misses(function, name, donate, options, like)
    if not (at_once or options) and jit_core.IS_KNOWN:
        misses.first_gear = FirstGear(
            name, function, misses.trace, misses.place_of_plan, misses.place_of_template,
            _forget_now_and_then,
        )  # fmt: skip
    found = jit_core.pjit(name, named(function, name), misses, _cache())
    misses.face = weakref.ref(found)
    return found


def jitted(function: Any) -> jax.stages.Wrapped:
    """The function of `compiled` under `jax.jit`, which tells its program's text and memory."""
    return function._cache_miss.traced() if jit_core.IS_KNOWN else function


def lowered(function: Any, arguments: list[Leaf]) -> jax.stages.Lowered:
    """The function of `compiled`, lowered for arguments, which may be arrays without elements."""
    arguments = meshes.together(arguments) or arguments
    with jit_core.tracing(), meshes.surroundings():
        if jit_core.IS_KNOWN:
            function = function._cache_miss._jitted(tuple(arguments))
        return function.trace(*map(_form, arguments)).lower()


def _form(argument: Leaf) -> Leaf:
    if type(argument) is not ArrayImpl:
        return argument
    aval = argument.aval
    sharding = argument.sharding if meshes.mesh_of(argument) else None
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)


def prepare(function: Any, arguments: Args) -> None:
    """Make the program of `compiled` for these arguments, for a later call.

    Args:
        function: The result of `compiled`.
        arguments: May be arrays without elements.
    """
    if jit_core.IS_KNOWN:
        function._cache_miss.prepare(arguments)


def unwatched(function: Function) -> contextlib.AbstractContextManager[None]:
    """A block that calls the function of which `compiled` made ``function``, as a part of a trace.

    The trace does not watch which functions run in it, if none of them can be the user's.
    """
    if not jit_core.IS_KNOWN:
        return contextlib.nullcontext()
    return function._cache_miss.unwatched()  # type: ignore[attr-defined]


@functools.cache
def _cache() -> Any:
    """The programs of all functions, the least recently used first out."""
    return jit_core.cache(programs_at_once())


def alive() -> int:
    """The number of programs in memory."""
    return _cache().size() + len(_watched)


#: The C++ call of a program, and `Loaded.need`.
_Call = tuple[Any, tuple[int, ...]]

# Programs that are called through Python, by function and arguments, the least recently used first.
_watched: OrderedDict[Key, _Call] = OrderedDict()


def _forget_programs() -> None:
    _cache().clear()


headroom.forget = forks.forget = _forget_programs


class _Misses:
    """The slow path of a function: arguments that it has no program for in memory.

    It is also the way of programs that are watched while they run: C++ keeps no call of them. These
    are programs over several devices where an argument must be copied first, or the devices are the
    CPU's; see `meshes.take_turns`; and programs whose memory may be refused; see `headroom`.
    """

    __slots__ = (
        "__weakref__", "_description", "_prepared", "_traced", "donate", "face", "first_gear",
        "function", "like", "name", "options",
    )  # fmt: skip

    def __init__(
        self,
        function: Function,
        name: str,
        donate: tuple[int, ...],
        options: dict[str, str | bool] | None,
        like: Function | None,
    ) -> None:
        self.function = function
        self.name = name
        self.donate = donated(donate)
        self.options = options
        self.like = like
        #: Evaluates the first calls; ``None`` if all are compiled.
        self.first_gear: FirstGear | None = None
        #: The function that calls this, while it lives.
        self.face: Callable[[], Any] = lambda: None
        # Programs that no call has asked for yet.
        self._prepared: dict[Key, _Call] = {}
        self._description: str | None = None
        self._traced: jax.stages.Wrapped | None = None

    def __call__(self, *arguments: Any) -> Any:
        """The results, and the program for the fast way if there is one."""
        if not jit_core.is_outside():
            with self.unwatched():
                return self.traced()(*arguments), None, False
        forks.check()
        try:
            return self._run(arguments)
        except exhaustion.FAILURES as error:
            raise exhaustion.named(error) from error.__cause__

    def _run(self, arguments: Args) -> Any:
        """`__call__`, outside of JAX's transformations."""
        leaves, tree = jax.tree.flatten(arguments)
        traced = found = None
        is_limited = headroom.look()
        gear = None if is_limited else self.first_gear
        # Only arrays on the one CPU have a key.
        if gear is not None and (key := gear.key(leaves, tree)) is not None:
            results, traced = gear.results(key, leaves, arguments)
            if results is not None:
                # JAX is to ask again at the next call.
                return results[0], None, True
        else:
            if any(type(each) is Deferred for each in leaves):
                arguments = tree.unflatten([*map(computed, leaves)])
                return self.face()(*arguments), None, False
            gathered = meshes.together(leaves)
            if gathered is not None:
                return self._run_watched(gathered, tree, leaves)
            if is_limited or meshes.take_turns(leaves):
                return self._run_watched(leaves, tree)
        if self._prepared:
            found = self._prepared.pop((tree, *map(facts_of, leaves)), None)
        found = found or self._call(leaves, tree, arguments, traced)
        if found is None:
            if any(map(meshes.mesh_of, leaves)):
                return self._run_watched(leaves, tree)
            return self.traced()(*arguments), None, False
        call, need = found
        if headroom.may_lack(need):
            return self._run_watched(leaves, tree, found=found)
        # Nothing has been overwritten until here, and what has been is not lost from here on.
        return (
            shielded(call._cache_miss, arguments) if self.donate else call._cache_miss(*arguments)
        )

    def prepare(self, arguments: Args) -> None:
        """Make the program for arguments before the first call."""
        leaves, tree = jax.tree.flatten(arguments)
        found = self._call(leaves, tree, arguments)
        if found is not None:
            self._prepared[tree, *map(facts_of, leaves)] = found

    def _run_watched(
        self,
        leaves: list[Leaf],
        tree: PyTreeDef,
        given: list[Leaf] | None = None,
        found: _Call | None = None,
    ) -> Any:
        """The results for arguments that C++ finds no program for, whatever it has kept.

        Args:
            leaves: The arguments.
            tree: Their structure.
            given: What they were before they were brought together.
            found: The program, if it has been looked up.
        """
        meshes.check_devices(leaves)
        arguments = tree.unflatten(leaves)
        key = (self, tree, jit_core.settings(), *map(facts_of, leaves))
        spanning_one = next(filter(spanning.spans, leaves), None)
        with meshes.surroundings():
            found = _watched.pop(key, None) or found
            if found is None and spanning_one is not None:
                found = self._compiled_by_all(arguments, given or []), ()
            elif found is None:
                found = self._call(leaves, tree, arguments) or (self._jitted(arguments), ())
            _watched[key] = found
            while len(_watched) > programs_at_once():
                _watched.popitem(last=False)
            call, need = found
            waits = headroom.may_lack(need)

            def run(*given: Tree) -> Tree:
                if spanning_one is not None:
                    processes = spanning.processes_of(spanning_one.sharding)
                    results = spanning.run(call, given, self.name, processes)
                elif waits:
                    results = headroom.carefully(call, given, need if self.donate else ())
                else:
                    results = call(*given)
                    if meshes.take_turns(leaves):
                        jax.block_until_ready(results)
                return results, None, False

            return shielded(run, arguments) if self.donate else run(*arguments)

    def _compiled_by_all(self, arguments: Args, given: list[Leaf]) -> Any:
        """The program for arguments on devices of several processes, which all compile the same."""
        with statistics.working(self.name):
            began = time.perf_counter()
            with jit_core.tracing():
                lowered = self._jitted(arguments).trace(*arguments).lower()
            if spanning.agree is not None:
                spanning.agree(self.name, lowered.as_text(), spanning.elements_given(given))
            found = lowered.compile()
            statistics.add(statistics.compiled, self.name, began)
            return jit_core.call_of(found) or found

    def _call(
        self,
        leaves: list[Leaf],
        tree: PyTreeDef,
        arguments: Args,
        traced: jax.stages.Traced | None = None,
    ) -> _Call | None:
        """The call of the program for arguments; ``None`` where JAX must look itself."""
        place = place_of(leaves)
        if place is None:
            return None
        with statistics.working(self.name):
            loaded = self._find(place, leaves, tree, arguments, traced)
            call = jit_core.call_of(loaded.program)
            return None if call is None else (call, loaded.need)

    def unwatched(self) -> contextlib.AbstractContextManager[None]:
        """A block in which a trace does not watch which functions run, if none can be the user's.

        What has a description is flambeau's code, and so is all that it reaches.
        """
        trace = modes.trace
        if trace is None or not self._described():
            return contextlib.nullcontext()
        return trace.unwatched()

    def traced(self) -> jax.stages.Wrapped:
        """The function under `jax.jit`."""
        if self._traced is None:
            self._traced = self._jitted()
        return self._traced

    def _jitted(self, arguments: Args = ()) -> jax.stages.Wrapped:
        # A function of its own each time: JAX keeps what belongs to a function while it lives.
        function = self.function
        if self.like is not None and any(map(meshes.mesh_of, jax.tree.leaves(arguments))):
            wanted = self.like(*arguments)

            def function(*given: Tree) -> Tree:
                return meshes.constrained(self.function(*given), wanted)

        return jax.jit(
            named(function, self.name),
            donate_argnums=self.donate,
            compiler_options=self.options,
        )

    def _find(
        self,
        place: Place,
        leaves: list[Leaf],
        tree: PyTreeDef,
        arguments: Args,
        traced: Any,
    ) -> Loaded:
        """The program for these arguments, traced or not: from the disk, or compiled."""
        _forget_now_and_then()
        began = time.perf_counter()
        signature = text_of(leaves, tree, place)
        headroom.claim_to_load()
        kept = store()
        found, key, lowered = None, "", None
        if kept is not None and is_plain(tree) and (description := self._described()):
            key = _key(description, signature)
            found = known(kept, key, place)
        if found is None:
            traced = traced or self.trace(arguments)
            with jit_core.tracing(), meshes.surroundings():
                lowered = traced.lower()
            # A function without a description is known by the program that it lowers to.
            if kept is not None and not key and (text := jit_core.text_of(traced, lowered)):
                key = _key(f"{text} {self.donate} {self.options}", signature)
                found = known(kept, key, place)
        if found is not None:
            statistics.add(statistics.loaded, self.name, began)
            return found
        assert lowered is not None
        ending.check()
        headroom.claim_to_compile()
        with jit_core.tracing():
            program = compiled_with_barriers(lowered, traced.jaxpr.jaxpr)
        found = Loaded(program, jit_core.need_of(program))
        statistics.add(statistics.compiled, self.name, began)
        if kept is not None and key and (program := serialized(found)) is not None:
            kept.put(key, program)
        return found

    def trace(self, arguments: Args, left_open: Function | None = None) -> jax.stages.Traced:
        """The function, traced for these arguments.

        Args:
            arguments: May be arrays without elements.
            left_open: The function to trace instead, if sizes are left open; see `any_sizes`.

        Raises:
            IndescribableError: Sizes are left open in code that may be a user's.
        """
        if left_open is not None and not self._described():
            raise IndescribableError(f"sizes in {self.name}")
        with jit_core.tracing(), meshes.surroundings(), self._inlined():
            if left_open is not None:
                return jax.jit(named(left_open, self.name)).trace(*arguments)
            return self._jitted(arguments).trace(*arguments)

    def _inlined(self) -> contextlib.AbstractContextManager[object]:
        """A context that traces functions that are jitted inside another as a part of it.

        Tracing is faster so. JAX unrolls its own loops there, so kernels use `ops.common.loops`,
        and functions that may be a user's are traced as usual.
        """
        is_evaluated = self.first_gear is not None and self._described()
        return jax.disable_jit() if is_evaluated else contextlib.nullcontext()

    def place_of_plan(self, leaves: list[Leaf], tree: PyTreeDef) -> tuple[Store, str] | None:
        """Where `FirstGear` keeps its knowledge of these arguments; ``None`` if nowhere."""
        kept = store()
        if kept is None or not is_plain(tree) or not (description := self._described()):
            return None
        return kept, _key(description, f"plan {text_of(leaves, tree, place_of(leaves))}")

    def place_of_template(
        self, function: Function, tree: PyTreeDef, text: str
    ) -> tuple[Store, str] | None:
        """Where a template of `any_sizes` is kept.

        Args:
            function: One with names in the place of sizes.
            tree: The structure of the arguments.
            text: The types of the arguments.
        """
        kept = store()
        if kept is None or not is_plain(tree):
            return None
        try:
            description = describe((self.name, function, self.like))
        except (IndescribableError, RecursionError):
            return None
        return kept, _key(description, f"template {tree} {text}")

    def _described(self) -> str:
        """The description of the function; empty if it has none."""
        if self._description is None:
            try:
                bound = self.name, self.function, self.donate, self.options, self.like
                self._description = describe(bound)
            except (IndescribableError, RecursionError):
                self._description = ""
        return self._description


def named(function: Function, name: str) -> Function:
    """``function`` under ``name``, which profiles and compiler dumps show."""

    def call(*arguments: Tree) -> Tree:
        return function(*arguments)

    call.__name__ = call.__qualname__ = name
    return call


def _forget_now_and_then() -> None:
    """Count one more signature; after many, forget what belongs to those of long ago."""
    count = next(_found)
    if count % (programs_at_once() // _CLEARINGS) == 0:
        jit_core.forget_traces()
        give_back_memory()
    if count % programs_at_once() == 0:
        # The programs of kernels that have not been used meanwhile are gone as well.
        put_aside()


def _key(description: str, signature: str) -> str:
    text = f"{_environment()} {jit_core.context()} {dtypes._default!r} {signature} {description}"
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


@functools.cache
def _environment() -> str:
    """The state of the process that programs depend on besides the function and its arguments."""
    # NumPy computes constants, opt_einsum arranges products.
    versions = [jit_core.versions(), *map(metadata.version, ("numpy", "opt_einsum"))]
    # NPROC is how many threads XLA takes.
    flags = [xla_options(), *map(os.environ.get, ("LIBTPU_INIT_ARGS", "NPROC"))]
    machine = available_devices(), cores(), cpu_forms(), cuda_capability(), native_version()
    return repr((_code(), versions, flags, machine))


def _code() -> str:
    """A digest of flambeau's files: an edited one never runs a program of the old."""
    root = str(Path(__file__).parents[2])
    return digest_of(root, None if store() is None else note_for(root))
