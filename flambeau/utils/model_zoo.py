"""Older names of functions of `flambeau.hub`."""

from flambeau.hub import load_state_dict_from_url as load_url
from flambeau.hub import tqdm

__all__ = ["load_url", "tqdm"]
