"""Functions that make batches, by PyTorch's private names."""

import re

from flambeau.utils.data.collate import _collate_arrays as collate_numpy_array_fn
from flambeau.utils.data.collate import _collate_floats as collate_float_fn
from flambeau.utils.data.collate import _collate_numbers as collate_int_fn
from flambeau.utils.data.collate import _collate_strings as collate_str_fn
from flambeau.utils.data.collate import _collate_tensors as collate_tensor_fn
from flambeau.utils.data.collate import (
    collate,
    default_collate,
    default_collate_fn_map,
    default_convert,
)

__all__ = [
    "collate", "collate_float_fn", "collate_int_fn", "collate_numpy_array_fn", "collate_str_fn",
    "collate_tensor_fn", "default_collate", "default_collate_fn_map", "default_convert",
    "np_str_obj_array_pattern",
]  # fmt: skip

#: Finds, in the text of a NumPy dtype, those that no tensor has: texts and objects.
np_str_obj_array_pattern = re.compile("[SaUO]")
