"""Signal processing under PyTorch's names: `torch.signal`."""

from flambeau.signal import windows as windows
