"""PyTorch's rare and old names, each imported when it is first asked for; see `flambeau._names`."""
