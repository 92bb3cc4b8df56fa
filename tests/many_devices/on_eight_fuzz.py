"""Random programs over tensors that lie on eight devices in random ways, beside one device.

    FLAMBEAU_MANY_DEVICES=1 python -m tests.many_devices.on_eight_fuzz FIRST LAST

runs the programs with these numbers and prints those that disagree; each number is one program.
"""

import random
import sys

import jax
import numpy as np
import pytest

import flambeau
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
from flambeau.nn import functional as F

MESHES = {(8,): ("a",), (4, 2): ("a", "b"), (2, 2, 2): ("a", "b", "c")}
UNARY = {
    "tanh": lambda x: x.tanh(), "transpose": lambda x: x.t(), "softmax": lambda x: x.softmax(0),
    "flip": lambda x: x.flip(0), "roll": lambda x: x.roll(3, 1), "sort": lambda x: x.sort(1)[0],
    "fold": lambda x: x.reshape(4, 16).t().reshape(8, 8),
    "rows": lambda x: x[[7, 0, 0, 3, 2, 6, 1, 5]],
    "halves": lambda x: flambeau.cat([x[5:], x[:5]]), "norm": lambda x: F.layer_norm(x, (8,)),
    "mean": lambda x: x - x.mean(0), "cumsum": lambda x: x.cumsum(0).tanh(), "same": lambda x: x,
}  # fmt: skip
BINARY = {
    "add": lambda x, y: x + y, "product": lambda x, y: (x @ y).tanh(),
    "less": lambda x, y: x.lerp(y, 0.3),
    "where": lambda x, y: flambeau.where(x > y, x, y * 0.5),
    "stack": lambda x, y: flambeau.cat([x[:3], y[3:]]),
}  # fmt: skip
WRITES = {
    "row": lambda x, y: x[2].copy_(y[3]), "block": lambda x, y: x[1:7, ::2].mul_(y[:6, :4]),
    "mask": lambda x, y: x.masked_fill_(y > 0, 0.5), "column": lambda x, y: x.t()[5].add_(y[1]),
    "diagonal": lambda x, y: x.diagonal().sub_(y[0]), "line": lambda x, y: x.view(-1)[9:17].zero_(),
    "set": lambda x, y: x.__setitem__([1, 4], y[:2]), "whole": lambda x, y: x.mul_(0.9).add_(y),
}  # fmt: skip


class Program:
    """One random program, run on one device and on a mesh, step by step.

    Args:
        number: Which one.
    """

    def __init__(self, number):
        self.random = random.Random(number)
        draw = np.random.default_rng(number).standard_normal
        shape = self.random.choice([*MESHES])
        self.mesh = init_device_mesh("cpu", shape, mesh_dim_names=MESHES[shape])
        self.one = [flambeau.from_numpy(draw((8, 8), np.float32)) for _ in range(3)]
        self.many = [distribute_tensor(each, self.mesh, self.places()) for each in self.one]
        # One lies on one device, as masks and constants do.
        self.many[2] = self.one[2].clone()
        self.done = []

    def places(self):
        """Placements on the mesh; a dimension of a tensor is cut by what divides 8."""
        return [self.random.choice([Replicate(), Shard(0), Shard(1)]) for _ in self.mesh.shape]

    def run(self, steps):
        """Some steps, each compared."""
        for _ in range(steps):
            kind = self.random.choice(["unary", "binary", "write", "move", "gradient", "compiled"])
            getattr(self, kind)()
            for i, (one, many) in enumerate(zip(self.one, self.many, strict=True)):
                np.testing.assert_allclose(
                    many.detach().numpy(), one.detach().numpy(), 2e-4, 2e-4,
                    err_msg=f"tensor {i} after {self.done} on {self.mesh}",
                )  # fmt: skip

    def pick(self, table, count):
        """An operation, and the numbers of its operands."""
        name = self.random.choice([*table])
        operands = [self.random.randrange(3) for _ in range(count)]
        self.done.append((name, *operands))
        return table[name], operands

    def unary(self):
        function, (i,) = self.pick(UNARY, 1)
        target = self.random.randrange(3)
        self.done.append(f"to {target}")
        for tensors in (self.one, self.many):
            tensors[target] = function(tensors[i]).clone()

    def binary(self):
        function, (i, j) = self.pick(BINARY, 2)
        target = self.random.randrange(3)
        self.done.append(f"to {target}")
        for tensors in (self.one, self.many):
            tensors[target] = function(tensors[i], tensors[j])

    def write(self):
        function, (i, j) = self.pick(WRITES, 2)
        before = getattr(self.many[i], "placements", None)
        for tensors in (self.one, self.many):
            function(tensors[i], tensors[j].clone())
        if before is not None:
            assert self.many[i].placements == before, self.done

    def move(self):
        i, places = self.random.randrange(3), self.places()
        self.done.append(("move", i, places))
        self.many[i] = self.many[i].detach().clone()
        self.many[i] = distribute_tensor(self.many[i], self.mesh, places)
        self.one[i] = self.one[i].clone()

    def gradient(self):
        first, (i,) = self.pick(UNARY, 1)
        second, (_, j) = self.pick(BINARY, 2)
        found = []
        for tensors in (self.one, self.many):
            x, y = (tensors[each].detach().clone().requires_grad_() for each in (i, j))
            second(first(x), y).square().mean().backward()
            found += [x.grad, y.grad]
        for one, many in zip(found[:2], found[2:], strict=True):
            np.testing.assert_allclose(
                many.numpy(), one.numpy(), 2e-4, 2e-4, err_msg=str(self.done)
            )

    def compiled(self):
        first, (i,) = self.pick(UNARY, 1)
        second, (_, j) = self.pick(BINARY, 2)
        third, _ = self.pick(WRITES, 2)

        @flambeau.compile
        def function(x, y):
            z = second(first(x), y)
            third(y, z)
            return z

        for tensors in (self.one, self.many):
            tensors[i] = function(tensors[i], tensors[j])


@pytest.mark.parametrize("number", range(6))
def test_random_programs_give_the_results_of_one_device(number):
    Program(number).run(8)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    for number in range(*map(int, sys.argv[1:3])):
        try:
            Program(number).run(12)
        except Exception as error:  # noqa: BLE001 - the search goes on
            sys.stdout.write(f"program {number}: {type(error).__name__}: {str(error)[:1500]}\n")
            sys.stdout.flush()
