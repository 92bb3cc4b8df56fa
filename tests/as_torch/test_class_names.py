"""Under the name torch, classes and functions are where they say that they are."""

from tests.as_torch.test_installation import run

CODE = """
import pickle, sys, typing
from importlib import import_module
import torch, flambeau
from flambeau.core.support import naming

for room in (
    "distributions optim.swa_utils cuda.amp jit fx profiler autograd.profiler hub sparse nested "
    "utils.data.distributed utils.benchmark nn.utils.prune nn.utils.parametrizations nn.parallel "
    "nn.attention.bias nn.attention.flex_attention export masked multiprocessing testing futures "
    "utils.flop_counter nn.utils.stateless autograd.forward_ad quasirandom"
).split():
    import_module(f"torch.{room}")

lost = []
for each in [*naming.homes]:
    found = import_module(each.__module__)
    for part in each.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not each and not each.__name__.startswith("_"):
        lost.append((each.__module__, each.__qualname__))
print(lost)
print(torch.Tensor, torch.nn.Linear)
print(torch.nn.Module, torch.optim.Adam, torch.Size)
print(torch.nn.CrossEntropyLoss)
print(torch.distributions.HalfCauchy, torch.optim.lr_scheduler.StepLR)
print(torch.relu.__module__, torch.nn.functional.relu.__module__, torch.OutOfMemoryError)
print(torch.finfo(torch.float16))
print(torch.ones(1, 2).max(1), torch.Generator())
print("training" in typing.get_type_hints(torch.nn.Linear), torch.torch_version.TorchVersion)
flambeau.uninstall_as_torch()
print(flambeau.nn.Linear, flambeau.Tensor.__module__, naming.homes)
assert b"torch" not in pickle.dumps(flambeau.nn.Linear(1, 1))
"""

EXPECTED = """\
[]
<class 'torch.Tensor'> <class 'torch.nn.modules.linear.Linear'>
<class 'torch.nn.modules.module.Module'> <class 'torch.optim.adam.Adam'> <class 'torch.Size'>
<class 'torch.nn.modules.loss.CrossEntropyLoss'>
<class 'torch.distributions.half_cauchy.HalfCauchy'> <class 'torch.optim.lr_scheduler.StepLR'>
torch torch.nn.functional <class 'torch.OutOfMemoryError'>
finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, \
smallest_normal=6.10352e-05, tiny=6.10352e-05, dtype=float16)
torch.return_types.max(
values=tensor([1.]),
indices=tensor([0])) <torch.Generator device=cpu seed=67280421310721>
True <class 'torch.torch_version.TorchVersion'>
<class 'flambeau.nn.modules.linear.Linear'> flambeau.core.values.tensor {}
"""


def test_classes_and_functions_have_pytorchs_modules_until_it_is_undone():
    out, _ = run("-m", "flambeau", code=CODE)
    assert out == EXPECTED
