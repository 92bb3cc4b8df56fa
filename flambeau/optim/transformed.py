"""Optimizers whose rule is optax's, under PyTorch's names.

optax takes a tenth of a second to import, so it is imported when such an optimizer is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import jax

from flambeau.optim.rule import Named, RuleOptimizer


class TransformedOptimizer(RuleOptimizer):
    """An optimizer whose rule is a chain of optax's gradient transformations.

    A subclass declares ``names``, PyTorch's name for each field of the transformations' states, and
    `transformations`.
    """

    names: ClassVar[dict[str, str]]

    @staticmethod
    def transformations(state: Named, hyper: Named, flags: Named) -> tuple[Any, ...]:
        """What a gradient goes through, in this order, until it can be added to the parameter.

        Args:
            state: The state of the parameter, as `rule` has it.
            hyper: The numbers of its group.
            flags: The options that are part of the program.
        """
        raise NotImplementedError

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter."""
        import optax

        def find(path: Any, start: Any) -> Any:
            return state[cls.names[path[-1].name]].astype(start.dtype)

        chain = optax.chain(*cls.transformations(state, hyper, flags))
        before = jax.tree.map_with_path(find, chain.init(param))
        update, after = chain.update(grad, before, param)
        new = {cls.names[path[-1].name]: entry for path, entry in jax.tree.leaves_with_path(after)}
        if "step" in state:
            new["step"] = state["step"] + 1
        return optax.apply_updates(param, update), new

    def _prepare(self) -> None:
        # Not during a step, which may be traced: what an import computes is no part of a program.
        import_module("optax")
        super()._prepare()


def decayed(decay: Any) -> Any:
    """The transformation that adds the parameter times ``decay``, if that is a number."""
    import optax

    return optax.identity() if decay is None else optax.add_decayed_weights(decay)
