"""Settings of convolutions on NVIDIA GPUs.

``cudnn.deterministic = True`` is a demand: there is a warning if GPUs cannot meet it; see
`use_deterministic_algorithms`. ``cudnn.benchmark`` keeps what it is given and changes nothing: XLA
measures its algorithms in any case.
"""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

from flambeau.cuda.devices import is_available
from flambeau.numerics import gpus_are_deterministic

__all__ = ["benchmark", "deterministic", "enabled", "is_available"]

#: Whether to measure algorithms of convolutions, which XLA does on GPUs in any case.
benchmark: bool = False
#: Whether NVIDIA's library is used, which XLA decides.
enabled: bool = True
#: Whether convolutions must give the same result each time.
deterministic: bool = False


class _Settings(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "deterministic" and value and not gpus_are_deterministic():
            warnings.warn(
                "cudnn.deterministic: programs on GPUs are deterministic only if XLA_FLAGS "
                "contains --xla_gpu_deterministic_ops=true when JAX starts",
                stacklevel=2,
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings
