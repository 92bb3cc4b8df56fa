"""The part of a dataset for one of several processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from flambeau.random.generator import Generator
from flambeau.utils.data.sampler import Sampler, permutation

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index of a dataset, from ``rank`` on, for one process each.

    All processes get equally many: missing indices are taken from the beginning again, unless
    ``drop_last`` drops the surplus.

    Args:
        dataset: The dataset, which must have a length.
        num_replicas: The number of processes; by default that of the process group.
        rank: The index among the processes; by default this process's rank.
        shuffle: Whether the indices come in random order.
        seed: The seed of the order, together with the epoch; equal in all processes.
        drop_last: See above.

    Raises:
        ValueError: The rank is not below the number of processes; or one of the two is not given,
            and there is no process group.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from flambeau import distributed

            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"rank must be between 0 and {num_replicas - 1}, got {rank}")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(dataset)
        self.num_samples: int = (
            count // num_replicas if drop_last else math.ceil(count / num_replicas)
        )
        self.total_size: int = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            indices = permutation(count, Generator().manual_seed(self.seed + self.epoch))
        else:
            indices = list(range(count))
        if not self.drop_last and count:
            indices *= math.ceil(self.total_size / count)
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which changes the order; without it all epochs have the same order."""
        self.epoch: int = epoch
