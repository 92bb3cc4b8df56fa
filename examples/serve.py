"""Serve an exported model over HTTP, with requests of several clients in one batch.

    python examples/serve.py model.safetensors --port 8000
    curl -d '{"input": [0.1, 0.2, 0.3, 0.4]}' localhost:8000

`flambeau.export.save` wrote the file, of a model with one input whose first size is open, the
batch. Without a file, a small model is exported, served to a few clients, and the server stopped.
"""

import argparse
import json
import queue
import sys
import tempfile
import threading
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

import flambeau
from flambeau import nn

LONGEST_REQUEST = 1 << 24


class Batcher:
    """Runs a program on samples of several threads at once.

    Batches are padded to a power of two, so that there are few sizes, and few programs.

    Args:
        program: An `ExportedProgram` with one input and one output, both with the batch first.
        most: The greatest batch; a power of two.
        wait: The seconds for which a sample waits for others.

    Raises:
        ValueError: The program has more inputs or outputs.
    """

    def __init__(self, program, most=32, wait=0.005):
        counts = len(program.inputs), len(program.outputs)
        if counts != (1, 1):
            raise ValueError(f"needs a program of one input and one output, got {counts}")
        [self.input] = program.inputs
        self.program, self.most, self.wait = program, most, wait
        self.samples = self.batches = 0
        self._waiting = queue.SimpleQueue()
        for size in self._sizes():
            self._run([np.zeros(self.input.shape[1:], self.input.dtype)] * size)
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, values):
        """The result for one sample, a nested list of numbers.

        Raises:
            ValueError: It has another shape than the program's samples.
        """
        sample = np.asarray(values, self.input.dtype)
        if sample.shape != tuple(self.input.shape[1:]):
            expected = list(self.input.shape[1:])
            raise ValueError(f"a sample has the shape {expected}, got {list(sample.shape)}")
        result = Future()
        self._waiting.put((sample, result))
        return result.result()

    def _sizes(self):
        return [1 << i for i in range(self.most.bit_length())]

    def _work(self):
        while True:
            batch = self._next()
            samples, futures = zip(*batch, strict=True)
            try:
                results = self._run(samples)
            except Exception as error:  # noqa: BLE001 - the clients get it.
                for each in futures:
                    each.set_exception(error)
                continue
            self.samples, self.batches = self.samples + len(samples), self.batches + 1
            for each, result in zip(futures, results, strict=True):
                each.set_result(result)

    def _next(self):
        """One waiting sample, and those that come soon after it."""
        batch = [self._waiting.get()]
        try:
            while len(batch) < self.most:
                batch.append(self._waiting.get(timeout=self.wait))
        except queue.Empty:
            pass
        return batch

    def _run(self, samples):
        size = next(each for each in self._sizes() if each >= len(samples))
        padded = np.zeros((size, *samples[0].shape), samples[0].dtype)
        padded[: len(samples)] = samples
        return self.program(padded).numpy()[: len(samples)]


class Handler(BaseHTTPRequestHandler):
    """POST takes ``{"input": sample}`` and returns ``{"output": result}``; GET returns counts."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        batcher = self.server.batcher
        self._answer(200, {"samples": batcher.samples, "batches": batcher.batches})

    def do_POST(self):
        try:
            length = int(self.headers.get("Content-Length", 0))
            if not 0 <= length <= LONGEST_REQUEST:
                raise ValueError(f"a request has at most {LONGEST_REQUEST} bytes")
            content = json.loads(self.rfile.read(length))
            if not isinstance(content, dict) or "input" not in content:
                raise ValueError('a request is an object {"input": sample}')
            self._answer(200, {"output": self.server.batcher(content["input"]).tolist()})
        except (ValueError, TypeError, RecursionError) as error:
            self.close_connection = True
            self._answer(400, {"error": f"{type(error).__name__}: {error}"})

    def _answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Requests are not printed."""


class Server(ThreadingHTTPServer):
    """A thread for each connection, and one batcher for all."""

    daemon_threads = True
    request_queue_size = 128  # connections that wait for their thread; the default is 5

    def __init__(self, address, batcher):
        super().__init__(address, Handler)
        self.batcher = batcher


def ask(url, sample):
    """The server's result for one sample."""
    body = json.dumps({"input": sample}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
        return json.load(answer)["output"]


def demonstrate():
    """Export a model, serve it, and compare what clients get with the model."""
    model = nn.Sequential(nn.Linear(4, 32), nn.GELU(), nn.Linear(32, 3), nn.Softmax(-1)).eval()
    batch = flambeau.export.Dim("batch", max=32)
    program = flambeau.export.export(model, (flambeau.ones(2, 4),), dynamic_shapes=({0: batch},))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        flambeau.export.save(program, path)
        server = Server(("127.0.0.1", 0), Batcher(flambeau.export.load(path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    samples = flambeau.randn(64, 4)
    url = f"http://127.0.0.1:{server.server_port}"
    with ThreadPoolExecutor(16) as clients:
        results = list(clients.map(lambda sample: ask(url, sample), samples.tolist()))
    server.shutdown()
    server.server_close()
    with flambeau.no_grad():
        difference = (model(samples) - flambeau.tensor(results)).abs().max().item()
    batcher = server.batcher
    print(f"{batcher.samples} samples in {batcher.batches} batches, within {difference:.0e}")


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", type=Path, help="a file of flambeau.export.save")
    parser.add_argument("--port", type=int, default=8000, help="0 for any free one")
    parser.add_argument("--batch", type=int, default=32, help="the greatest batch, a power of 2")
    parser.add_argument("--wait", type=float, default=0.005, help="seconds to wait for a batch")
    options = parser.parse_args(words)
    if options.program is None:
        demonstrate()
        return
    program = flambeau.export.load(options.program)
    print(program)
    batcher = Batcher(program, options.batch, options.wait)
    server = Server(("127.0.0.1", options.port), batcher)
    print(f"listening on http://127.0.0.1:{server.server_port}")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
