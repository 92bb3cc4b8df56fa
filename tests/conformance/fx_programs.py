"""Modules and functions that both libraries trace.

Each row is made by a function of the library, which gives the program and its inputs.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[Any], tuple[Any, ...]]] = {}


def program(make: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    PROGRAMS[make.__name__] = make
    return make


def ramp(lib: Any, *shape: int) -> Any:
    """Numbers between -1 and 1."""
    count = math.prod(shape)
    return (lib.arange(count, dtype=lib.float32) * 0.7).sin().reshape(shape)


@program
def operators(lib):
    def f(x, y):
        a = (x + y) * 2 - y / 3
        b = -(a**2) @ y.t()
        return 2 - b, 1.5 * x, abs(x), x < 0, ~(x >= y), (x == y) | (x != y), +x

    return f, ramp(lib, 2, 2), ramp(lib, 2, 2) + 0.1


@program
def whole_numbers(lib):
    def f(x):
        return x // 3, x % 5, x & 6, x | 1, x ^ 2, x << 1, x >> 1, 7 // (x + 1), 2**x

    return f, lib.arange(4)


@program
def augmented_assignment(lib):
    def f(x):
        y = x + 1
        y += 2
        y *= x
        y -= 1
        return y

    return f, ramp(lib, 3)


@program
def indexing(lib):
    def f(x):
        return x[0], x[:, 1], x[..., None], x[1:, ::2], x[x.shape[0] - 1], x[[0, 1]]

    return f, ramp(lib, 2, 4)


@program
def unpacking(lib):
    def f(x):
        a, b = x.chunk(2)
        n, m = x.shape
        return a * n, b * m

    return f, ramp(lib, 2, 4)


@program
def methods(lib):
    def f(x):
        y = x.view(-1).relu().to(lib.float64)
        return y.mean(dim=0, keepdim=True).to(dtype=lib.float32).size(0), x.T, x.device

    return f, ramp(lib, 2, 4)


@program
def functions(lib):
    def f(x):
        y = lib.cat([x, lib.relu(x)], dim=1)
        z = lib.stack((y, y)).sum(0)
        return lib.where(z > 0, z, lib.zeros_like(z)), lib.flatten(x), lib.topk(y, 2)

    return f, ramp(lib, 2, 4)


@program
def namespaces(lib):
    def f(x):
        return lib.special.bessel_j0(x) + lib.fft.fft(x).real, lib.linalg.vector_norm(x)

    return f, ramp(lib, 4)


@program
def layers_of_functional(lib):
    F = lib.nn.functional

    def f(x):
        y = F.relu(x) + F.gelu(x) + F.silu(x) + F.elu(x) + F.leaky_relu(x, 0.2)
        y = F.softmax(y, dim=-1) + F.log_softmax(y, -1) + F.normalize(y)
        return F.dropout(y, 0.5, training=False), F.layer_norm(y, (4,)), F.pad(y, (1, 1))

    return f, ramp(lib, 2, 4)


@program
def images(lib):
    F = lib.nn.functional

    def f(x):
        y = F.max_pool2d(x, 2) + F.avg_pool2d(x, 2)
        return F.adaptive_avg_pool2d(y, 1), F.interpolate(x, scale_factor=2.0)

    return f, ramp(lib, 1, 2, 4, 4)


@program
def losses(lib):
    F = lib.nn.functional

    def f(x, y):
        return F.mse_loss(x, y) + F.huber_loss(x, y, "sum") + F.smooth_l1_loss(x, y)

    return f, ramp(lib, 2, 4), ramp(lib, 2, 4) * 2


@program
def sizes_from_inputs(lib):
    def f(x):
        return lib.zeros((x.shape[0], 3)), lib.arange(x.size(1)), x.reshape(x.size(0), -1)

    return f, ramp(lib, 2, 4)


@program
def tensors_from_outside(lib):
    weight = ramp(lib, 4)

    def f(x):
        return lib.add(x, weight) * weight

    return f, ramp(lib, 4)


@program
def defaults_and_annotations(lib):
    def f(x: lib.Tensor, scale: float = 2.0, *, shift: int = 1) -> lib.Tensor:
        return x * scale + shift

    return f, ramp(lib, 4)


@program
def lists_of_annotations(lib):
    def f(x: list[lib.Tensor], y: lib.Tensor | None = None) -> tuple[lib.Tensor, int]:
        return x[0] + 1, 3

    return f, [ramp(lib, 4)]


@program
def starred(lib):
    def f(x, *others, **options):
        return x + others[0]

    return f, ramp(lib, 4), ramp(lib, 4)


@program
def structures(lib):
    def f(x):
        return {"a": x, "b": [x + 1, (x, None)]}, 3, "text", slice(None), lib.float32, math.inf

    return f, ramp(lib, 4)


@program
def mathematics(lib):
    def f(x):
        return x * math.sqrt(x.shape[0]) + math.pi

    return f, ramp(lib, 4)


@program
def names_that_are_taken(lib):
    def f(input, list, x_1):
        x = input + list
        return x.sum() + x_1, x.max(), operator.neg(x)

    return f, ramp(lib, 4), ramp(lib, 4), ramp(lib, 4)


@program
def one_layer(lib):
    return lib.nn.Linear(4, 3), ramp(lib, 2, 4)


@program
def a_sequence(lib):
    nn = lib.nn
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 2), nn.Tanh()))
    return model, ramp(lib, 2, 4)


@program
def a_block_with_a_shortcut(lib):
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(2, 2, 3, padding=1)
            self.bn1 = nn.BatchNorm2d(2)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(2, 2, 3, padding=1)

        def forward(self, x):
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.conv2(out)
            out += x
            return self.relu(out)

    return Block().eval(), ramp(lib, 1, 2, 4, 4)


@program
def parameters_and_buffers(lib):
    nn = lib.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.weight = nn.Parameter(lib.ones(4))
            self.register_buffer("mean", lib.ones(4))
            self.plain = lib.ones(4)

        def forward(self, x):
            y = self.linear(x) * self.weight + self.linear.bias
            return y.sub(self.mean), lib.add(y, self.plain), y * self.weight

    return Model(), ramp(lib, 2, 4)


@program
def modules_in_containers(lib):
    nn = lib.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.named = nn.ModuleDict({"head": nn.Linear(4, 2)})

        def forward(self, x):
            for layer in self.layers:
                x = layer(x).relu()
            return self.named["head"](x)

    return Model(), ramp(lib, 2, 4)


@program
def modules_in_modules(lib):
    nn = lib.nn

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, scale=1.0):
            return self.linear(x) * scale

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Inner()
            self.second = self.first

        def forward(self, x):
            return self.second(self.first(x, scale=0.5))

    return Outer(), ramp(lib, 2, 4)


@program
def attention(lib):
    nn, F = lib.nn, lib.nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(4, 12)
            self.heads = 2

        def forward(self, x):
            b, n, c = x.shape
            qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            fused = F.scaled_dot_product_attention(q, k, v)
            scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
            return fused.transpose(1, 2).reshape(b, n, c), scores.softmax(dim=-1) @ v

    return Attention(), ramp(lib, 1, 3, 4)


@program
def a_layer_of_a_transformer(lib):
    nn = lib.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(4)
            self.mlp = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 4))

        def forward(self, x):
            return x + self.mlp(self.norm(x))

    return Layer().eval(), ramp(lib, 2, 4)


@program
def embeddings(lib):
    nn = lib.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(5, 4)
            self.places = nn.Parameter(lib.zeros(1, 3, 4))

        def forward(self, ids):
            return (self.words(ids) + self.places).mean(1)

    return Model(), lib.tensor([[0, 1, 2]])


@program
def einsums(lib):
    def f(x, y):
        z = lib.einsum("ij,kj->ik", [x, y])
        return z, lib.einsum("ij,kj->ik", x, y), lib.matmul(x, y.T), lib.bmm(x[None], y.T[None])

    return f, ramp(lib, 2, 4), ramp(lib, 3, 4)


@program
def nothing(lib):
    def f(x):
        return x

    return f, ramp(lib, 2)
