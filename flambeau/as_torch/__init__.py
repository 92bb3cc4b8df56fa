"""flambeau under the name torch, for programs written for PyTorch.

Use ``python -m flambeau script.py`` for a script, `install_as_torch` in a notebook, and ``pytest -p
flambeau.as_torch`` for tests: ``import torch`` and its submodules then resolve to flambeau.

- The folder `path` has a package `torch` and its metadata. It is the first entry of ``sys.path``,
  and is put into ``PYTHONPATH`` for child processes.
- `installation.py`: the package replaces itself by a `Torch`, a module with a name and a version of
  its own that shares flambeau's attributes, including those that are set later.
- `finder.py`: modules below `torch` are flambeau's own, so patches take effect there, and guards of
  compiled functions see them. A function with the name of a submodule (`torch.compile`) keeps its
  place when the submodule is imported (`KeepingModule`).
- `private` has private modules that packages import, such as ``torch._C``, under this name only.
- `core/support/naming.py` has the name in texts such as ``torch.float32``.
"""

from flambeau.as_torch.installation import install_as_torch, uninstall_as_torch

__all__ = ["install_as_torch", "uninstall_as_torch"]


def pytest_load_initial_conftests() -> None:
    """Install before pytest imports any ``conftest.py``."""
    install_as_torch()
