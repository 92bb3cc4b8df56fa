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

_ = x.no_such_method  # pyright: ignore[reportAttributeAccessIssue]
x.exp(3)  # pyright: ignore[reportCallIssue]
F.gelu(x, approximation="tanh")  # pyright: ignore[reportCallIssue]
