"""The facts that a worker knows of itself, under the name of PyTorch's private module."""

from flambeau.utils.data.workers import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
