"""All rules, by the names of primitives."""

from __future__ import annotations

from flambeau.core.interpreter import arrangement, elementwise, indexing, products, reduction
from flambeau.core.interpreter.equation import Rule

#: The rule of each primitive that is known.
RULES: dict[str, Rule] = {
    **elementwise.RULES, **arrangement.RULES, **reduction.RULES, **products.RULES,
    **indexing.RULES,
}  # fmt: skip
