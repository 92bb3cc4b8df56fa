"""What differs from call to call by itself: random draws, clocks, files, iterators.

No program can repeat them, so each must be refused, and calls that may run eagerly must do so.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.situations.situation import Situation

# The expression that gives another number at each call, and what stands around.
SOURCES = {
    "random.random": ("random.random()", ""),
    "random.uniform": ("random.uniform(0.0, 1.0)", ""),
    "random.gauss": ("random.gauss(0.0, 1.0)", ""),
    "random.choice": ("random.choice([1.0, 2.0, 3.0])", ""),
    "random.shuffle": ("shuffled()",
                       ("def shuffled():\n    found = [1.0, 2.0]\n    random.shuffle(found)\n"
                       "    return found[0]")),
    "random.Random": ("die.random()", "die = random.Random(0)"),
    "random.Random, randint": ("float(die.randint(0, 9))", "die = random.Random(0)"),
    "random.Random in an object": ("box.die.random()",
                                   "box = SimpleNamespace(die=random.Random(0))"),
    "random.SystemRandom": ("die.random()", "die = random.SystemRandom()"),
    "numpy.random.rand": ("float(np.random.rand())", ""),
    "numpy.random.RandomState": ("float(die.rand())", "die = np.random.RandomState(0)"),
    "numpy.random.default_rng": ("float(die.random())", "die = np.random.default_rng(0)"),
    "numpy.random.default_rng, normal": ("float(die.normal())", "die = np.random.default_rng(0)"),
    "numpy.random.default_rng in a dictionary": ("float(box['die'].random())",
                                                 "box = {'die': np.random.default_rng(0)}"),
    "numpy.random.default_rng made inside": ("float(np.random.default_rng().random())", ""),
    "numpy.random.RandomState made inside": ("float(np.random.RandomState().rand())", ""),
    "random.Random made inside": ("random.Random().random()", ""),
    "subprocess.run": ("float(subprocess.run(['true']).returncode + 2)", ""),
    "recv of a socket": ("float(near.recv(1)[0])",
                         ("near, far = socket.socketpair()\nfar.send(bytes(range(1, 99)))\n\n"
                         "def clean():\n    near.close()\n    far.close()")),
    "get of a queue": ("box.get()", ("box = queue.Queue()\nfor n in range(1, 99):\n"
                       "    box.put(float(n))")),
    "time.time": ("time.time()", ""),
    "time.perf_counter": ("time.perf_counter()", ""),
    "time.monotonic": ("time.monotonic()", ""),
    "time.time_ns": ("float(time.time_ns() % 1000)", ""),
    "time.process_time": ("time.process_time()", ""),
    "time.strftime": ("float(len(time.strftime('%S')))", ""),
    "time.localtime": ("float(time.localtime().tm_sec)", ""),
    "datetime.datetime.now": ("datetime.datetime.now().timestamp()", ""),
    "datetime.datetime.utcnow": ("float(datetime.datetime.now(datetime.timezone.utc).microsecond)",
                                 ""),
    "datetime.date.today": ("float(datetime.date.today().day)", ""),
    "uuid.uuid4": ("float(uuid.uuid4().int % 97)", ""),
    "uuid.uuid1": ("float(uuid.uuid1().int % 97)", ""),
    "os.urandom": ("float(os.urandom(1)[0])", ""),
    "secrets.randbelow": ("float(secrets.randbelow(97))", ""),
    "secrets.token_bytes": ("float(secrets.token_bytes(1)[0])", ""),
    "open": ("float(open(path).read())", "FILE"),
    "open with with": ("read()", ("FILEdef read():\n    with open(path) as file:\n"
                       "        return float(file.read())")),
    "pathlib.Path.read_text": ("float(pathlib.Path(path).read_text())", "FILE"),
    "pathlib.Path.exists": ("(2.0 if pathlib.Path(path).exists() else 3.0)", "FILE"),
    "os.path.exists": ("(2.0 if os.path.exists(path) else 3.0)", "FILE"),
    "os.path.getsize": ("float(os.path.getsize(path))", "FILE"),
    "os.listdir": ("float(len(os.listdir(os.path.dirname(path))))", "FILE"),
    "numpy.loadtxt": ("float(np.loadtxt(path))", "FILE"),
    "json.load": ("read()", ("FILEdef read():\n    with open(path) as file:\n"
                  "        return float(json.load(file))")),
    "next of an iterator": ("next(numbers)", "numbers = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])"),
    "next of itertools.count": ("float(next(numbers))", "numbers = itertools.count(1)"),
    "next of itertools.cycle": ("next(numbers)", "numbers = itertools.cycle([1.0, 2.0, 3.0])"),
    "next of a generator": ("next(numbers)",
                            ("def give():\n    n = 1.0\n    while True:\n        yield n\n"
                            "        n += 1.0\n\nnumbers = give()")),
    "loop over an iterator": ("[n for n, _ in zip(numbers, [1])][0]",
                              "numbers = iter([float(n) for n in range(1, 99)])"),
    "next of an iterator in an object": ("next(box.numbers)",
                                         ("box = SimpleNamespace(numbers=iter([1.0, 2.0, 3.0, 4.0, "
                                         "5.0, 6.0]))")),
    "next of map": ("next(numbers)", "numbers = map(float, range(1, 99))"),
    "next of enumerate": ("float(next(numbers)[0])", "numbers = enumerate([1.0] * 9)"),
    "send of a generator": ("numbers.send(None)", "numbers = (float(n) for n in range(1, 99))"),
    "pop of a list": ("numbers.pop()", "numbers = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]"),
    "popleft of a deque": ("numbers.popleft()",
                           "numbers = collections.deque([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])"),
    "count in a global": ("counted()", ("calls = 0.0\n\ndef counted():\n    global calls\n"
                          "    calls += 1.0\n    return calls")),
    "count in a closure": ("counted()", ("def make():\n    calls = 0.0\n    def counted():\n"
                           "        nonlocal calls\n        calls += 1.0\n        return calls\n"
                           "    return counted\n\ncounted = make()")),
    "count in an attribute": ("counted()", ("box = SimpleNamespace(calls=0.0)\n\n"
                              "def counted():\n    box.calls += 1.0\n    return box.calls")),
    "count in a dictionary": ("counted()", ("box = {'calls': 0.0}\n\n"
                              "def counted():\n    box['calls'] += 1.0\n    return box['calls']")),
    "count in a slots object": ("box.counted()", ("class Box:\n    __slots__ = ('calls',)\n\n"
                                "    def counted(self):\n        self.calls += 1.0\n"
                                "        return self.calls\n\nbox = Box()\nbox.calls = 0.0")),
    "count in a default": ("counted()", ("def counted(calls=[0.0]):\n    calls[0] += 1.0\n"
                           "    return calls[0]")),
    "count in an array of NumPy": ("counted()", ("calls = np.zeros(1)\n\ndef counted():\n"
                                   "    calls[0] += 1.0\n    return float(calls[0])")),
    "count in an attribute of a function": ("counted()", ("def counted():\n"
                                            "    counted.calls += 1.0\n"
                                            "    return counted.calls\n\ncounted.calls = 0.0")),
    "count in an attribute of a class": ("Box.counted()", ("class Box:\n    calls = 0.0\n\n"
                                         "    @classmethod\n    def counted(cls):\n"
                                         "        cls.calls += 1.0\n        return cls.calls")),
    "input": ("float(sys.stdin.readline())", ("kept = sys.stdin\nsys.stdin = io.StringIO("
              "'1.0\\n2.0\\n3.0\\n4.0\\n5.0\\n6.0\\n')\n\ndef clean():\n    sys.stdin = kept")),
}  # fmt: skip
_FILE = (
    "folder = tempfile.TemporaryDirectory()\npath = os.path.join(folder.name, 'rate')\n"
    "pathlib.Path(path).write_text('2.0')\n\ndef clean():\n    folder.cleanup()\n\n"
)
_REWRITE = "pathlib.Path(path).write_text('{}')"
_HOLDERS = {
    "direct": "def f(x):\n    return x * VALUE",
    "helper": "def draw():\n    return VALUE\n\ndef f(x):\n    return x * draw()",
    "method": "class Drawer:\n    def draw(self):\n        return VALUE\n\n"
    "drawer = Drawer()\n\ndef f(x):\n    return x * drawer.draw()",
    "forward": "class Net(nn.Module):\n    def forward(self, x):\n        return x * VALUE\n\n"
    "net = Net()\n\ndef f(x):\n    return net(x)",
}


def chance() -> Iterator[Situation]:
    """Every source, in several kinds of function."""
    holders = [*_HOLDERS]
    for i, (name, (value, around)) in enumerate(SOURCES.items()):
        around = around.replace("FILE", _FILE)
        for holder in {holders[0]: 1, holders[1 + i % 3]: 1}:
            yield Situation(
                f"{name} / {holder}",
                f"{around}\n\n{_HOLDERS[holder].replace('VALUE', value)}",
                _REWRITE.format(3.0) if "folder" in around else "pass",
                _REWRITE.format(2.0) if "folder" in around else "pass",
                demand="refused",
            )
