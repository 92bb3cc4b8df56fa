"""PyTorch's rare and old names, imported on first use; see `flambeau._names`.

May import `core`, `ops`, `nn`, `amp` and `return_types`.
"""
