"""Train a GPT on eight devices of one machine, save it, and go on with four.

The eight devices are the CPU's, as XLA can divide it; on a machine with eight GPUs or TPUs, nothing
else changes. The batch is cut along one dimension of the mesh, and the matrices of each block along
the other; the last block has experts instead, some on each device. The checkpoint says nothing of
devices, so half of them can read it, cut in another way.
"""

import argparse
import time
from pathlib import Path

import jax

import flambeau
from flambeau import nn
from flambeau.distributed import checkpoint
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
from flambeau.nn import functional as F

try:
    from examples import gpt
except ImportError:  # run as a script
    import gpt

# Each device computes some of the hidden features and of the heads: what leads to them is cut by
# rows, what leads back by columns, so the devices add up what they have twice in each block.
RULES = {
    "*.attention.inputs.weight": ("model", None),
    "*.hidden.weight": ("model", None),
    "*.hidden.bias": ("model",),
    "*.output.weight": (None, "model"),
    # Each device has some of the experts, and the devices add up what these say.
    "*.experts.up": ("model",),
    "*.experts.down": ("model",),
}


class Experts(nn.Module):
    """Small networks, of which a router weighs the best two for each character.

    The weights of all experts are one parameter, cut by expert. Each device computes its own
    experts for all characters; those that the router has not chosen count nothing.
    """

    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(flambeau.randn(count, width, 2 * width) * 0.02)
        self.down = nn.Parameter(flambeau.randn(count, 2 * width, width) * 0.02)

    def forward(self, x):
        chances, chosen = self.router(x).softmax(-1).topk(2)
        shares = flambeau.zeros(*x.shape[:-1], len(self.up)).scatter(-1, chosen, chances)
        hidden = F.gelu(flambeau.einsum("nli,eih->nleh", x, self.up))
        return flambeau.einsum("nleh,eho,nle->nlo", hidden, self.down, shares)


class ExpertBlock(gpt.Block):
    """A block of the GPT with experts in the place of its two layers."""

    def __init__(self, width, heads, context, experts):
        super().__init__(width, heads, context)
        del self.hidden, self.output
        self.experts = Experts(width, experts)

    def forward(self, x, cache=None):
        x = x + self.attention(self.norm1(x), cache)
        return x + self.experts(self.norm2(x))


def make_mesh(rows, columns):
    """The first ``rows * columns`` devices: rows share the batch, columns the model."""
    numbers = [[i * columns + j for j in range(columns)] for i in range(rows)]
    kind = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
    return DeviceMesh(kind, numbers, mesh_dim_names=("data", "model"))


def make_model(mesh, text, options):
    """The model on a mesh. It is built without elements, so that each device gets its own only."""
    with flambeau.device("meta"):
        model = gpt.GPT(len(text.vocabulary), options.context, options.width, options.layers)
        last = ExpertBlock(options.width, 4, options.context, options.experts)
        model.blocks.append(last)
    flambeau.shard(model, mesh, RULES)
    return model


def show(model):
    """Print which part of each parameter a device has."""
    print(f"{'parameter':34}{'whole':>14}{'on a device':>16}   placed")
    mesh = next(model.parameters()).device_mesh
    for name, param in model.named_parameters():
        part = tuple(param.to_local().shape)
        cuts = [
            f"{axis} cuts dimension {each.dim}"
            for axis, each in zip(mesh.mesh_dim_names, param.placements, strict=True)
            if each.is_shard()
        ]
        where = ", ".join(cuts) or "the whole on each device"
        print(f"{name:34}{tuple(param.shape)!s:>14}{part!s:>16}   {where}")
    whole = sum(each.numel() for each in model.parameters())
    local = sum(each.to_local().numel() for each in model.parameters())
    print(f"{whole:,} parameters, {local:,} of them on each of {mesh.size()} devices\n")


def train(model, optimizer, text, mesh, steps, batch):
    """Some steps; gives the mean loss of the first and the last quarter of them."""
    characters = distribute_tensor(text.train, mesh)

    @flambeau.compile
    def step():
        starts = flambeau.randint(0, len(characters) - model.context, (batch,))
        starts = starts.redistribute(mesh, [Shard(0), Replicate()])
        loss = gpt.prediction_loss(model, characters, starts)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    start = time.perf_counter()
    # Asked for at each step: eight devices on a few cores have no threads for steps that overlap.
    losses = [step().item() for _ in range(steps)]
    seconds = time.perf_counter() - start
    quarter = max(steps // 4, 1)
    first, last = sum(losses[:quarter]) / quarter, sum(losses[-quarter:]) / quarter
    print(
        f"{steps} steps on {mesh.size()} devices in {seconds:.1f} s, compiling included: "
        f"loss {first:.3f} at first, {last:.3f} at last; {step.program_count} program\n"
    )
    return first, last


def main(arguments=None):
    """The whole job."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--steps", type=int, default=120, help="training steps on eight devices, and on four")
    add("--batch", type=int, default=16, help="windows of text per step, a multiple of 4")
    add("--context", type=int, default=64, help="characters that the model sees at once")
    add("--width", type=int, default=64, help="features per character, a multiple of 8")
    add("--layers", type=int, default=1, help="blocks of attention and a hidden layer")
    add("--experts", type=int, default=8, help="experts in the last block, a multiple of 4")
    add("--rate", type=float, default=3e-3, help="learning rate")
    add("--output", type=Path, default=Path("many-devices-output"), help="folder for the results")
    options = parser.parse_args(arguments)
    flambeau.manual_seed(0)
    text = gpt.Text(gpt.TEXT.read_text(encoding="utf-8"))

    mesh = make_mesh(4, 2)
    print(mesh)
    model = make_model(mesh, text, options).materialize()
    show(model)
    optimizer = flambeau.optim.AdamW(model.parameters(), lr=options.rate)
    _, before = train(model, optimizer, text, mesh, options.steps, options.batch)
    state = {"model": model, "optimizer": optimizer, "steps": options.steps}
    checkpoint.save(state, checkpoint_id=options.output)
    print(f"saved to {options.output}\n")

    # As in another process; the random numbers so far were drawn on the eight devices.
    flambeau.manual_seed(1)
    mesh = make_mesh(1, 4)
    print(mesh)
    model = make_model(mesh, text, options)
    optimizer = flambeau.optim.AdamW(model.parameters(), lr=1.0)
    state = {"model": model, "optimizer": optimizer, "steps": 0}
    checkpoint.load(state, checkpoint_id=options.output)
    model.materialize()  # what checkpoints do not have: the angles of the positions
    show(model)
    print(f"going on after step {state['steps']}, with a rate of {optimizer.param_groups[0]['lr']}")
    after, last = train(model, optimizer, text, mesh, options.steps, options.batch)
    print(f"the loss went on from {before:.3f} to {after:.3f} and {last:.3f}")


if __name__ == "__main__":
    if jax.config.jax_num_cpu_devices < 8:
        jax.config.update("jax_num_cpu_devices", 8)
    main()
