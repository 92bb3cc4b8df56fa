"""Two processes of one device each call native kernels with their parts of the samples."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))

import each_of_two
import jax
import numpy as np

jax.config.update("jax_num_cpu_devices", 1)

import flambeau  # noqa: E402 - after the setting above
from flambeau import distributed, nn, optim  # noqa: E402
from flambeau.distributed.device_mesh import init_device_mesh  # noqa: E402
from flambeau.distributed.fsdp import fully_shard  # noqa: E402
from flambeau.nn import functional as F  # noqa: E402
from flambeau.nn.parallel import DistributedDataParallel  # noqa: E402
from flambeau.ops.native import call, cross_entropy, pooling, rows  # noqa: E402

for module in (cross_entropy, pooling, rows):
    module._FEWEST_ELEMENTS = 1
IMAGES = np.sin(np.arange(8 * 3 * 8 * 8, dtype=np.float32)).reshape(8, 3, 8, 8)
CLASSES = np.arange(8) % 4


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.back = nn.Conv2d(3, 16, 3, 2, 1), nn.ConvTranspose2d(16, 16, 2, 2)
        self.groups, self.norm = nn.GroupNorm(4, 16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.lstm, self.head = nn.LSTM(16, 16, bidirectional=True), nn.Linear(32, 16)

    def forward(self, x):
        x = F.max_pool2d(self.back(F.relu(self.groups(self.conv(x)))), 3, 1, 1)
        x = x.flatten(2).transpose(1, 2)
        x = self.norm(x)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.lstm(x.transpose(0, 1))[0].transpose(0, 1)
        return self.head(x.mean(1)).softmax(-1)


def train(place, batch, compiled):
    flambeau.manual_seed(3)
    model = place(Network())
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    run = flambeau.compile(step) if compiled else step
    losses = [run(*batch).item() for _ in range(3)]
    found = [each.detach() for each in model.parameters()]
    whole = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in found]
    return losses, [each.numpy() for each in whole]


def in_parts(rank):
    mine = slice(4 * rank, 4 * rank + 4)
    pair = flambeau.from_numpy(IMAGES[mine]), flambeau.from_numpy(CLASSES[mine])
    return next(iter(distributed.global_batches([pair])))


NAMES = {
    "attention", "attention_gradients", "convolution", "convolution_filters", "convolution_images",
    "cross_entropy_gradient", "log_sum", "lstm", "lstm_gradient", "lstm_weights", "max_pool",
    "max_pool_gradient", "softmax", "softmax_gradient", "standardize", "standardize_gradients",
    "standardize_groups", "standardize_groups_gradients",
}  # fmt: skip


def check(place, compiled=True):
    called = record_calls()
    found = train(place, in_parts(distributed.get_rank()), compiled)
    # Programs of eager operators may come from the disk.
    assert called >= NAMES or not compiled, NAMES - called
    whole = flambeau.from_numpy(IMAGES), flambeau.from_numpy(CLASSES)
    expected = train(lambda model: model, whole, compiled)
    for one, other in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def record_calls():
    """The kernels of which programs over both processes call one for each part, from now on."""
    called = set()
    how = call._how_to_divide

    def recording(context, kernel):
        called.add(kernel.name)
        return how(context, kernel)

    call._how_to_divide = recording
    return called


def data_parallel_compiled(rank):
    mesh = init_device_mesh("cpu", (2,))
    check(lambda model: DistributedDataParallel(model, device_mesh=mesh))


def data_parallel_eagerly(rank):
    mesh = init_device_mesh("cpu", (2,))
    check(lambda model: DistributedDataParallel(model, device_mesh=mesh), compiled=False)


def fully_sharded(rank):
    check(lambda model: fully_shard(model, mesh=init_device_mesh("cpu", (2,))))


if __name__ == "__main__":
    each_of_two.run([data_parallel_compiled, data_parallel_eagerly, fully_sharded])
