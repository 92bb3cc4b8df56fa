"""flambeau under the name torch, for programs that were written for PyTorch.

``python -m flambeau script.py`` runs a script so, `install_as_torch` does it for a notebook, and
``pytest -p flambeau.as_torch`` for tests: from then on ``import torch``, and everything below it,
is flambeau.
"""

from flambeau.as_torch.installation import install_as_torch, uninstall_as_torch

__all__ = ["install_as_torch", "uninstall_as_torch"]


def pytest_load_initial_conftests() -> None:
    """Install before pytest imports any ``conftest.py``."""
    install_as_torch()
