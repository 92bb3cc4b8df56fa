"""`torch._subclasses`: tensors without elements, which are on the meta device here."""

from flambeau.as_torch.private._subclasses.fake_tensor import FakeTensor as FakeTensor
from flambeau.as_torch.private._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
