"""A store in the memory of one process, which others access over the network."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.distributed.errors import DistNetworkError, DistStoreError
from flambeau.distributed.rendezvous import own_address
from flambeau.distributed.stores import OPERATIONS, HashStore, Store

__all__ = ["TCPStore"]

_PAUSE = 0.1
#: The seconds in which a message must be complete, once it has begun.
_LONGEST_MESSAGE = 30.0
_WORKERS = "init/"
#: The maximum bytes of one message, and the bytes that are read at once.
_LARGEST, _PIECE = 1 << 28, 1 << 16
_SIZE = struct.Struct("!I")
#: The further arguments of operations; bytes are sent as text.
_ARGUMENTS = {"set": (str,), "append": (str,), "compare_set": (str, str), "add": (int,)}
#: The errors of a connection that ends, or that sends invalid data.
_OF_STRANGERS = (OSError, ValueError, TypeError, LookupError, RecursionError, MemoryError)


class TCPStore(Store):
    """A store held by one process, which others access by its address.

    Anyone who can reach the port can read and write. If the address is a numeric address of this
    machine, such as its loopback, the server listens only on this address.

    Args:
        host_name: The machine of the process that holds the values.
        port: Its port; with 0 this process chooses one, which `port` returns.
        world_size: The number of processes that use the store.
        is_master: Whether this process holds the values.
        timeout: How long this process waits for the server, for the other processes and for values.
        wait_for_workers: Whether the process that holds the values waits for the others.
        multi_tenant: Accepted for compatibility, like the next two.
        master_listen_fd: See above.
        use_libuv: See above.

    Raises:
        DistNetworkError: The port cannot be opened, or no process listens there within the timeout.
        DistStoreError: The other processes do not connect within the timeout.

    >>> from flambeau.distributed import TCPStore
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
        self._turn = threading.Lock()
        self._socket: socket.socket | None = None
        self.port = _Server(host_name, port).port if is_master else port
        self._socket = _connected(self.host, self.port, timeout.total_seconds())
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

    def _do(
        self, name: str, keys: Sequence[str], *arguments: Any, seconds: float | None = None
    ) -> Any:
        others = [each for each in keys if not isinstance(each, str)]
        if others:
            raise TypeError(f"keys are str, got {type(others[0]).__name__}: {others[0]!r:.80}")
        limit = self._timeout.total_seconds() if seconds is None else seconds
        end = time.monotonic() + max(limit, _PAUSE)
        if not self._turn.acquire(timeout=max(limit, _PAUSE)):
            raise self._no_answer(f"another thread has waited for {limit:g} s")
        try:
            if self._socket is None:
                self._socket = _connected(self.host, self.port, 0.0)
            _send(self._socket, [name, [*keys], *map(_as_json, arguments)], end)
            is_known, answer = _receive(self._socket, end)
            if isinstance(answer, str) and is_known:
                answer = answer.encode("latin-1")
        except _OF_STRANGERS as error:
            # A later answer must not be mistaken for the answer to the next question.
            self._close()
            raise self._no_answer(str(error)) from error
        except BaseException:
            self._close()
            raise
        finally:
            self._turn.release()
        if not is_known:
            raise DistStoreError(answer)
        return answer

    def _no_answer(self, why: str) -> DistNetworkError:
        return DistNetworkError(
            f"the TCPStore at {self.host}:{self.port} does not answer any more: {why}"
        )

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Server:
    """Holds the values. No client can block the others, whatever it sends or fails to send."""

    def __init__(self, host: str, port: int) -> None:
        self._store = HashStore()
        try:
            self._listener = _listening(host, port)
        except OSError as error:
            raise DistNetworkError(
                f"the TCPStore cannot listen at {host}:{port}: {error}"
            ) from error
        self.port = int(self._listener.getsockname()[1])
        self._start(self._accept)

    def _start(self, function: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(
            target=function, args=arguments, name="flambeau-tcp-store", daemon=True
        ).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                # For example, too many open files.
                time.sleep(_PAUSE)
                continue
            try:
                self._start(self._serve, client)
            except RuntimeError:
                # Too many threads.
                client.close()

    def _serve(self, client: socket.socket) -> None:
        # A client that ends, or sends invalid data, loses only its own connection.
        with client, contextlib.suppress(*_OF_STRANGERS):
            while True:
                name, keys, *arguments = _receive(client)
                answer = self._answer(name, keys, arguments)
                _send(client, answer, time.monotonic() + _LONGEST_MESSAGE)

    def _answer(self, name: str, keys: Any, arguments: list[Any]) -> tuple[bool, Any]:
        """Whether an operation succeeds, and the result or the reason."""
        wanted = _ARGUMENTS.get(name, ())
        fits = len(arguments) == len(wanted) and all(map(isinstance, arguments, wanted))
        if name not in OPERATIONS or not fits or not isinstance(keys, list):
            raise ValueError("not a request")
        if not all(isinstance(each, str) for each in keys):
            raise TypeError("not keys")
        given = (each.encode("latin-1") if isinstance(each, str) else each for each in arguments)
        try:
            return True, _as_json(self._store._do(name, keys, *given))
        except DistStoreError as error:
            return False, str(error)


def _listening(host: str, port: int) -> socket.socket:
    own = own_address(host)
    if own:
        family = socket.AF_INET6 if ":" in own else socket.AF_INET
        return socket.create_server((own, port), family=family, backlog=128)
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True
        )
    return socket.create_server(("", port), backlog=128)


def _connected(host: str, port: int, seconds: float) -> socket.socket:
    end = time.monotonic() + seconds
    while True:
        left = max(end - time.monotonic(), _PAUSE)
        try:
            return socket.create_connection((host.strip("[]"), port), timeout=left)
        except OSError as error:
            if time.monotonic() > end:
                raise DistNetworkError(
                    f"no TCPStore listens at {host}:{port} within {seconds:g} s: {error}"
                ) from None
        time.sleep(_PAUSE)


def _send(to: socket.socket, message: Any, end: float) -> None:
    content = json.dumps(message).encode()
    if len(content) > _LARGEST:
        raise ValueError(f"a message of {len(content)} bytes, which is more than {_LARGEST}")
    to.settimeout(max(end - time.monotonic(), 0.001))
    to.sendall(_SIZE.pack(len(content)) + content)


def _receive(source: socket.socket, end: float | None = None) -> Any:
    """The next message; without ``end`` it may begin at any time, but must end in time."""
    source.settimeout(None if end is None else max(end - time.monotonic(), 0.001))
    first = source.recv(1)
    if end is None:
        end = time.monotonic() + _LONGEST_MESSAGE
    (size,) = _SIZE.unpack(first + _exactly(source, _SIZE.size - len(first), end))
    if size > _LARGEST:
        raise ValueError(f"a message of {size} bytes, which is more than {_LARGEST}")
    return json.loads(_exactly(source, size, end))


def _exactly(source: socket.socket, size: int, end: float) -> bytes:
    content = bytearray()
    while len(content) < size:
        source.settimeout(max(end - time.monotonic(), 0.001))
        piece = source.recv(min(size - len(content), _PIECE))
        if not piece:
            raise ConnectionResetError("the connection has ended")
        content += piece
    return bytes(content)


def _as_json(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else value
