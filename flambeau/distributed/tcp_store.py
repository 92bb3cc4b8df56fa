"""A store in the memory of one process, which others reach through the network."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from flambeau.distributed.errors import DistNetworkError, DistStoreError
from flambeau.distributed.rendezvous import is_loopback
from flambeau.distributed.stores import HashStore, Store

__all__ = ["TCPStore"]

_PAUSE = 0.1
#: Seconds for which a client may hold the values, which nobody else reads or writes meanwhile.
_LONGEST_TURN = 30.0
_WORKERS = "init/"
#: The most bytes that one client may send at once.
_LARGEST = 1 << 28
#: The errors of a connection that ends, and of one that sends other data.
_OF_STRANGERS = (EOFError, OSError, ValueError, TypeError, AttributeError)


class TCPStore(Store):
    """A store that one process keeps and others reach by its address.

    Whoever reaches the port may read and write. The server listens on the loopback alone where the
    address is there.

    Args:
        host_name: The machine of the process that keeps the values.
        port: Its port; 0 lets that process choose one, which `port` then says.
        world_size: How many processes use the store.
        is_master: Whether this process keeps the values.
        timeout: How long this process waits for the server, for the other processes and for values.
        wait_for_workers: Whether the process that keeps the values waits for the others.
        multi_tenant: Accepted for PyTorch's sake, like the next two.
        master_listen_fd: See above.
        use_libuv: See above.

    Raises:
        DistNetworkError: The port cannot be opened, or nobody listens there within the timeout.
        DistStoreError: The other processes do not come within the timeout.

    >>> store = TCPStore("127.0.0.1", 0, is_master=True)
    >>> store.set("step", "3")
    >>> TCPStore("127.0.0.1", store.port).get("step")
    b'3'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: dt.timedelta = dt.timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self.set_timeout(timeout)
        self.host = host_name
        self.port = _Server(host_name, port).port if is_master else port
        self._turn = threading.Lock()
        self._connection = _connected(self.host, self.port, timeout.total_seconds())
        count = self.add(_WORKERS, 1)
        if is_master and wait_for_workers and world_size is not None:
            end = time.monotonic() + timeout.total_seconds()
            while count < world_size:
                if time.monotonic() > end:
                    raise DistStoreError(
                        f"{count} of {world_size} processes have come to the TCPStore at "
                        f"{self.host}:{self.port} within {timeout.total_seconds():g} s"
                    )
                time.sleep(_PAUSE)
                count = self.add(_WORKERS, 0)

    @contextlib.contextmanager
    def _values(self, keys: Sequence[str] | None) -> Iterator[dict[str, bytes]]:
        asked = None if keys is None else [*keys]
        with self._turn:
            try:
                self._connection.send_bytes(json.dumps(asked).encode())
                values = _read(self._connection.recv_bytes())
                before = dict(values)
                changes: dict[str, bytes | None] = {}
                try:
                    yield values
                    changes.update(dict.fromkeys(before.keys() - values.keys()))
                    changes.update({k: v for k, v in values.items() if before.get(k) != v})
                finally:
                    self._connection.send_bytes(_written(changes))
                    self._connection.recv_bytes()
            except (EOFError, OSError) as error:
                raise DistNetworkError(
                    f"the TCPStore at {self.host}:{self.port} does not answer any more: {error}"
                ) from error


class _Server:
    """Keeps the values, and gives each client its turn."""

    def __init__(self, host: str, port: int) -> None:
        self._store = HashStore()
        try:
            self._listener = Listener((host if is_loopback(host) else "", port), backlog=128)
        except OSError as error:
            raise DistNetworkError(
                f"the TCPStore cannot listen at {host}:{port}: {error}"
            ) from error
        self.port = int(self._listener.address[1])
        self._start(self._accept)

    def _start(self, function: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(
            target=function, args=arguments, name="flambeau-tcp-store", daemon=True
        ).start()

    def _accept(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                self._start(self._serve, self._listener.accept())

    def _serve(self, connection: Connection) -> None:
        # A client that ends, or sends something else, loses its connection alone.
        with connection, contextlib.suppress(*_OF_STRANGERS):
            while True:
                keys = json.loads(connection.recv_bytes(_LARGEST))
                with self._store._values(keys) as values:
                    asked = [*values] if keys is None else keys
                    known = {key: values[key] for key in asked if key in values}
                    connection.send_bytes(_written(known))
                    if not connection.poll(_LONGEST_TURN):
                        return
                    for key, value in _read(connection.recv_bytes(_LARGEST)).items():
                        if value is None:
                            values.pop(key, None)
                        else:
                            values[key] = value
                connection.send_bytes(b"")


def _connected(host: str, port: int, seconds: float) -> Connection:
    end = time.monotonic() + seconds
    while True:
        try:
            return Client((host.strip("[]"), port))
        except OSError as error:
            if time.monotonic() > end:
                raise DistNetworkError(
                    f"no TCPStore listens at {host}:{port} within {seconds:g} s: {error}"
                ) from None
        time.sleep(_PAUSE)


def _written(values: Mapping[str, bytes | None]) -> bytes:
    text = {k: None if v is None else v.decode("latin-1") for k, v in values.items()}
    return json.dumps(text).encode()


def _read(text: bytes) -> dict[str, Any]:
    return {k: v and v.encode("latin-1") for k, v in json.loads(text).items()}
