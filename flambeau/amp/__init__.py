"""Mixed precision: `autocast`, `GradScaler`, and decorators for a custom `Function`.

Inside `autocast` every operator's call takes the second half of dispatch, which first converts the
inputs by PyTorch's tables of operators (`policies.py`). May import `core` and `ops`.
"""

from flambeau.amp.autocast_mode import autocast, is_autocast_available
from flambeau.amp.custom_function import custom_bwd, custom_fwd
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
