"""The memory and communication of a 70B transformer on 256 devices, without the devices.

The model is created on the meta device and sharded over a mesh of 256 simulated devices, 32 for
data parallelism by 8 for tensor parallelism, and its training step with AdamW is compiled but never
run. Shapes are those of Llama 3 70B, in single precision, with the activations of blocks recomputed
in backward. The memory is XLA's own analysis for one device; the communication is counted in the
program. XLA compiles for CPUs here, which all-reduce gradients where GPUs and TPUs reduce-scatter
them, so ``all-reduce`` also stands for the reduce-scatter of the parameters' gradients. Gradients
are not clipped: XLA for CPUs slices a sum where it is used, for the norm and for the step, so the
full sum stays alive between the two, half a GiB for each block; ``--clip`` shows it.

Run it as ``python benchmarks/plan_70b.py``; ``--layers 4`` takes a minute, all 80 blocks take ten
to twenty.
"""

from __future__ import annotations

import argparse
import collections
import re
import resource
import time

import jax

# Blocks need their parameters one after another, so these are gathered one after another, as on
# GPUs and TPUs: XLA's compiler for CPUs would combine as many collectives as it can.
OPTIONS = {
    "xla_disable_hlo_passes": "cpu-all-reduce-combiner",
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
    # The code is never run.
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
BYTES = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "pred": 1, "s64": 8, "f64": 8, "u64": 8}
GIB = 2**30


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--layers", type=int, default=80, help="blocks")
    add("--width", type=int, default=8192, help="features of a token")
    add("--hidden", type=int, default=28672, help="features between the layers of a block")
    add("--heads", type=int, default=64, help="heads of attention; an eighth as many have keys")
    add("--vocabulary", type=int, default=128256, help="different tokens")
    add("--context", type=int, default=4096, help="tokens in a sequence")
    add("--batch", type=int, default=32, help="sequences in a batch of all devices")
    add("--data", type=int, default=32, help="devices that share the batch")
    add("--model", type=int, default=8, help="devices that share each layer")
    parser.add_argument("--clip", action="store_true", help="clip the gradients by their norm")
    return parser.parse_args()


def peak() -> float:
    """The peak memory of this process, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def make(options: argparse.Namespace, mesh):
    """The model on the meta device, sharded over the mesh, and its step."""
    import flambeau
    from flambeau import nn, optim
    from flambeau.distributed.fsdp import fully_shard
    from flambeau.distributed.tensor import Shard, distribute_tensor
    from flambeau.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )
    from flambeau.nn import functional as F
    from flambeau.utils.checkpoint import checkpoint

    width, heads = options.width, options.heads
    size = width // heads

    def linear(inputs, outputs):
        return nn.Linear(inputs, outputs, bias=False)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
            self.queries, self.out = linear(width, width), linear(width, width)
            self.keys, self.values = linear(width, width // 8), linear(width, width // 8)
            self.gate, self.up = linear(width, options.hidden), linear(width, options.hidden)
            self.down = linear(options.hidden, width)

        def forward(self, x, angles):
            y = self.norm(x)
            q = rotated(self.queries(y).unflatten(-1, (heads, size)), angles).transpose(1, 2)
            k = rotated(self.keys(y).unflatten(-1, (heads // 8, size)), angles).transpose(1, 2)
            v = self.values(y).unflatten(-1, (heads // 8, size)).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            y = self.mlp_norm(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def rotated(x, angles):
        one, two = x.chunk(2, -1)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        return flambeau.cat([one * cos - two * sin, one * sin + two * cos], -1)

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(options.vocabulary, width)
            self.blocks = nn.ModuleList(Block() for _ in range(options.layers))
            self.norm, self.head = nn.RMSNorm(width), linear(width, options.vocabulary)

        def forward(self, x):
            rates = 500_000 ** -(flambeau.arange(size // 2) * 2 / size)
            angles = flambeau.arange(x.shape[1])[:, None] * rates
            x = self.tokens(x)
            for block in self.blocks:
                x = checkpoint(block, x, angles, use_reentrant=False)
            return self.head(self.norm(x))

    with flambeau.device("meta"):
        model = Transformer()
    rows, columns = ColwiseParallel(), RowwiseParallel()
    plan = {f"*.{each}": rows for each in ("queries", "keys", "values", "gate", "up")}
    plan |= {"*.out": columns, "*.down": columns, "tokens": rows, "head": rows}
    parallelize_module(model, mesh["model"], plan)
    for block in model.blocks:
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    optimizer = optim.AdamW(model.parameters(), lr=1e-4)

    @flambeau.compile
    def step(tokens):
        scores = model(tokens[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        if options.clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    shape = options.batch, options.context + 1
    tokens = flambeau.empty(shape, dtype=flambeau.int64, device="meta")
    return model, step, distribute_tensor(tokens, mesh["data"], [Shard(0)])


def sent(text: str) -> dict[str, tuple[int, int]]:
    """The number of collectives of each kind in a program, and the bytes of a device's results."""
    found: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    kinds = "all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
    for shapes, kind in re.findall(rf" = (.*?) ({kinds})(?:-start)?\(", text):
        found[kind][0] += 1
        for dtype, sizes in re.findall(r"(\w+)\[([\d,]*)\]", shapes):
            count = 1
            for each in filter(None, sizes.split(",")):
                count *= int(each)
            found[kind][1] += count * BYTES[dtype]
    return {kind: (times, size) for kind, (times, size) in sorted(found.items())}


def main() -> None:
    """Compile the step and print the program's analysis."""
    options = parse()
    devices = options.data * options.model
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)

    import flambeau
    from flambeau.distributed.device_mesh import init_device_mesh

    names = ("data", "model")
    mesh = init_device_mesh("cpu", (options.data, options.model), mesh_dim_names=names)
    began = time.perf_counter()

    def done(what):
        seconds = time.perf_counter() - began
        print(
            f"{what}: {seconds:,.0f} s since the start, host memory up to {peak():.2f} GiB",
            flush=True,
        )

    model, step, tokens = make(options, mesh)
    count = sum(each.numel() for each in model.parameters())
    part = sum(each.numel() // _devices_that_cut(each) for each in model.parameters())
    print(f"{count:,} parameters on {mesh}, {part:,} of them on each device")
    done("built and placed")
    lowered = flambeau.compiler.lower(step, tokens)
    done("traced")
    program = lowered.compile(compiler_options=OPTIONS)
    done("compiled")
    memory = program.memory_analysis()
    state = memory.argument_size_in_bytes
    print(f"\nper device, in GiB, for {options.batch} sequences of {options.context} tokens:")
    print(f"  parameters, AdamW's state and the batch  {state / GIB:8.2f}")
    print(f"  everything else while a step runs        {memory.temp_size_in_bytes / GIB:8.2f}")
    print("per device and step, the results of")
    for kind, (times, size) in sent(program.as_text()).items():
        print(f"  {times:6,} {kind:20} {size / GIB:21.2f} GiB")


def _devices_that_cut(parameter) -> int:
    found = 1
    for size, placement in zip(parameter.device_mesh.shape, parameter.placements, strict=True):
        found *= size if placement.is_shard() else 1
    return found


if __name__ == "__main__":
    main()
