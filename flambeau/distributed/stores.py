"""Stores: values by key that processes share, before or next to a process group."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from flambeau.distributed.errors import DistStoreError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.2


Values: TypeAlias = dict[str, bytes]


def _set(values: Values, keys: Sequence[str], value: bytes) -> None:
    values[keys[0]] = value


def _read(values: Values, keys: Sequence[str]) -> bytes | None:
    return values.get(keys[0])


def _add(values: Values, keys: Sequence[str], amount: int) -> int:
    known = values.get(keys[0], b"0")
    try:
        total = int(known) + amount
        values[keys[0]] = str(total).encode()
    except ValueError:
        raise DistStoreError(
            f"add() to the key {keys[0]!r}, whose value is no number: {known!r:.80}"
        ) from None
    return total


def _append(values: Values, keys: Sequence[str], value: bytes) -> None:
    values[keys[0]] = values.get(keys[0], b"") + value


def _compare_set(values: Values, keys: Sequence[str], expected: bytes, desired: bytes) -> bytes:
    if values.get(keys[0], b"") == expected:
        values[keys[0]] = desired
    return values.get(keys[0], expected)


def _check(values: Values, keys: Sequence[str]) -> bool:
    return all(key in values for key in keys)


def _delete(values: Values, keys: Sequence[str]) -> bool:
    return values.pop(keys[0], None) is not None


def _count(values: Values, keys: Sequence[str]) -> int:
    return sum(key.startswith(keys[0]) for key in values)


#: The operations of a store: functions of its values, of keys and of further arguments.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "set": _set,
    "read": _read,
    "add": _add,
    "append": _append,
    "compare_set": _compare_set,
    "check": _check,
    "delete": _delete,
    "count": _count,
}


class Store:
    """Values by key, which all processes with access to the store read and write.

    A value is text or bytes, and is read as bytes. `HashStore`, `FileStore`, `TCPStore` and
    `PrefixStore` differ in the location of the values.
    """

    def __init__(self) -> None:
        self._timeout = dt.timedelta(seconds=300)

    def _do(
        self, name: str, keys: Sequence[str], *arguments: Any, seconds: float | None = None
    ) -> Any:
        """The result of one of `OPERATIONS`, executed atomically.

        Args:
            name: The operation.
            keys: The keys of the operation.
            *arguments: The further arguments.
            seconds: The maximum time; by default the timeout.
        """
        with self._values() as values:
            return OPERATIONS[name](values, keys, *arguments)

    @contextlib.contextmanager
    def _values(self) -> Iterator[Values]:
        """A block with exclusive access to all values; its changes are stored."""
        raise NotImplementedError(
            f"{type(self).__name__} keeps no values: use HashStore, FileStore or TCPStore"
        )
        yield

    def set(self, key: str, value: str | bytes) -> None:
        """Store a value under a key, replacing another."""
        self._do("set", [key], _bytes(value))

    def get(self, key: str) -> bytes:
        """The value under a key; waits until there is one.

        Raises:
            DistStoreError: There is no value within the timeout.
        """
        return self._waited_for("read", [key], self._timeout)

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key, initially 0, and return the sum.

        Raises:
            DistStoreError: The value under the key is not a number.
        """
        return self._do("add", [key], int(amount))

    def append(self, key: str, value: str | bytes) -> None:
        """Append to the value under a key."""
        self._do("append", [key], _bytes(value))

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Replace the value under a key if it equals the expected one, or both are missing.

        Returns:
            The value afterwards; the expected value if there is none.
        """
        return self._do("compare_set", [key], _bytes(expected_value), _bytes(desired_value))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether there is a value under each key at present."""
        return self._do("check", [*keys])

    def wait(self, keys: Sequence[str], timeout: dt.timedelta | None = None) -> None:
        """Wait until there is a value under each key.

        Raises:
            DistStoreError: A value is missing after the timeout, by default the store's.
        """
        self._waited_for("check", [*keys], self._timeout if timeout is None else timeout)

    def _waited_for(self, name: str, keys: Sequence[str], timeout: dt.timedelta) -> Any:
        """The result of an operation, as soon as there is one."""
        seconds = timeout.total_seconds()
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE
        left = seconds
        while (found := self._do(name, keys, seconds=left)) in (None, False):
            left = end - time.monotonic()
            if left <= 0:
                missing = [key for key in keys if not self._do("check", [key])]
                raise DistStoreError(f"wait timeout after {seconds:g} s, keys: {missing}")
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return found

    def delete_key(self, key: str) -> bool:
        """Delete the value under a key; return whether there was one."""
        return self._do("delete", [key])

    def num_keys(self) -> int:
        """The number of values."""
        return self._do("count", [""])

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """`get` of each key."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """`set` of each key.

        Raises:
            ValueError: The numbers of keys and values differ.
        """
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """``True``: there are `append`, `multi_get` and `multi_set`."""
        return True

    def set_timeout(self, timeout: dt.timedelta) -> None:
        """Set how long `get` and `wait` wait; 5 minutes by default."""
        self._timeout = timeout

    @property
    def timeout(self) -> dt.timedelta:
        """The time for which `get` and `wait` wait."""
        return self._timeout


class HashStore(Store):
    """A store in the memory of one process, for its threads.

    >>> from flambeau.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("step", "3")
    >>> store.get("step"), store.add("count", 2)
    (b'3', 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kept: dict[str, bytes] = {}

    @contextlib.contextmanager
    def _values(self) -> Iterator[Values]:
        with self._lock:
            yield self._kept


class FileStore(Store):
    """A store in a file shared by all processes.

    Args:
        file_name: The file, which is created if it is missing. It is not deleted; delete it before
            another run.
        world_size: Accepted for compatibility.

    Raises:
        OSError: The file cannot be read, written and locked.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        with self._values():
            pass

    @contextlib.contextmanager
    def _values(self) -> Iterator[Values]:
        import fcntl  # There is none on Windows.

        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = file.read().decode()
            try:
                known = json.loads(text) if text else {}
                before = {key: value.encode("latin-1") for key, value in known.items()}
            except (ValueError, AttributeError, RecursionError) as error:
                raise DistStoreError(f"{self.path!r} is not the file of a FileStore") from error
            values = dict(before)
            yield values
            if values != before:
                kept = {key: value.decode("latin-1") for key, value in values.items()}
                file.seek(0)
                file.write(json.dumps(kept).encode())
                file.truncate()


class PrefixStore(Store):
    """A part of another store: the values whose keys begin with a prefix.

    Args:
        prefix: The prefix of the keys, which is followed by a slash.
        store: The other store.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix = prefix
        self.underlying_store = store
        self._timeout = store.timeout

    def _do(
        self, name: str, keys: Sequence[str], *arguments: Any, seconds: float | None = None
    ) -> Any:
        longer = [f"{self.prefix}/{key}" for key in keys]
        return self.underlying_store._do(name, longer, *arguments, seconds=seconds)


def _bytes(value: str | bytes) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(f"a store keeps str and bytes, got {type(value).__name__}: {value!r:.80}")
    return value.encode() if isinstance(value, str) else bytes(value)
