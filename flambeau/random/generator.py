"""Random number generators: seeds, states and streams.

A generator has two streams. On the CPU, outside compiled programs, a Mersenne Twister gives
PyTorch's numbers. In compiled programs and on other devices each draw uses a key of a
counter-based generator (`keyed.py`); the key is in a Cell, so that it is an input and output of
compiled programs.
"""

from __future__ import annotations

import functools
import secrets
import threading
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.devices.device import CPU, as_device, device
from flambeau.core.support import naming
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import outside
from flambeau.core.values.upload import upload
from flambeau.random.keyed import number_of, words_of
from flambeau.random.mersenne import DEFAULT_SEED, MersenneTwister

# Eight bytes of PyTorch's CPU state that it writes as zero and never reads.
_SPARE = slice(5016, 5024)
_WORD = 2**64


def bookmark(generator: Generator) -> Callable[[Generator], None] | None:
    """The draws that this generator has planned on the meta device, for a copy to continue from.

    `replay` replaces this function by its own.
    """
    return None


class Generator:
    """A random number generator with its own state.

    On the CPU and outside compiled programs its numbers equal those of PyTorch's generator.

    Args:
        device: The device whose tensors it fills.

    Raises:
        RuntimeError: The device does not exist on this machine, or is ``meta``.

    >>> import flambeau
    >>> generator = flambeau.Generator().manual_seed(0)
    >>> flambeau.rand(2, generator=generator)
    tensor([0.4963, 0.7682])
    """

    lock: Any
    twister_moves: int

    def __init__(self, device: Any = "cpu") -> None:
        self._device = as_device(device)
        if self._device.type == "meta":
            raise RuntimeError("nothing is drawn on the meta device, so it has no generator")
        #: Whether its numbers outside of compiled programs are the twister's.
        self.is_for_cpu: bool = self._device.type == "cpu"
        if not self.is_for_cpu:
            _ = self._device.jax_device  # raises if there is no such device
        #: Guards the streams; held during each draw.
        self.lock = threading.RLock()
        #: The number of changes of the CPU stream's state.
        self.twister_moves = 0
        #: The CPU stream.
        self.twister = MersenneTwister(DEFAULT_SEED)
        self._key_cell: Cell | None = None
        if modes.trace is not None:
            # The generator is created in each run of the program.
            modes.trace.write(self._key, jnp.asarray(_words(_first_key(DEFAULT_SEED))))

    @property
    def _key(self) -> Cell:
        # Created on first use: importing the library must not initialize JAX's devices.
        if self._key_cell is None:
            with outside():
                words = _words(_first_key(self.twister.initial_seed))
                self._key_cell = Cell(upload(words, self._device.jax_device))
        return self._key_cell

    @property
    def moves(self) -> int:
        """The number of changes of the streams' states."""
        return self.twister_moves + (0 if self._key_cell is None else self._key_cell.version)

    @property
    def device(self) -> device:
        """The device of the generator."""
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Set the seed and return this generator.

        In a compiled function, this applies to the program's own draws, which are seeded in each
        call.

        Args:
            seed: From -2**63 to 2**64 - 1; a negative one means ``seed + 2**64``.

        Raises:
            ValueError: The seed does not fit in 64 bits.
            RuntimeError: The seed is not an integer.
        """
        if not hasattr(seed, "__index__"):
            kind = type(seed).__name__
            raise RuntimeError(f"manual_seed(): the seed must be an int, got {kind}: {seed!r:.80}")
        with self.lock:
            self.twister_moves += 1
            if modes.trace is None:
                self.twister.seed(seed)
            self._set_key(_first_key(MersenneTwister(seed).initial_seed))
        return self

    def seed(self) -> int:
        """Set a random seed and return it."""
        seed = secrets.randbits(53)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The most recent seed."""
        return self.twister.initial_seed

    # The state

    def get_state(self) -> Tensor:
        """The state of the generator, as a tensor of bytes on the CPU.

        On the CPU these are the 5056 bytes that `torch.get_rng_state` gives for the same history,
        on other devices 16 bytes; in a compiled function the 8 bytes of the key.
        """
        if modes.trace is not None:
            return Tensor._wrap(lax.bitcast_convert_type(self.key, jnp.uint8).reshape(8))
        with self.lock:
            advanced = (_as_integer(self._key.array) - _first_key(self.initial_seed())) % _WORD
            if self._device.type == "cpu":
                state = bytearray(self.twister.get_state())
                state[_SPARE] = advanced.to_bytes(8, "little")
            else:
                numbers = (self.initial_seed(), advanced)
                state = b"".join(each.to_bytes(8, "little") for each in numbers)
        result = Tensor._wrap(upload(np.frombuffer(bytes(state), np.uint8), CPU.jax_device))
        go_on = bookmark(self)
        if go_on is not None:
            vars(result)["_bookmark"] = go_on
        return result

    def set_state(self, new_state: Tensor) -> Generator:
        """Restore a state from `get_state`, and return this generator.

        On the CPU the result of `torch.get_rng_state` is a valid state.

        Raises:
            TypeError: The state is not a tensor of bytes.
            RuntimeError: The state is not one of a generator on this device.
        """
        if not isinstance(new_state, Tensor) or new_state.dtype.name != "uint8":
            found = new_state.dtype if isinstance(new_state, Tensor) else type(new_state).__name__
            raise TypeError(f"a generator state is a Tensor of uint8, got {found}")
        if modes.trace is not None:
            self._set_state_in_trace(new_state)
            return self
        state = new_state._host_array().tobytes()
        with self.lock:
            self.twister_moves += 1
            if self._device.type == "cpu":
                self.twister.set_state(state)
                advanced = state[_SPARE]
            elif len(state) == 16:
                self.twister.seed(int.from_bytes(state[:8], "little"))
                advanced = state[8:]
            else:
                raise RuntimeError(
                    f"the state of a generator on {self._device} has 16 bytes, got {len(state)}"
                )
            self._set_key(_first_key(self.initial_seed()) + int.from_bytes(advanced, "little"))
        go_on = vars(new_state).get("_bookmark")
        if go_on is not None:
            go_on(self)
        return self

    def _set_state_in_trace(self, state: Tensor) -> None:
        if state.numel() != 8:
            raise RuntimeError(
                "in a compiled function a generator takes only a state that get_state() gave in "
                f"the same function, which has 8 bytes; this one has {state.numel()}"
            )
        words = lax.bitcast_convert_type(state._read().reshape(2, 4), jnp.uint32)
        modes.trace.write(self._key, words)

    def clone_state(self) -> Generator:
        """A new generator with the same state."""
        return Generator(self._device).set_state(self.get_state())

    def __reduce__(self) -> tuple[Any, ...]:
        return Generator, (self._device,), (self.initial_seed(), None, self.get_state())

    def __setstate__(self, state: tuple[int, int | None, Tensor]) -> None:
        seed, _, whole = state
        self.manual_seed(seed)
        self.set_state(whole)

    def __repr__(self) -> str:
        return f"<{naming.package}.Generator device={self._device} seed={self.initial_seed()}>"

    def save(self) -> tuple[MersenneTwister, Any, Any]:
        """The internal state for `restore`; in a compiled function, its traced value."""
        with self.lock:
            return self.twister.copy(), self.key, bookmark(self)

    def restore(self, saved: tuple[MersenneTwister, Any, Any]) -> None:
        """Restore the result of `save`."""
        twister, key, go_on = saved
        with self.lock:
            self.twister_moves += 1
            self.twister: MersenneTwister = twister.copy()
            self.put_key(key)
        if go_on is not None:
            go_on(self)

    # The key: 64 bits, the upper half first

    @property
    def key(self) -> Any:
        """The two 32-bit words of the next draw's JAX key."""
        trace = modes.trace
        return self._key.array if trace is None else trace.read(self._key)

    def take_key(self) -> Any:
        """Return the key for one draw and advance to the next key."""
        key = self.key
        self.put_key(next_key(key))
        return key

    def put_key(self, key: Any) -> None:
        """Set the next draw's key."""
        if modes.trace is None:
            self._key.write(key)
        else:
            modes.trace.write(self._key, key)

    def _set_key(self, key: int) -> None:
        if (
            self._key_cell is None
            and modes.trace is None
            and key == _first_key(self.initial_seed())
        ):
            return
        words = _words(key)
        uploaded = modes.trace is None
        self.put_key(upload(words, self._device.jax_device) if uploaded else jnp.asarray(words))


def next_key(key: Any) -> Any:
    """The next key, which is one more: adjacent keys give unrelated numbers.

    The barrier keeps XLA from computing it from all keys before it in each draw. Draws of one shape
    then have equal kernels, which XLA compiles once.
    """
    return lax.optimization_barrier(words_of(number_of(key) + np.uint64(1)))


def _first_key(seed: int) -> int:
    """The key of the first draw after ``seed``.

    Seeds are often consecutive, and a draw uses the next key, so seeds are hashed first (the
    finalizer of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
    2014).
    """
    mixed = (seed + 0x9E3779B97F4A7C15) % _WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % _WORD
    return mixed ^ mixed >> 31


def _words(key: int) -> np.ndarray:
    return np.array([key % _WORD >> 32, key % 2**32], np.uint32)


def _as_integer(words: Any) -> int:
    high, low = np.asarray(words).tolist()
    return high << 32 | low


#: The default generator of draws on the CPU.
default_generator: Generator = Generator()

_seed_of_all = DEFAULT_SEED


@functools.cache
def _default_of(type: str, index: int) -> Generator:
    if type == "cpu" and index == 0:
        return default_generator
    with outside():
        result = Generator(f"{type}:{index}").manual_seed(_seed_of_all)
    _defaults.append(result)
    return result


_defaults = [default_generator]


def generator_for(where: device, given: Any = None) -> Generator:
    """The generator of a draw on a device: the one ``given``, or the device's default.

    Raises:
        TypeError: ``given`` is not a generator.
        RuntimeError: ``given`` is for another device.
    """
    if given is None:
        if where.type == "cpu" and modes.trace is None:
            return (
                default_generator  # however many CPUs there are, the numbers come from one stream
            )
        return _default_of(where.type, where.index or 0)
    if not isinstance(given, Generator):
        raise TypeError(f"generator must be a Generator, got {type(given).__name__}")
    if given.device.type != where.type:
        raise RuntimeError(
            f"a draw on {where} needs a generator for {where.type}, this one is for {given.device}"
        )
    return given


def default_generators() -> tuple[Generator, ...]:
    """The default generators of all devices with draws, the CPU's first.

    In a compiled function only that of the program's device.
    """
    if modes.trace is not None:
        return (generator_for(modes.trace.place()),)
    return tuple(_defaults)


def seed_all(seed: int) -> None:
    """Seed the default generators of all devices."""
    global _seed_of_all
    for each in default_generators():
        each.manual_seed(seed)
    if modes.trace is None:
        _seed_of_all = seed


def current_seed() -> int:
    """The seed of default generators that are created later."""
    return _seed_of_all


def moves_of_all() -> int:
    """The number of changes of the default generators' states."""
    return sum(each.moves for each in _defaults)
