"""Operators of layers: what `nn.functional` computes, in the forms that XLA is fast at."""
