"""Operators of layers, for `nn.functional`, in the forms that XLA is fast at."""
