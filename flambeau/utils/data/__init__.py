"""Datasets, samplers and the loader of batches, with PyTorch's interface.

Samples and batches are prepared with NumPy, in this process or in workers, and returned as tensors.
Nothing here imports JAX, and little calls it: a row ``x[3]`` of a tensor is found in NumPy through
the steps of its view (`collate.py`), and a `TensorDataset` gives the rows of a batch at once.

`fetching.py` leads from an index to a batch, here and in workers. A worker (`workers.py`) answers
the indices from its pipe in order, and sends from a thread, so it continues while nobody reads. The
loader (`dataloader.py`) assigns indices to workers in rotation: the next batch is the next answer
of a known worker, so answers need no numbers. A closed pipe is the only sign of a lost worker.
"""

from flambeau._absent import Absent as _Absent
from flambeau.utils.data.collate import default_collate as default_collate
from flambeau.utils.data.collate import default_convert as default_convert
from flambeau.utils.data.dataloader import DataLoader as DataLoader
from flambeau.utils.data.dataset import ChainDataset as ChainDataset
from flambeau.utils.data.dataset import ConcatDataset as ConcatDataset
from flambeau.utils.data.dataset import Dataset as Dataset
from flambeau.utils.data.dataset import IterableDataset as IterableDataset
from flambeau.utils.data.dataset import StackDataset as StackDataset
from flambeau.utils.data.dataset import Subset as Subset
from flambeau.utils.data.dataset import TensorDataset as TensorDataset
from flambeau.utils.data.dataset import random_split as random_split
from flambeau.utils.data.distributed import DistributedSampler as DistributedSampler
from flambeau.utils.data.sampler import BatchSampler as BatchSampler
from flambeau.utils.data.sampler import RandomSampler as RandomSampler
from flambeau.utils.data.sampler import Sampler as Sampler
from flambeau.utils.data.sampler import SequentialSampler as SequentialSampler
from flambeau.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from flambeau.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from flambeau.utils.data.sequences import (
    LengthGroupedBatchSampler as LengthGroupedBatchSampler,
)
from flambeau.utils.data.sequences import PaddingCollator as PaddingCollator
from flambeau.utils.data.workers import get_worker_info as get_worker_info

__getattr__: _Absent = _Absent(__name__)
