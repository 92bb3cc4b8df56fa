"""Messages between processes outside of XLA's programs.

JAX's coordination service, which runs in the first process, stores small values by key and has
barriers. Processes use it to exchange objects, and to announce the programs that they are about to
run, so that a mismatch is an error instead of a deadlock.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.support.jax_private import coordination_client
from flambeau.distributed.errors import DistBackendError, DistStoreError

__all__: list[str] = []

#: The bytes of a value in one message; JAX's service refuses much larger ones.
_PIECE = 1 << 20
#: The number of pieces has fewer digits.
_DIGITS = 10
_REFUSED = "refused"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.2


class Store:
    """A client of the coordination service.

    Args:
        rank: The rank of this process.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._client = coordination_client()
        if self._client is None:
            raise DistStoreError(
                "this version of JAX does not show its coordination service; use JAX 0.10 to 0.12"
            )

    def is_connected(self) -> bool:
        """Whether the service for which this store was created still exists."""
        return coordination_client() is self._client

    def put(self, key: str, value: bytes) -> None:
        """Store a value, of any length, under a new key."""
        starts = range(0, len(value), _PIECE)
        for number, start in enumerate(starts):
            self._client.key_value_set_bytes(f"{key}/{number}", value[start : start + _PIECE])
        self._client.key_value_set_bytes(f"{key}/count", str(len(starts)).encode())

    def get(self, key: str, seconds: float, most: int | None = None) -> bytes:
        """The value stored under a key; waits until there is one.

        Args:
            key: The key.
            seconds: The time to wait.
            most: The maximum size of the value in bytes.

        Raises:
            TimeoutError: There is no value within the timeout.
            DistBackendError: The stored value was not written by `put`, or is longer.
        """
        end = time.monotonic() + seconds
        said = self.wait_for(f"{key}/count", seconds)
        count = int(said) if said.isdigit() and len(said) < _DIGITS else -1
        found = bytearray()
        for number in range(count):
            found += self.wait_for(f"{key}/{number}", max(0.0, end - time.monotonic()))
            if most is not None and len(found) > most:
                break
        if count < 0 or (most is not None and len(found) > most):
            raise DistBackendError(
                f"the value of {key!r} is not in the format of this store, or has more than "
                f"{most} bytes"
            )
        return bytes(found)

    def has(self, key: str) -> bool:
        """Whether a value is stored under a key at present."""
        try:
            self._client.key_value_try_get_bytes(key)
        except Exception as error:
            if "NOT_FOUND" in str(error):
                return False
            raise DistStoreError(_without_details(error)) from error
        return True

    def wait_for(self, key: str, seconds: float) -> bytes:
        """The short value that `set` stored under a key; waits until there is one.

        Raises:
            TimeoutError: There is no value within the timeout.
        """
        try:
            return self._client.blocking_key_value_get_bytes(key, _milliseconds(seconds))
        except Exception as error:
            if "DEADLINE_EXCEEDED" in str(error):
                raise TimeoutError(key) from None
            raise DistStoreError(_without_details(error)) from error

    def all_of(self, prefix: str) -> dict[str, bytes]:
        """The short values stored under keys with a prefix, at present."""
        return {
            key.removeprefix(prefix): bytes(value)
            for key, value in self._client.key_value_dir_get_bytes(prefix)
        }

    def set(self, key: str, value: bytes) -> None:
        """Store a short value under a key, replacing another."""
        self._client.key_value_set_bytes(key, value, allow_overwrite=True)

    def delete(self, key: str) -> None:
        """Delete the value of a key."""
        self._client.key_value_delete(key)

    def barrier(self, name: str, ranks: Sequence[int], seconds: float, call: str) -> None:
        """Wait until all of ``ranks`` have arrived.

        Raises:
            DistBackendError: A process does not arrive in time, or has ended.
        """
        try:
            self._client.wait_at_barrier(name, _milliseconds(seconds), [*ranks])
        except Exception as error:  # noqa: BLE001 - JAX has one type of error for all of them.
            reason = f"within {seconds:g} s" if "DEADLINE_EXCEEDED" in str(error) else "any more"
            raise DistBackendError(
                f"{call}: not all of the processes {[*ranks]} come {reason}; each has to call the "
                f"same collectives in the same order. {_without_details(error)}"
            ) from None


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _without_details(error: Exception) -> str:
    """JAX's message without the name of its remote procedure."""
    return str(error).partition("\nRPC:")[0]


class Channel:
    """Exchanges among some processes; all of them take part in each exchange, in order.

    Args:
        store: The store of the values.
        name: Distinguishes the channel from all others.
        ranks: The ranks of the processes.
        seconds: The time that a process waits for the others.
    """

    def __init__(self, store: Store, name: str, ranks: Sequence[int], seconds: float) -> None:
        self.store = store
        self.name = name
        self.ranks: tuple[int, ...] = tuple(ranks)
        self.seconds = seconds
        self.calls: int = 0

    def exchange(self, mine: bytes, call: str, seconds: float | None = None) -> list[bytes]:
        """The value of each process, in the order of `ranks`.

        Args:
            mine: The bytes of this process.
            call: The name of the operation, which must be the same in all processes.
            seconds: The time to wait for the others; by default that of the channel.

        Raises:
            DistBackendError: A process calls another operation, or does not arrive.
        """
        self.calls += 1
        key, me = f"{self.name}/{self.calls}", self.store.rank
        limit = self.seconds if seconds is None else seconds
        self.store.put(f"{key}/{me}", call.encode() + b"\0" + mine)
        self.store.barrier(key, self.ranks, limit, call)
        found = [self.store.get(f"{key}/{rank}", limit).partition(b"\0") for rank in self.ranks]
        if self.calls > 1:
            # All processes have arrived, so all have read the earlier values.
            self.store.delete(f"{self.name}/{self.calls - 1}/{me}")
        called = [name.decode() for name, _, _ in found]
        if len({*called}) > 1:
            pairs = zip(self.ranks, called, strict=True)
            said = "; ".join(f"process {rank} calls {name}" for rank, name in pairs)
            raise DistBackendError(
                f"processes disagree: {said}. Collectives need the same call, with tensors of the "
                "same shape and dtype, in every process"
            )
        return [given for _, _, given in found]


class Programs:
    """Ensures that all processes are about to run the same program.

    A process that compiles a program announces it, and waits until all others have announced the
    same program, now or earlier: processes may differ in the programs that they still have in
    memory.

    Args:
        store: The store of the values.
        world: The number of processes.
        seconds: The time that a process waits for the others.
    """

    def __init__(self, store: Store, world: int, seconds: float) -> None:
        self.store = store
        self.world = world
        self.seconds = seconds
        self._said: set[str] = set()

    def agree(self, name: str, text: str, given: list[tuple[str, bytes]]) -> None:
        """Wait until all processes have reached a program.

        Args:
            name: The name of the program in messages.
            text: The text of its computation.
            given: For each argument that each process has on one device, its shape and elements,
                which must be equal in all processes.

        Raises:
            DistBackendError: Another process waits at another program, one does not arrive, or
                elements differ.
        """
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        if digest in self._said:
            return
        me = self.store.rank
        mine = [(shape, hashlib.blake2b(each, digest_size=8).hexdigest()) for shape, each in given]
        self.store.set(f"programs/{digest}/{me}", json.dumps(mine).encode())
        self._said.add(digest)
        self.store.set(f"waiting/{me}", f"{digest} {name}".encode())
        missing = _waited_for(lambda: self._missing(digest, name), self.seconds)
        if missing:
            raise DistBackendError(
                f"the processes {missing} have not come to the program {name!r} within "
                f"{self.seconds:g} s; each has to run the same operators on tensors that lie on "
                "devices of several processes"
            )
        self._check_given(digest, name, mine)

    def _check_given(self, digest: str, name: str, mine: list[tuple[str, str]]) -> None:
        for rank, said in self.store.all_of(f"programs/{digest}/").items():
            if rank == _REFUSED:
                continue
            for number, (shape, its) in enumerate(json.loads(said)):
                if its != mine[number][1]:
                    raise DistBackendError(
                        f"{name!r} gets a tensor on one device, {shape}, beside tensors on devices "
                        f"of several processes; its elements have to be the same in all processes, "
                        f"but process {rank} has others than process {self.store.rank}. Batches of "
                        "each process become one by distributed.global_batches(loader, mesh); and "
                        "every process needs the same manual_seed"
                    )

    def _missing(self, digest: str, name: str) -> list[int]:
        missing = self._not_here(digest, name)
        if not missing:
            return []
        waiting = self.store.all_of("waiting/")
        # A process that has just arrived may already wait at the next program.
        for rank in self._not_here(digest, name):
            other, _, its = waiting.get(str(rank), b"").decode().partition(" ")
            # It continues when this process, which is waiting here, announces the same.
            if other and other not in self._said:
                # This process stops waiting, and the other would wait in vain.
                me = self.store.rank
                self.store.set(f"waiting/{me}", b"")
                self.store.set(f"programs/{other}/{_REFUSED}", f"{me} {name}".encode())
                raise _different(rank, its, me, name)
        return missing

    def _not_here(self, digest: str, name: str) -> list[int]:
        """The processes that have not reached a program yet."""
        here, me = self.store.all_of(f"programs/{digest}/"), self.store.rank
        if _REFUSED in here:
            rank, _, its = here[_REFUSED].decode().partition(" ")
            self.store.delete(f"programs/{digest}/{_REFUSED}")
            self.store.set(f"waiting/{me}", b"")
            raise _different(int(rank), its, me, name)
        return [rank for rank in range(self.world) if str(rank) not in here]


def _different(rank: int, its: str, own_rank: int, own: str) -> DistBackendError:
    return DistBackendError(
        f"process {rank} runs another program: {its!r}, where process {own_rank} runs {own!r}; "
        "every process has to run the same operators, on tensors of the same shapes, in the same "
        "order"
    )


def _waited_for(missing: Callable[[], Any], seconds: float) -> Any:
    """Poll until nothing is missing, or the time is over."""
    end, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while found := missing():
        if time.monotonic() > end:
            return found
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return None
