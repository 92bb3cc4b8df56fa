"""Without PyTorch the modules that run it are not searched for doctests."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["as_documented.py", "rounding.py"]
