"""Data sets, samplers and loaders (torch.utils.data)."""
from lazy_tensor.utils.data import distributed
from lazy_tensor.utils.data._utils.collate import default_collate, default_convert
from lazy_tensor.utils.data._utils.worker import get_worker_info
from lazy_tensor.utils.data.dataloader import DataLoader
from lazy_tensor.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from lazy_tensor.utils.data.distributed import DistributedSampler
from lazy_tensor.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
