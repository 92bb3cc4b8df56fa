"""Stores of values that processes share; each holds what PyTorch's documentation says of it."""

import contextlib
import datetime as dt
import gc
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest

from flambeau.distributed import (
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
)

ROOT = Path(__file__).parent.parent
SOON = dt.timedelta(seconds=0.05)


def _two_through_tcp(folder):
    server = TCPStore("localhost", 0, is_master=True)
    return server, TCPStore("localhost", server.port)


def _two_through_a_file(folder):
    return FileStore(f"{folder}/store", 2), FileStore(f"{folder}/store", 2)


def _the_same_twice(folder):
    store = HashStore()
    return store, store


def _with_a_prefix(folder):
    server, client = _two_through_tcp(folder)
    server.set("elsewhere", "1")
    return PrefixStore("a", server), PrefixStore("a", client)


KINDS = [_the_same_twice, _two_through_a_file, _two_through_tcp, _with_a_prefix]


@pytest.fixture(name="stores", params=KINDS, ids=lambda make: make.__name__.strip("_"))
def _stores(request, tmp_path):
    """Two that share their values."""
    one, other = request.param(tmp_path)
    for each in (one, other):
        each.set_timeout(SOON)
    return one, other


def test_one_reads_what_the_other_writes(stores):
    one, other = stores
    assert isinstance(one, Store)
    assert one.timeout == SOON
    one.set("a", "1")
    assert other.get("a") == b"1"
    other.set("a", b"\x00\xff")
    assert one.get("a") == b"\x00\xff"
    assert one.check(["a"])
    assert not one.check(["a", "b"])
    assert other.delete_key("a")
    assert not one.delete_key("a")
    with pytest.raises(DistStoreError, match=r"wait timeout after 0.05 s, keys: \['a'\]"):
        one.get("a")
    with pytest.raises(TypeError, match="keeps str and bytes, got int: 3"):
        one.set("a", 3)
    with pytest.raises(ValueError, match=r"zip\(\)"):
        one.multi_set(["a", "b"], ["1"])


def test_numbers_add_up_and_values_grow(stores):
    one, other = stores
    assert one.add("n", 2) == 2
    assert other.add("n", 3) == 5
    assert one.get("n") == b"5"
    one.append("q", "ab")
    other.append("q", b"cd")
    one.multi_set(["x", "y"], ["1", "2"])
    assert one.has_extended_api()
    assert other.multi_get(["q", "x", "y"]) == [b"abcd", b"1", b"2"]


def test_a_value_is_replaced_if_it_is_as_expected(stores):
    one, other = stores
    assert one.compare_set("a", "", "1") == b"1"
    assert other.compare_set("a", "1", "2") == b"2"
    assert one.compare_set("a", "1", "3") == b"2"
    assert one.compare_set("b", "old", "new") == b"old"
    assert not one.check(["b"])


def test_a_wait_ends_when_the_value_comes(stores):
    one, other = stores
    timer = threading.Timer(0.05, lambda: one.set("late", "x"))
    timer.start()
    other.wait(["late"], dt.timedelta(seconds=20))
    assert other.get("late") == b"x"
    timer.join()


def test_additions_at_the_same_time_all_count(stores):
    def add(store):
        for _ in range(20):
            store.add("n", 1)

    threads = [threading.Thread(target=add, args=(each,)) for each in stores]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert stores[0].add("n", 0) == 40


def test_keys_are_counted():
    inner = HashStore()
    store = PrefixStore("a", inner)
    inner.set("other", "1")
    store.set("k", "v")
    assert (store.num_keys(), inner.num_keys()) == (1, 2)
    assert inner.get("a/k") == b"v"
    assert store.underlying_store is inner


def test_a_store_without_a_place_says_so():
    with pytest.raises(NotImplementedError, match="use HashStore, FileStore or TCPStore"):
        Store().set("a", "b")


def test_a_file_of_something_else_is_refused(tmp_path):
    for text in ("{", "[]", "3"):
        (tmp_path / "file").write_text(text)
        with pytest.raises(DistStoreError, match="is not the file of a FileStore"):
            FileStore(str(tmp_path / "file"))
        assert (tmp_path / "file").read_text() == text


def test_nobody_listens_or_nobody_comes():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(DistNetworkError, match=r"no TCPStore listens at .* within 0\.05"):
            TCPStore("127.0.0.1", probe.getsockname()[1], timeout=SOON)
        with pytest.raises(DistNetworkError, match="cannot listen at"):
            TCPStore("127.0.0.1", probe.getsockname()[1], is_master=True)
    with pytest.raises(DistStoreError, match="1 of 2 processes have come to the TCPStore"):
        TCPStore("127.0.0.1", 0, 2, is_master=True, timeout=SOON)


def _garbage():
    """What strangers send to a server: words of other protocols, halves, and random bytes."""
    random = Random(0)
    whole = b'["set", ["a"], "x"]'
    messages = [
        b"GET / HTTP/1.1\r\n\r\n", b"", b"\0", b"\0\0\0\x05[", b"\xff" * 40,
        *(
            struct.pack("!I", len(each)) + each
            for each in (
                b"[" * 100_000, b"{\"a\":" * 100_000, b"9" * 10_000, b"17", b"[]", b"{}", b"null",
                b"\xff\xfe", b'["drop", ["a"]]', b'["set", [], "x"]', b'["set", "a", "x"]',
                b'["set", [3], "x"]', b'["set", ["a"]]', b'["set", ["a"], 3]',
                b'["set", ["a"], "x", 4]',
                b'["set", ["a"], "\\ud800"]', b'["add", ["a"], "1"]', b'["add", ["a"], 1e999]',
                b'[["set"], ["a"], "x"]', b'["__class__", ["a"]]', b'["compare_set", ["a"], "1"]',
            )
        ),
        struct.pack("!I", (1 << 28) + 1),
    ]  # fmt: skip
    for _ in range(40):
        message = bytearray(struct.pack("!I", len(whole)) + whole)
        for _ in range(random.randrange(1, 4)):
            message[random.randrange(len(message))] = random.randrange(256)
        messages += [random.randbytes(random.randrange(60)), bytes(message)]
        messages.append(bytes(message)[: random.randrange(len(message))])
    return messages


def test_strangers_harm_nobody(capfd):
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=dt.timedelta(seconds=20))
    store.set("kept", "1")
    with contextlib.ExitStack() as strangers:
        for number, message in enumerate(_garbage()):
            stranger = socket.create_connection(("127.0.0.1", store.port))
            # Half of them stay, and say no more.
            strangers.enter_context(stranger)
            stranger.sendall(message)
            if number % 2:
                stranger.close()
        began = time.monotonic()
        assert store.get("kept") == b"1"
        assert TCPStore("127.0.0.1", store.port).add("n", 1) == 1
        assert time.monotonic() - began < 10
    assert capfd.readouterr().err == ""


def test_a_client_that_reads_no_answers_keeps_nobody_waiting():
    store = TCPStore("127.0.0.1", 0, is_master=True)
    store.set("long", "x" * (1 << 22))
    ask = json.dumps(["read", ["long"]]).encode()
    with socket.create_connection(("127.0.0.1", store.port)) as stranger:
        for _ in range(8):
            stranger.sendall(struct.pack("!I", len(ask)) + ask)
        began = time.monotonic()
        assert store.add("n", 1) == 1
        assert time.monotonic() - began < 10


def test_requests_that_fail_say_why_and_leave_the_connection():
    store = TCPStore("127.0.0.1", 0, is_master=True)
    store.set("a", "word")
    with pytest.raises(DistStoreError, match="'a', whose value is no number: b'word'"):
        store.add("a", 1)
    with pytest.raises(TypeError, match="keys are str, got int: 3"):
        store.set(3, "x")
    assert store.get("a") == b"word"


def test_a_server_that_does_not_answer_is_an_error_within_the_timeout():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        with pytest.raises(DistNetworkError, match="does not answer any more: timed out"):
            TCPStore("127.0.0.1", port, timeout=dt.timedelta(seconds=0.3))
        assert time.monotonic() - began < 10


def test_a_late_answer_is_not_that_of_the_next_question():
    store = TCPStore("127.0.0.1", 0, is_master=True)
    with store_that_is_held(store):
        with pytest.raises(DistNetworkError, match="does not answer any more"):
            TCPStore("127.0.0.1", store.port, timeout=dt.timedelta(seconds=0.3))
        store.set_timeout(dt.timedelta(seconds=0.3))
        with pytest.raises(DistNetworkError, match="does not answer any more"):
            store.add("n", 5)
    store.set_timeout(dt.timedelta(seconds=20))
    store.set("b", "2")
    assert store.get("b") == b"2"
    assert store.check(["b"])


@contextlib.contextmanager
def store_that_is_held(store):
    """A block in which the server of a store gives no answers."""
    (server,) = (
        each for each in gc.get_objects() if type(each).__name__ == "_Server"
        and each.port == store.port
    )  # fmt: skip
    with server._store._lock:
        yield


@pytest.mark.parametrize("host", ["::1", "[::1]", "localhost", "127.0.0.1"])
def test_the_server_listens_at_its_address_alone(host):
    if ":" in host and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    store = TCPStore(host, 0, is_master=True)
    store.set("a", "1")
    assert TCPStore(host, store.port).get("a") == b"1"
    elsewhere = "127.0.0.1" if ":" in host else "127.0.0.2"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((elsewhere, store.port), timeout=5)


def _has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_the_end_of_the_server_is_an_error():
    program = (
        "from flambeau.distributed import TCPStore\n"
        "store = TCPStore('127.0.0.1', 0, is_master=True)\n"
        "print(store.port, flush=True)\n"
        "store.get('end')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        store = TCPStore("127.0.0.1", int(process.stdout.readline()))
        store.set("a", "1")
        process.kill()
        process.wait()
        began = time.monotonic()
        with pytest.raises(DistNetworkError, match="does not answer any more"):
            store.get("a")
        assert time.monotonic() - began < 20
