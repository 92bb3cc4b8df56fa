"""Datasets for worker processes, which find them by import."""

from __future__ import annotations

import os
import random

import numpy as np

import flambeau
from flambeau.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset):
    """Squares, and what a worker knows of itself."""

    started = -1

    def __len__(self):
        return 9

    def __getitem__(self, index):
        info = get_worker_info()
        assert info is not None
        assert info.dataset is self
        return {
            "square": np.full(2, index**2),
            "worker": (info.id, info.num_workers),
            "seed": (info.seed, flambeau.initial_seed(), random.getrandbits(32)),
            "started": self.started,
            "platform": str(flambeau.ones(1).device) + os.environ["JAX_PLATFORMS"],
            "process": os.getpid(),
        }


def start(number):
    """For ``worker_init_fn``."""
    info = get_worker_info()
    assert info is not None
    info.dataset.started = number


class NotToBeSent(Exception):
    """Cannot be made of its message alone, as unpickling tries."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Troubles(Dataset):
    """Each sample is another trouble."""

    def __getitem__(self, index):
        match index:
            case "lookup":
                return {}[index]
            case "own":
                raise NotToBeSent(1, 2)
            case "unsendable":
                return lambda: 1
            case "stop":
                raise StopIteration
            case "death":
                os._exit(3)
        return index


class Stream(IterableDataset):
    """In each worker another number of samples."""

    def __init__(self, *lengths):
        self.lengths = lengths

    def __iter__(self):
        info = get_worker_info()
        number = 0 if info is None else info.id
        return iter(range(100 * number, 100 * number + self.lengths[number]))
