"""`import torch` under flambeau: this module forwards to `flambeau`.

Its folder is on ``sys.path`` and in ``PYTHONPATH``, so that child processes find it before an
installed PyTorch.
"""

from flambeau.as_torch.installation import become_torch

become_torch(__name__)
