"""Programs of a script's last run are loaded before they are asked for."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from flambeau.core.programs import executables
from flambeau.core.programs.read_ahead import ReadAhead
from flambeau.core.programs.store import Store

NOTE = "f" * 40
KEYS = [each * 40 for each in "abcd"]


@pytest.fixture
def kept(tmp_path):
    return Store(tmp_path, 2**20)


def started(kept, load=str.upper):
    found = ReadAhead(kept, NOTE, load)
    found.start()
    return found


def run_that_used(kept, keys):
    ahead = started(kept)
    for key in keys:
        ahead.take(key)
    ahead.end()


def loaded_by_the_next(kept):
    asked, all_there = [], threading.Event()

    def load(key):
        asked.append(key)
        if len(asked) == 4:
            all_there.set()

    ahead = started(kept, load)
    all_there.wait(0.2)
    ahead.end()
    return asked


def test_the_programs_of_the_last_run_are_there(kept):
    run_that_used(kept, KEYS)
    ahead = started(kept)
    while len(ahead._ready) < len(KEYS):
        time.sleep(0.001)
    assert [ahead.take(key) for key in KEYS] == [key.upper() for key in KEYS]
    assert ahead.take(KEYS[0]) is None  # Each is given once.
    ahead.end()


def test_the_largest_is_loaded_first(kept):
    for key, size in zip(KEYS, (10, 400, 30, 200), strict=True):
        kept.put(key, bytes(size))
    run_that_used(kept, KEYS)
    assert loaded_by_the_next(kept) == [KEYS[1], KEYS[3], KEYS[2], KEYS[0]]


def test_a_program_that_is_being_loaded_is_waited_for(kept):
    run_that_used(kept, KEYS[:1])
    begun, go_on = threading.Event(), threading.Event()

    def load(key):
        begun.set()
        go_on.wait()
        return "the program"

    ahead = started(kept, load)
    begun.wait()
    threading.Timer(0.05, go_on.set).start()
    assert ahead.take(KEYS[0]) == "the program"
    ahead.end()


def test_a_program_that_was_asked_for_is_not_loaded_ahead(kept):
    run_that_used(kept, KEYS[:2])
    begun, go_on = threading.Event(), threading.Event()
    asked = []

    def load(key):
        asked.append(key)
        begun.set()
        go_on.wait()

    ahead = started(kept, load)
    begun.wait()
    other = next(each for each in KEYS[:2] if each not in asked)
    assert ahead.take(other) is None
    go_on.set()
    ahead.end()
    assert other not in asked


def test_a_run_that_ends_early_forgets_nothing_but_two_do(kept):
    run_that_used(kept, KEYS)
    run_that_used(kept, KEYS[:1])
    assert set(loaded_by_the_next(kept)) == set(KEYS)
    run_that_used(kept, KEYS[:1])
    run_that_used(kept, KEYS[:1])
    assert loaded_by_the_next(kept) == KEYS[:1]


@pytest.mark.parametrize("note", [b"", b"\xff\x00nonsense", b"a" * 39, b"../../etc/passwd\n\n"])
def test_a_note_that_is_none_is_ignored(kept, note):
    kept.put(NOTE, note)
    assert loaded_by_the_next(kept) == []


def test_an_error_in_the_thread_stops_nobody(kept, monkeypatch):
    run_that_used(kept, KEYS)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)

    def load(key):
        raise MemoryError

    ahead = started(kept, load)
    assert [ahead.take(key) for key in KEYS] == [None] * 4
    ahead.end()


class AnyEvent:
    """A trace function that raises at one of the events of a call."""

    def __init__(self, at):
        self.at = at

    def __call__(self, frame, event, argument):
        self.at -= 1
        if self.at == 0:
            raise KeyboardInterrupt
        return self


def test_an_interrupt_while_a_program_is_taken_blocks_nobody(kept):
    run_that_used(kept, KEYS)
    for at in range(1, 40):
        ahead = started(kept)
        previous = sys.gettrace()
        sys.settrace(AnyEvent(at))
        try:
            ahead.take(KEYS[0])
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(previous)
        ending = threading.Thread(target=ahead.end, daemon=True)
        ending.start()
        ending.join(5)
        assert not ending.is_alive(), f"interrupted at event {at}"


def test_threads_that_ask_at_once_share_one_reader(kept, monkeypatch):
    made, both = [], threading.Barrier(2, timeout=30)

    def slowly_made(store, load):
        both.wait()
        made.append(ReadAhead(store, NOTE, load))
        return made[-1]

    monkeypatch.setattr(executables, "read_ahead", slowly_made)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(executables.ahead_of(kept))) for _ in "12"
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 2
    assert found[0] is found[1] is executables.ahead_of(kept)
    assert [each._thread.ident is not None for each in made].count(True) == 1
    for each in made:
        each.end()


SCRIPT = """
import flambeau
model = flambeau.nn.Linear(3, 2)
loss = model(flambeau.ones(4, 3)).square().sum()
loss.backward()
flambeau.optim.SGD(model.parameters(), lr=0.1).step()
found = flambeau.compiler.stats()
print(found["compiled"], found["loaded"], found["ahead"], model.weight.sum().item() == 0)
"""


def run(path, variables, **options):
    done = subprocess.run(
        [sys.executable, *options.pop("before", []), path],
        env=variables, capture_output=True, text=True, check=True, **options,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout.split()


@pytest.fixture
def variables(tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("programs are read ahead on another core, and there is one")
    return os.environ | {
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "JAX_PLATFORMS": "cpu",
        "FLAMBEAU_INTERPRET": "0",
    }  # fmt: skip


def test_a_script_finds_the_programs_of_its_last_run(tmp_path, variables):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    compiled, loaded, ahead, _ = map(int, (*run(script, variables)[:3], 0))
    assert compiled > 3
    assert (loaded, ahead) == (0, 0)
    again = run(script, variables)
    assert again[:2] == ["0", str(compiled)]
    assert int(again[2]) > 0


def test_a_process_that_ends_at_once_ends_well(tmp_path, variables):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run(script, variables)
    script.write_text("import flambeau; flambeau.nn.Linear(3, 2)(flambeau.ones(4, 3)); print(1)")
    for _ in range(2):
        assert run(script, variables) == ["1"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_goes_on_without(tmp_path, variables):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run(script, variables)
    script.write_text(
        SCRIPT + "import os, warnings; warnings.simplefilter('ignore')\n"
        "from flambeau.core.programs import executables, store\n"
        "if not os.fork():\n"
        "    executables.ahead_of(store.store()).take('a' * 40); os._exit(0)\n"
        "print(os.wait()[1])\n"
    )
    assert run(script, variables, timeout=60)[-1] == "0"


@pytest.fixture
def interruptible():
    # Shells start background processes with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_waiting_loses_nothing(kept):
    run_that_used(kept, KEYS[:1])
    begun, go_on = threading.Event(), threading.Event()

    def load(key):
        begun.set()
        go_on.wait()
        return "the program"

    ahead = started(kept, load)
    begun.wait()
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ahead.take(KEYS[0])
    go_on.set()
    assert ahead.take(KEYS[0]) == "the program"
    ahead.end()
