"""The strong Wolfe conditions hold where the search ends."""

import math

from hypothesis import given
from hypothesis import strategies as st

from flambeau.optim.line_search import Point, strong_wolfe

DECREASE, CURVATURE = 1e-4, 0.9

# Functions of one variable that fall at 0 and rise in the end, with their derivatives.
LINES = {
    "parabola": (lambda t: (t - 1) ** 2, lambda t: 2 * (t - 1)),
    "quartic": (lambda t: (t - 2) ** 4 - t, lambda t: 4 * (t - 2) ** 3 - 1),
    "waves": (
        lambda t: 0.1 * (t - 3) ** 2 + math.sin(4 * t + 2),
        lambda t: 0.2 * (t - 3) + 4 * math.cos(4 * t + 2),
    ),
    "cliff": (lambda t: math.exp(t) - 5 * t, lambda t: math.exp(t) - 5),
}


def search(name, scale, first, limit=25):
    function, derivative = LINES[name]
    visited = []

    def evaluate(step):
        point = Point(
            step, function(step * scale), derivative(step * scale), scale * derivative(step * scale)
        )
        visited.append(point)
        return point

    start = Point(0, function(0.0), derivative(0.0), scale * derivative(0.0))
    return start, *strong_wolfe(evaluate, start, first, scale, limit), visited


@given(
    st.sampled_from(sorted(LINES)),
    st.floats(0.05, 5.0),
    st.floats(0.01, 5.0),
)
def test_the_loss_is_low_and_the_slope_flat(name, scale, first):
    start, found, evaluations, visited = search(name, scale, first)
    assert evaluations == len(visited)
    assert found in visited
    if evaluations < 25:
        assert found.loss <= start.loss + DECREASE * found.step * start.slope
        assert abs(found.slope) <= -CURVATURE * start.slope


@given(st.sampled_from(sorted(LINES)), st.floats(0.01, 50.0), st.integers(1, 4))
def test_the_search_ends_at_its_limit(name, first, limit):
    _, found, evaluations, visited = search(name, 1.0, first, limit)
    assert evaluations <= limit + 1
    assert found.loss <= max(each.loss for each in visited)
