"""Invertible differentiable functions that transform distributions.

>>> import flambeau
>>> from flambeau.distributions import transforms
>>> to_interval = transforms.ComposeTransform(
...     [transforms.SigmoidTransform(), transforms.AffineTransform(-1.0, 2.0)]
... )
>>> to_interval(flambeau.tensor([0.0]))
tensor([0.])
"""

from flambeau.distributions.elementwise_transforms import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from flambeau.distributions.elementwise_transforms import (
    clipped_sigmoid as _clipped_sigmoid,  # noqa: F401 (packages import it)
)
from flambeau.distributions.transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    _InverseTransform,  # noqa: F401 (packages register functions for it)
)
from flambeau.distributions.vector_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip

identity_transform: ComposeTransform = ComposeTransform([])
