"""Operators of layers, for `nn.functional`, in forms that are fast under XLA."""
