"""Mixed precision: `autocast`, `GradScaler`, and what a `Function` of your own needs for it."""

from flambeau.amp.autocast_mode import autocast, is_autocast_available
from flambeau.amp.custom_function import custom_bwd, custom_fwd
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
