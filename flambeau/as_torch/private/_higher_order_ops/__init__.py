"""Higher-order functions that PyTorch has not made public."""

from flambeau.as_torch.private._higher_order_ops.associative_scan import associative_scan
from flambeau.as_torch.private._higher_order_ops.out_dtype import out_dtype
from flambeau.func.control_flow import cond, map, scan, while_loop
from flambeau.func.flex_attention import flex_attention

__all__ = ["associative_scan", "cond", "flex_attention", "map", "out_dtype", "scan", "while_loop"]
