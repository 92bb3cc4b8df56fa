"""The facts that a worker knows of itself, under the name of PyTorch's private module."""

import numpy as np

from flambeau.utils.data.workers import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The four words that seed NumPy's generator in a worker."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4).tolist()
