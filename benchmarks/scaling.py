"""The overhead of flambeau in a training step on eight devices, relative to plain JAX.

A stack of residual blocks with AdamW, on eight CPU devices of one process, sharded in three ways:
data parallel, fully sharded, and layers over two devices with the batch over four. The plain JAX
step uses `jax.jit` with shardings and donated parameters and state, interleaved with flambeau's
compiled step in the same process. Small blocks show the overhead of a call, large ones the program
itself; each ratio should be at most 1.05.

It also measures eager communication: the sum of one row on each of eight devices, and
`distributed.all_reduce` between two processes of four devices that this script starts. In plain JAX
each is one compiled program. Between processes flambeau first checks that all of them issue the
same collective, which JAX does not.

Run it as ``python benchmarks/scaling.py``. Eight devices share the machine's cores and a step waits
for the slowest; on a busy machine, ``--busy`` measures process time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from _results import keep
from _timing import claim, medians
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

LIMIT = 1.05
BETAS, EPSILON, DECAY, RATE = (0.9, 0.999), 1e-8, 1e-2, 1e-3
# The number of blocks, features, hidden features, and the batch size.
SIZES = {"small": (2, 64, 256, 64), "large": (4, 512, 2048, 256)}
# The lengths of vectors in eager communication.
LENGTHS = (1_000, 1_000_000)
# For each sharding, the partition specs of the two matrices of a block and of the batch, and the
# shape of the mesh.
WAYS = {
    "data parallel": ((8, 1), P(), P(), P("data")),
    "fully sharded": ((8, 1), P("data"), P("data"), P("data")),
    "tensor and data parallel": ((4, 2), P("model"), P(None, "model"), P("data")),
}


def arrays(size: str) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """The matrices of the blocks, and a batch."""
    blocks, width, hidden, batch = SIZES[size]
    draw = np.random.default_rng(0).standard_normal
    params = [
        (
            draw((hidden, width), np.float32) / width**0.5,
            draw((width, hidden), np.float32) / hidden**0.5,
        )
        for _ in range(blocks)
    ]
    return params, draw((batch, width), np.float32)


def by_hand(size: str, way: str):
    """The step in plain JAX; each call runs one step and returns the loss."""
    shape, up, down, rows = WAYS[way]
    mesh = jax.make_mesh(shape, ("data", "model"), (jax.sharding.AxisType.Auto,) * 2)
    params, x = arrays(size)
    places = [(NamedSharding(mesh, up), NamedSharding(mesh, down)) for _ in params]
    whole, batch = NamedSharding(mesh, P()), NamedSharding(mesh, rows)
    params = jax.device_put(params, places)
    means, squares = (jax.device_put(jax.tree.map(jnp.zeros_like, params), places) for _ in "ab")
    state = (means, squares, jax.device_put(jnp.zeros(()), whole))
    x = jax.device_put(x, batch)

    def loss_of(params, x):
        for up, down in params:
            x = x + jax.nn.gelu(x @ up.T, approximate=False) @ down.T
            x = jax.lax.with_sharding_constraint(x, batch)
        return jnp.mean(x * x)

    def step(params, state, x):
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        grads = jax.lax.with_sharding_constraint(grads, places)
        means, squares, count = state
        count = count + 1
        means = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, means, grads)
        squares = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, squares, grads)
        scale = RATE / (1 - BETAS[0] ** count)
        root = jnp.sqrt(1 - BETAS[1] ** count)

        def moved(p, m, v):
            return p * (1 - RATE * DECAY) - scale * m / (jnp.sqrt(v) / root + EPSILON)

        return loss, jax.tree.map(moved, params, means, squares), (means, squares, count)

    placed = (places, places, whole)
    run = jax.jit(
        step, donate_argnums=(0, 1), in_shardings=(places, placed, batch),
        out_shardings=(whole, places, placed),
    )  # fmt: skip
    held = [params, state]

    def call():
        loss, held[0], held[1] = run(held[0], held[1], x)
        return loss

    return call


def with_flambeau(size: str, way: str):
    """The same step with flambeau."""
    import flambeau
    from flambeau import nn, optim
    from flambeau.distributed.device_mesh import init_device_mesh
    from flambeau.distributed.fsdp import fully_shard
    from flambeau.distributed.tensor import Shard, distribute_tensor
    from flambeau.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )
    from flambeau.nn import functional as F
    from flambeau.nn.parallel import DistributedDataParallel

    width, hidden = SIZES[size][1:3]
    params, x = arrays(size)

    class Block(nn.Module):
        def __init__(self, up, down):
            super().__init__()
            self.up = nn.Linear(width, hidden, bias=False)
            self.down = nn.Linear(hidden, width, bias=False)
            with flambeau.no_grad():
                self.up.weight.copy_(flambeau.from_numpy(up))
                self.down.weight.copy_(flambeau.from_numpy(down))

        def forward(self, x):
            return x + self.down(F.gelu(self.up(x)))

    model = nn.Sequential(*(Block(*each) for each in params))
    mesh = init_device_mesh("cpu", WAYS[way][0], mesh_dim_names=("data", "model"))
    if way == "fully sharded":
        for each in model:
            fully_shard(each, mesh=mesh["data"], reshard_after_forward=False)
    if way.startswith("tensor"):
        plan = {"*.up": ColwiseParallel(), "*.down": RowwiseParallel()}
        parallelize_module(model, mesh["model"], plan)
    if way != "fully sharded":
        model = DistributedDataParallel(model, device_mesh=mesh["data"])
    optimizer = optim.AdamW(model.parameters(), RATE, BETAS, EPSILON, DECAY)

    @flambeau.compile
    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    x = distribute_tensor(flambeau.from_numpy(x), mesh["data"], [Shard(0)])
    return lambda: step(x).jax()


def adding(length: int):
    """Two sums of the rows of eight devices on all of them: in plain JAX, and with flambeau."""
    import flambeau
    from flambeau.distributed.device_mesh import init_device_mesh
    from flambeau.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    x = distribute_tensor(flambeau.ones(8, length), mesh, [Shard(0)])
    array, whole = x.jax(), NamedSharding(mesh.jax(), P())
    program = jax.jit(lambda rows: rows.sum(0), out_shardings=whole)
    return {"by hand": lambda: program(array), "flambeau": lambda: x.sum(0).jax()}


def reducing(length: int):
    """Two averages of a vector of each process: in plain JAX, and with flambeau."""
    import flambeau
    from flambeau import distributed

    x = flambeau.ones(length)
    firsts: dict[int, jax.Device] = {}
    for each in jax.devices():
        firsts.setdefault(each.process_index, each)
    mesh = jax.sharding.Mesh(np.array([*firsts.values()]), ("process",))
    rows, whole = NamedSharding(mesh, P("process")), NamedSharding(mesh, P())
    program = jax.jit(lambda rows: rows.mean(0), out_shardings=whole)
    array = jax.device_put(np.ones(length, np.float32), mesh.local_devices[0])

    def by_hand():
        parts = [array[None]]
        joined = jax.make_array_from_single_device_arrays((len(firsts), length), rows, parts)
        return program(joined).addressable_data(0)

    def with_flambeau():
        distributed.all_reduce(x, distributed.ReduceOp.AVG)
        return x.jax()

    return {"by hand": by_hand, "flambeau": with_flambeau}


def between_two_processes() -> None:
    """The main function of each of two processes: both call equally often, the first prints."""
    from flambeau import distributed

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4)
    distributed.init_process_group()
    rows = {}
    for length in LENGTHS:
        times: dict[str, list[float]] = {}
        ways = [*reducing(length).items()]
        for number in range(21):
            for name, way in ways[:: 1 if number % 2 else -1]:
                jax.block_until_ready(way())
                distributed.barrier()
                began = time.perf_counter()
                for _ in range(5):
                    jax.block_until_ready(way())
                times.setdefault(name, []).append((time.perf_counter() - began) / 5)
        if distributed.get_rank() == 0:
            one, other = (float(np.median(times[name])) for name in ("by hand", "flambeau"))
            _print_row(f"all_reduce of {length:,}, two processes", one, other)
            rows[f"all_reduce of {length:,} numbers, two processes"] = {"ratio": other / one}
    if rows:
        keep("all_reduce", rows)
    distributed.destroy_process_group()


def _print_row(name: str, one: float, other: float) -> None:
    ratio = f"{other / one:9.2f} times"
    print(f"{name:44}{one * 1e3:9.3f} ms{other * 1e3:9.3f} ms{ratio}", flush=True)


def main() -> None:
    """Time each sharding and size, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often each step is timed")
    parser.add_argument("--sizes", nargs="*", default=[*SIZES], choices=[*SIZES])
    parser.add_argument(
        "--busy", action="store_true", help="count the process's time on all cores, not the clock's"
    )
    parser.add_argument("--of-two", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.of_two:
        between_two_processes()
        return
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    print(f"{'':36}{'JAX by hand':>12}{'flambeau':>12}")
    clock = time.process_time if options.busy else time.perf_counter
    claims = []
    for size in options.sizes:
        for way in WAYS:
            steps = {"by hand": by_hand(size, way), "flambeau": with_flambeau(size, way)}
            losses = {name: [float(step()) for _ in range(3)] for name, step in steps.items()}
            np.testing.assert_allclose(losses["flambeau"], losses["by hand"], rtol=1e-4)
            waited = {name: _waited(step) for name, step in steps.items()}
            times = medians(waited, options.rounds, 0.3, clock)
            one, other = times["by hand"], times["flambeau"]
            print(f"{size + ', ' + way:36}{one * 1e3:9.2f} ms{other * 1e3:9.2f} ms", flush=True)
            claims.append((f"{size}, {way}", other / one))
    print()
    for name, ratio in claims:
        print(claim(name, ratio, LIMIT))
    print(f"\n{'eager communication':44}{'JAX by hand':>12}{'flambeau':>12}", flush=True)
    for length in LENGTHS:
        waited = {name: _waited(way) for name, way in adding(length).items()}
        times = medians(waited, options.rounds, 0.1, clock)
        row = f"sum of {length:,} over eight devices"
        _print_row(row, times["by hand"], times["flambeau"])
        claims.append((row, times["flambeau"] / times["by hand"]))
    if options.sizes == [*SIZES]:
        keep("scaling", {name: {"ratio": ratio} for name, ratio in claims})
    launcher = [sys.executable, "-m", "flambeau.distributed.run", "--nproc-per-node", "2"]
    subprocess.run([*launcher, __file__, "--of-two"], check=True)


def _waited(step):
    """A step that waits for its loss: eight devices on a few cores have no spare threads."""
    return lambda: jax.block_until_ready(step())


if __name__ == "__main__":
    main()
