"""Flattening and unflattening nested containers, as in `torch.utils._pytree`.

Dictionaries keep the order of their keys; ``None`` and tensors are leaves. A class registered here
is also registered for JAX, `flambeau.func` and `flambeau.compile`.
"""

from flambeau._absent import Absent as _Absent
from flambeau.utils._pytree.keys import *
from flambeau.utils._pytree.mapping import *
from flambeau.utils._pytree.named_tuples import *
from flambeau.utils._pytree.nodes import *
from flambeau.utils._pytree.nodes import _dict_flatten as _dict_flatten
from flambeau.utils._pytree.nodes import _dict_flatten_with_keys as _dict_flatten_with_keys
from flambeau.utils._pytree.nodes import _dict_unflatten as _dict_unflatten
from flambeau.utils._pytree.nodes import _get_node_type as _get_node_type
from flambeau.utils._pytree.nodes import _list_flatten as _list_flatten
from flambeau.utils._pytree.nodes import _list_unflatten as _list_unflatten
from flambeau.utils._pytree.nodes import _register_pytree_node as _register_pytree_node
from flambeau.utils._pytree.nodes import (
    _sequence_flatten_with_keys as _list_flatten_with_keys,  # noqa: F401 (PyTorch's name)
)
from flambeau.utils._pytree.serialization import *
from flambeau.utils._pytree.serialization import _register_namedtuple as _register_namedtuple
from flambeau.utils._pytree.specs import *
from flambeau.utils._pytree.specs import _broadcast_to_and_flatten as _broadcast_to_and_flatten

__getattr__ = _Absent(__name__)
