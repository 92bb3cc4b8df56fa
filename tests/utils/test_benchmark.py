"""Statements are measured, and measurements compared."""

import flambeau
from flambeau.utils.benchmark import Compare, Measurement, Timer


def test_measurements_of_a_statement():
    names = {"x": flambeau.ones(2)}
    timer = Timer("x + 1", globals=names, label="sum", sub_label="small", description="eager")
    measured = timer.blocked_autorange(min_run_time=0.01)
    assert len(measured.times) >= 1
    assert 0 < min(measured.times) <= measured.median <= max(measured.times)
    assert measured.title == "sum: small"
    assert "runs per measurement" in repr(measured)
    assert timer.adaptive_autorange(max_run_time=0.02).mean > 0
    assert Timer("y = x + 1", globals=names).timeit(2).number_per_run == 2


def test_numbers_of_a_measurement():
    spec = Timer("pass")._task_spec
    measured = Measurement(2, [2.0, 4.0, 6.0, 8.0, 10.0], spec)
    assert measured.times == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert (measured.mean, measured.median, measured.iqr) == (3.0, 3.0, 2.0)


def test_a_comparison_is_a_table():
    results = [
        Timer("pass", label="L", sub_label=row, description=column).timeit(10)
        for row in ("a", "b")
        for column in ("one", "two")
    ]
    table = str(Compare(results))
    for word in ("[L]", "one", "two", "a ", "b ", "Times are in"):
        assert word in table
