"""Adaptive softmax: fewer computations for rare classes (https://arxiv.org/abs/1609.04309)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.module import Module
from flambeau.nn.modules.container import ModuleList, Sequential
from flambeau.nn.modules.linear import Linear
from flambeau.ops import cat, where
from flambeau.ops.common.known import is_unknown
from flambeau.ops.common.values import concrete_values

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """The log-probability of each target, and the loss, minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-probabilities of target classes with few frequent and many rare classes.

    Classes are sorted by frequency, the most frequent first. The classes before the first cutoff
    form the head, together with one entry for each cluster of rarer classes. Later clusters are
    computed from fewer features: ``in_features // div_value ** i`` for cluster ``i``.

    Shapes: ``(N, in_features)`` and ``(N,)`` to ``(N,)`` and a scalar; or without ``N``.

    Args:
        in_features: Size of the input.
        n_classes: The number of classes.
        cutoffs: The starts of the clusters: increasing numbers between 1 and ``n_classes - 1``.
        div_value: The factor by which the features decrease from cluster to cluster.
        head_bias: Whether the head has a bias.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        head: A `Linear` to the frequent classes and the clusters.
        tail: For each cluster two `Linear` maps: to its features, and to its classes.

    Raises:
        ValueError: ``cutoffs`` are not as described.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs: list[int] = [*_checked_cutoffs(cutoffs, n_classes), n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size: int = self.cutoffs[0]
        self.n_clusters: int = len(self.cutoffs) - 1
        self.head_size: int = self.shortlist_size + self.n_clusters
        self.head: Linear = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail: ModuleList = ModuleList()
        for number, (start, stop) in enumerate(pairwise(self.cutoffs), 1):
            features = int(in_features // div_value**number)
            self.tail.append(
                Sequential(
                    Linear(in_features, features, False, device, dtype),
                    Linear(features, stop - start, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Redraw the parameters of head and tail."""
        self.head.reset_parameters()
        for to_features, to_classes in self.tail:
            to_features.reset_parameters()
            to_classes.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """The log-probability of each target, and the loss, minus their mean.

        Args:
            input_: ``(N, in_features)`` or ``(in_features,)``.
            target_: Classes, ``(N,)`` or ``()``.

        Raises:
            RuntimeError: The shapes do not match, or a target is not a class.
        """
        _check_shapes(input_, target_)
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        self._check_targets(target)
        output = self._log_prob_of(input, target)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _log_prob_of(self, input: Tensor, target: Tensor) -> Tensor:
        """The log-probability of the target of each sample.

        Each cluster is computed for every sample, and results for samples of other clusters are
        discarded. So shapes do not depend on the targets, and one compiled program serves all. A
        cluster that is known to have no target is skipped, and takes no gradient.
        """
        seen = concrete_values(target)
        head = F.log_softmax(self.head(input), dim=1)
        entry = target
        output = None
        for number, (start, stop) in enumerate(pairwise(self.cutoffs)):
            if seen is not None and not ((seen >= start) & (seen < stop)).any():
                continue
            inside = (target >= start) & (target < stop)
            entry = where(inside, self.shortlist_size + number, entry)
            index = where(inside, target - start, 0).unsqueeze(1)
            scores = F.log_softmax(self.tail[number](input), dim=1)
            chosen = where(inside, scores.gather(1, index).squeeze(1), 0.0)
            output = chosen if output is None else output + chosen
        chosen = head.gather(1, entry.unsqueeze(1)).squeeze(1)
        return chosen if output is None else chosen + output

    def _check_targets(self, target: Tensor) -> None:
        """Raise RuntimeError if a target is not a class, unless the targets are unknown."""
        if is_unknown(target._read()) or target.numel() == 0:
            return
        least, greatest = target.min().item(), target.max().item()
        if least < 0 or greatest >= self.n_classes:
            raise RuntimeError(
                f"targets must be classes from 0 to {self.n_classes - 1}, got values from {least} "
                f"to {greatest}"
            )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        frequent, *chances = head.split([self.shortlist_size, *(1,) * self.n_clusters], dim=1)
        rare = [
            F.log_softmax(cluster(input), dim=1) + chance
            for cluster, chance in zip(self.tail, chances, strict=True)
        ]
        return cat([frequent, *rare], dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes.

        Args:
            input: ``(N, in_features)``.

        Returns:
            ``(N, n_classes)``.
        """
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each sample: ``log_prob(input).argmax(dim=1)``.

        Args:
            input: ``(N, in_features)``.

        Returns:
            ``(N,)``, int64.
        """
        return self.log_prob(input).argmax(dim=1)


def _checked_cutoffs(cutoffs: Sequence[int], n_classes: int) -> list[int]:
    found = list(cutoffs)
    rising = all(before < after for before, after in pairwise(found))
    whole = all(int(each) == each for each in found)
    if not (found and rising and whole and found[0] >= 1 and found[-1] <= n_classes - 1):
        raise ValueError(
            "cutoffs must be rising integers, at least one, between 1 and "
            f"n_classes - 1 = {n_classes - 1}, got {found}"
        )
    return found


def _check_shapes(input: Tensor, target: Tensor) -> None:
    if target.dim() > 1:
        raise RuntimeError(f"the target has shape (N,) or (), got {list(target.shape)}")
    if input.dim() != target.dim() + 1 or input.shape[:-1] != target.shape:
        raise RuntimeError(
            f"a target of shape {list(target.shape)} needs an input with the same shape and one "
            f"dimension for the features, got {list(input.shape)}"
        )
