"""`import torch`, where flambeau stands in: this module is found, and forwards to `flambeau`.

Its folder is on ``sys.path`` and in ``PYTHONPATH``, so that processes which are started meanwhile
find it before a PyTorch that is installed.
"""

from flambeau.as_torch.installation import become_torch

become_torch(__name__)
