"""Datasets, samplers and the loader that makes batches of them, as PyTorch has them.

Samples and batches are prepared with NumPy, in this process or in others; what arrives are tensors.
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
from flambeau.utils.data.workers import get_worker_info as get_worker_info

__getattr__: _Absent = _Absent(__name__)
