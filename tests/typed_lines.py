"""Lines whose types pyright infers, in `make lint`. Another type is an error."""

from typing import assert_type

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

double(x, times="3")  # pyright: ignore[reportArgumentType]
_ = x.no_such_method  # pyright: ignore[reportAttributeAccessIssue]
x.exp(3)  # pyright: ignore[reportCallIssue]
F.gelu(x, approximation="tanh")  # pyright: ignore[reportCallIssue]
