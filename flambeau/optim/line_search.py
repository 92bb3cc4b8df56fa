"""A line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Point(NamedTuple):
    """A point on the line.

    Attributes:
        step: Its distance along the line.
        loss: The loss there.
        gradient: The gradient there.
        slope: The gradient's component along the line.
    """

    step: Any
    loss: Any
    gradient: Any
    slope: Any


def strong_wolfe(
    evaluate: Callable[[Any], Point],
    start: Point,
    step: Any,
    size: Any,
    max_evaluations: int,
    *,
    decrease: float = 1e-4,
    curvature: float = 0.9,
    tolerance: float = 1e-9,
) -> tuple[Point, int]:
    """A point on the line that satisfies the strong Wolfe conditions.

    They are f(t) ≤ f(0) + c₁ t f′(0) and |f′(t)| ≤ c₂ |f′(0)|. Source: Nocedal and Wright,
    *Numerical Optimization* (2006), algorithms 3.5 and 3.6.

    Args:
        evaluate: Returns the point at a step.
        start: The point at step 0; its slope is negative.
        step: The first step to try.
        size: The largest component of the direction.
        max_evaluations: The number of evaluations after which the best point so far is returned.
        decrease: c₁.
        curvature: c₂.
        tolerance: The shortest interval to search, times ``size``.

    Returns:
        The point, and the number of evaluations.
    """
    search = _Search(evaluate, start, size, max_evaluations, decrease, curvature, tolerance)
    with np.errstate(all="ignore"):
        return search.run(step)


class _Search:
    def __init__(
        self,
        evaluate: Callable[[Any], Point],
        start: Point,
        size: Any,
        max_evaluations: int,
        decrease: float,
        curvature: float,
        tolerance: float,
    ) -> None:
        self.start, self.size, self.limit = start, size, max_evaluations
        self.decrease, self.curvature, self.tolerance = decrease, curvature, tolerance
        self.rounds = 0
        self.evaluations = 0
        self._evaluate = evaluate

    def evaluate(self, step: Any) -> Point:
        self.evaluations += 1
        return self._evaluate(step)

    def too_high(self, point: Point) -> bool:
        """Whether the loss violates the sufficient decrease condition."""
        return point.loss > self.start.loss + self.decrease * point.step * self.start.slope

    def flat(self, point: Point) -> bool:
        """Whether the slope satisfies the curvature condition."""
        return abs(point.slope) <= -self.curvature * self.start.slope

    def run(self, step: Any) -> tuple[Point, int]:
        before, point = self.start, self.evaluate(step)
        bracket = [self.start, point]
        while self.rounds < self.limit:
            bracket = [before, point]
            if self.too_high(point) or (self.rounds > 1 and point.loss >= before.loss):
                break
            if self.flat(point):
                return point, self.evaluations
            if point.slope >= 0:
                break
            # The loss still decreases: search further along the line.
            nearest, furthest = point.step + 0.01 * (point.step - before.step), point.step * 10
            step = _lowest_of_cubic(before, point, nearest, furthest)
            before, point = point, self.evaluate(step)
            self.rounds += 1
        else:
            bracket = [self.start, point]
        return self.narrow(bracket), self.evaluations

    def narrow(self, bracket: list[Point]) -> Point:
        """The best point between two points that bracket a good one."""
        low, high = _order(bracket)
        stuck = False
        while self.rounds < self.limit:
            one, other = bracket
            if abs(other.step - one.step) * self.size < self.tolerance:
                break
            step, stuck = _inside(one, other, stuck)
            point = self.evaluate(step)
            self.rounds += 1
            if self.too_high(point) or point.loss >= bracket[low].loss:
                bracket[high] = point
                low, high = _order(bracket)
                continue
            if self.flat(point):
                return point
            if point.slope * (bracket[high].step - bracket[low].step) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
        return bracket[low]


def _order(bracket: list[Point]) -> tuple[int, int]:
    return (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)


def _inside(one: Point, other: Point, stuck: bool) -> tuple[Any, bool]:
    """The next step to try between two points, and whether it is close to one of them.

    If it is close to an end twice in a row, it is moved away, since progress would be slow.
    """
    first, last = min(one.step, other.step), max(one.step, other.step)
    step = _lowest_of_cubic(one, other, first, last)
    margin = 0.1 * (last - first)
    if min(last - step, step - first) >= margin:
        return step, False
    if not (stuck or step >= last or step <= first):
        return step, True
    return (last - margin if abs(step - last) < abs(step - first) else first + margin), False


def _lowest_of_cubic(one: Point, other: Point, first: Any, last: Any) -> Any:
    """The minimum, between two bounds, of the cubic through two points' losses and slopes."""
    mean = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.step - other.step)
    square = mean**2 - one.slope * other.slope
    if not square >= 0:
        return (first + last) / 2.0
    root = np.sqrt(square)
    left, right = (one, other) if one.step <= other.step else (other, one)
    part = (right.slope + root - mean) / (right.slope - left.slope + 2 * root)
    return min(max(right.step - (right.step - left.step) * part, first), last)
