"""Lines whose types pyright infers, in `make lint`. Another type is an error."""

from collections import OrderedDict
from typing import Any, assert_type

import flambeau
import flambeau.nn.functional as F
from flambeau import Tensor, nn

x = flambeau.zeros(2)
assert_type(x, Tensor)
assert_type(flambeau.zeros(2).exp(), Tensor)
assert_type(x.exp_(), Tensor)
assert_type(x + 1, Tensor)
assert_type(1 - x, Tensor)
assert_type(x @ x, Tensor)
assert_type(x[0], Tensor)
assert_type(-x, Tensor)
assert_type(x.sum(axis=0, keepdims=True), Tensor)
assert_type(x.view(1, 2), Tensor)
assert_type(F.gelu(x, approximate="tanh"), Tensor)
assert_type(F.cross_entropy(x, x), Tensor)
assert_type(flambeau.exp(x, out=x), Tensor)
assert_type(flambeau.relu_(x), Tensor)
assert_type(flambeau.hann_window(4), Tensor)
assert_type(flambeau.linalg.matmul(x, x), Tensor)
assert_type(x.stft(2), Tensor)
assert_type(x.topk(1).values, Tensor)
assert_type(flambeau.equal(x, x), bool)
assert_type(x.dtype, flambeau.dtype)
assert_type(nn.Linear(2, 3).in_features, int)


@flambeau.compile
def double(x: Tensor, times: int = 2) -> Tensor:
    return x * times


@flambeau.compile(fullgraph=True)
def halve(x: Tensor) -> Tensor:
    return x / 2


assert_type(double(x, times=3), Tensor)
assert_type(halve(x), Tensor)
assert_type(double.program_count, int)
assert_type(flambeau.compile(nn.Linear(2, 3)), nn.Linear)
assert_type(flambeau.compile(fullgraph=True)(nn.Linear(2, 3)), nn.Linear)
assert_type(flambeau.summary(nn.Linear(2, 3), x).total_params, int)
with flambeau.profile() as profiled:
    assert_type(profiled.rows()[0].path, str)


class Block(nn.Module):
    """A module as users write it."""

    mask: Tensor

    def __init__(self, size: int, device: str | None = None) -> None:
        super().__init__()
        self.layer = nn.Linear(size, size, device=device, dtype=flambeau.float32)
        self.layers = nn.ModuleList([nn.Conv2d(1, 1, (3, 3), padding="same") for _ in range(2)])
        self.pool = nn.MaxPool2d([2, 2], stride=1)
        self.scale = nn.Parameter(flambeau.ones(size), requires_grad=False)
        self.register_buffer("mask", flambeau.ones(size))

    def forward(self, x: Tensor, times: int = 1) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        x = self.pool(self.layers[0](x))
        return self.layer(x) * self.scale * self.mask * times

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return super().state_dict(*args, **kwargs)

    def _save_to_state_dict(
        self, destination: OrderedDict[str, Tensor], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)


def on_call(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
    return output + args[0]


def on_call_with_names(module: Block, args: Any, kwargs: dict[str, Any], output: Any) -> None: ...
def on_grads(module: nn.Linear, grad_input: tuple[Tensor | None, ...], _: Any) -> None: ...
def set_up(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.weight)


block = Block(2)
assert_type(block.to("cpu", flambeau.float64).cuda(0).eval().apply(set_up), Block)
assert_type(block.scale, nn.Parameter)
assert_type(next(block.modules()), nn.Module)
assert_type(block.get_submodule("layer"), nn.Module)
for _, child in block.named_children():
    child.weight.requires_grad_(False)
    child.layers[0](x)
for parameter in block.parameters():
    assert_type(parameter, nn.Parameter)
block.register_forward_hook(on_call)
block.register_forward_hook(on_call_with_names, with_kwargs=True)
block.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
block.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)
block.layer.register_full_backward_hook(on_grads).remove()
block.register_full_backward_pre_hook(lambda module, grads: grads[0])
block.load_state_dict(block.state_dict(prefix="", keep_vars=True), assign=True)
named = nn.Sequential(OrderedDict(one=nn.Linear(2, 2), two=nn.ReLU()))
named.one.weight.data.fill_(0)
named[0].weight.data.fill_(0)
output, (hidden, cell) = nn.LSTM(2, 3, device=flambeau.device("cpu"))(x)
nn.parallel.DistributedDataParallel(block)

double(x, times="3")  # pyright: ignore[reportArgumentType]
_ = x.no_such_method  # pyright: ignore[reportAttributeAccessIssue]
x.exp(3)  # pyright: ignore[reportCallIssue]
F.gelu(x, approximation="tanh")  # pyright: ignore[reportCallIssue]
