"""DLPack, the protocol to exchange arrays between libraries; see `from_dlpack` and `to_dlpack`.

>>> import flambeau
>>> capsule = flambeau.utils.dlpack.to_dlpack(flambeau.arange(3))
>>> flambeau.utils.dlpack.from_dlpack(capsule)
tensor([0, 1, 2])
"""

from flambeau.ops.factories.from_data import from_dlpack
from flambeau.rare.older_names import to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
