"""Small things that PyTorch users look for under ``utils``."""

from flambeau.utils import hooks as hooks
