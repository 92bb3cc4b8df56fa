"""PyTorch's private modules of loaders, as far as packages read them."""

from flambeau._absent import Absent as _Absent
from flambeau.utils.data._utils import collate as collate
from flambeau.utils.data._utils import pin_memory as pin_memory
from flambeau.utils.data._utils import worker as worker

__getattr__ = _Absent(__name__)
