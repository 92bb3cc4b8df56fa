"""Stores: values by key that processes share, before or beside a process group."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence

from flambeau.distributed.errors import DistStoreError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.2


class Store:
    """Values by key, which all processes that know the store read and write.

    A value is text or bytes, and is read as bytes. `HashStore`, `FileStore`, `TCPStore` and
    `PrefixStore` keep them in different places.
    """

    def __init__(self) -> None:
        self._timeout = dt.timedelta(seconds=300)

    @contextlib.contextmanager
    def _values(self, keys: Sequence[str] | None) -> Iterator[dict[str, bytes]]:
        """The values, at least those under ``keys``; ``None`` means all.

        Nobody else changes them in this block, and what the block changes is kept.
        """
        raise NotImplementedError(
            f"{type(self).__name__} keeps no values: use HashStore, FileStore or TCPStore"
        )
        yield

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value under a key, in the place of another."""
        with self._values([key]) as values:
            values[key] = _bytes(value)

    def get(self, key: str) -> bytes:
        """The value under a key; waits until there is one.

        Raises:
            DistStoreError: There is none within the timeout.
        """
        self.wait([key])
        with self._values([key]) as values:
            return values[key]

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key, which is 0 before, and give the sum."""
        with self._values([key]) as values:
            total = int(values.get(key, b"0")) + amount
            values[key] = str(total).encode()
            return total

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of the value under a key."""
        with self._values([key]) as values:
            values[key] = values.get(key, b"") + _bytes(value)

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Replace the value under a key if it is as expected, or if none is expected and there.

        Returns:
            The value afterwards; the expected value if there is none.
        """
        expected = _bytes(expected_value)
        with self._values([key]) as values:
            if values.get(key, b"") == expected:
                values[key] = _bytes(desired_value)
            return values.get(key, expected)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether there is a value under each key, now."""
        with self._values(keys) as values:
            return all(key in values for key in keys)

    def wait(self, keys: Sequence[str], timeout: dt.timedelta | None = None) -> None:
        """Wait until there is a value under each key.

        Raises:
            DistStoreError: There is not within the timeout, by default the store's.
        """
        seconds = (self._timeout if timeout is None else timeout).total_seconds()
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while not self.check(keys):
            if time.monotonic() > end:
                missing = [key for key in keys if not self.check([key])]
                raise DistStoreError(f"wait timeout after {seconds:g} s, keys: {missing}")
            time.sleep(min(pause, max(0.0, end - time.monotonic()) + 0.001))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def delete_key(self, key: str) -> bool:
        """Forget the value under a key, and say whether there was one."""
        with self._values([key]) as values:
            return values.pop(key, None) is not None

    def num_keys(self) -> int:
        """The number of values."""
        with self._values(None) as values:
            return len(values)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """`get` of each key."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """`set` of each key.

        Raises:
            ValueError: There are more keys than values, or less.
        """
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """``True``: there are `append`, `multi_get` and `multi_set`."""
        return True

    def set_timeout(self, timeout: dt.timedelta) -> None:
        """Say how long `get` and `wait` wait; 5 minutes by default."""
        self._timeout = timeout

    @property
    def timeout(self) -> dt.timedelta:
        """The time for which `get` and `wait` wait."""
        return self._timeout


class HashStore(Store):
    """A store in the memory of one process, for its threads.

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
    def _values(self, keys: Sequence[str] | None) -> Iterator[dict[str, bytes]]:
        with self._lock:
            yield self._kept


class FileStore(Store):
    """A store in a file that all processes can reach.

    Args:
        file_name: The file, which is made if there is none. It stays; delete it before another run.
        world_size: Accepted for PyTorch's sake.

    Raises:
        OSError: The file cannot be read, written and locked.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        with self._values([]):
            pass

    @contextlib.contextmanager
    def _values(self, keys: Sequence[str] | None) -> Iterator[dict[str, bytes]]:
        import fcntl  # There is none on Windows.

        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = file.read().decode()
            try:
                known = json.loads(text) if text else {}
                before = {key: value.encode("latin-1") for key, value in known.items()}
            except (ValueError, AttributeError) as error:
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
        prefix: The prefix of the keys, before a slash.
        store: The other store.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix = prefix
        self.underlying_store = store
        self._timeout = store.timeout

    @contextlib.contextmanager
    def _values(self, keys: Sequence[str] | None) -> Iterator[dict[str, bytes]]:
        start = f"{self.prefix}/"
        asked = None if keys is None else [start + key for key in keys]
        with self.underlying_store._values(asked) as values:
            inner = {
                key.removeprefix(start): value
                for key, value in values.items()
                if key.startswith(start)
            }
            before = dict(inner)
            yield inner
            for key in before.keys() - inner.keys():
                del values[start + key]
            values.update((start + key, value) for key, value in inner.items())


def _bytes(value: str | bytes) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(f"a store keeps str and bytes, got {type(value).__name__}: {value!r:.80}")
    return value.encode() if isinstance(value, str) else bytes(value)
