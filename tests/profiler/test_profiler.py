"""Profiles count and time what runs, and nothing is left behind by them."""

import gzip
import json

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import profiler
from flambeau.core.operators import dispatch, op
from flambeau.core.tape import engine
from flambeau.profiler import ProfilerAction, profile, record_function, schedule


def step(model, optimizer, x):
    with record_function("forward"):
        loss = F.relu(model(x)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def training():
    model = flambeau.nn.Linear(3, 3)
    return model, flambeau.optim.SGD(model.parameters(), lr=0.1), flambeau.ones(2, 3)


def counts(recorded):
    return {each.key: each.count for each in recorded.key_averages()}


def test_operators_backward_ranges_and_optimizers_are_counted():
    parts = training()
    with profile() as recorded:
        for _ in range(2):
            step(*parts)
    found = counts(recorded)
    for name in (
        "forward", "aten::linear", "aten::relu", "aten::sum", "AddmmBackward0", "ReluBackward0",
        "Optimizer.step#SGD.step",
    ):  # fmt: skip
        assert found[name] == 2, name


def test_times_of_parts_are_within_those_of_the_whole():
    parts = training()
    step(*parts)
    with profile() as recorded, record_function("all"):
        step(*parts)
    by_name = {each.key: each for each in recorded.key_averages()}
    whole = by_name["all"]
    assert 0 < whole.self_cpu_time_total < whole.cpu_time_total
    inner = sum(e.self_cpu_time_total for e in recorded.key_averages() if e.key != "all")
    assert inner + whole.self_cpu_time_total == pytest.approx(whole.cpu_time_total)
    forward = next(each for each in recorded.events() if each.name == "forward")
    assert forward.cpu_parent.name == "all"
    assert [each.name for each in forward.cpu_children] == [
        "aten::linear",
        "aten::relu",
        "aten::sum",
    ]


def test_nothing_is_watched_outside():
    run, node = op.run, engine.Backward._run_node
    with profile():
        assert op.run is not run
    assert op.run is run is dispatch.run
    assert engine.Backward._run_node is node
    with record_function("nobody records"):
        flambeau.ones(1) + 1


def test_an_error_in_an_operator_is_raised_and_recorded():
    with profile() as recorded, pytest.raises(RuntimeError):
        flambeau.ones(2) + flambeau.ones(3)
    assert counts(recorded)["aten::add"] == 1


def test_compiled_functions_are_one_call_and_stay_compiled():
    double = flambeau.compile(lambda x: (x * 2).sum())
    x = flambeau.ones(3)
    double(x)
    with profile() as recorded:
        double(x), double(x)
    assert counts(recorded) == {"compiled function <lambda>": 2}
    double(x)
    assert double.program_count == 1


def test_profiles_and_function_modes_nest_in_both_ways():
    class Mode(flambeau.overrides.BaseTorchFunctionMode):
        pass

    x = flambeau.ones(2)
    with Mode(), profile() as inner:
        x + 1
    with profile() as outer, Mode():
        x + 1
    assert counts(inner) == counts(outer) == {"aten::add": 1}
    assert op.run is dispatch.run


def test_shapes_memory_and_operations():
    with profile(record_shapes=True, profile_memory=True, with_flops=True) as recorded:
        flambeau.ones(2, 3) @ flambeau.ones(3, 4)
    (found,) = [e for e in recorded.key_averages(group_by_input_shape=True) if "mat" in e.key]
    assert found.input_shapes == [[2, 3], [3, 4]]
    assert found.cpu_memory_usage == 2 * 4 * 4
    assert found.flops == 2 * 2 * 3 * 4
    table = recorded.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total")
    for word in ("Name", "Self CPU", "# of Calls", "[[2, 3], [3, 4]]", "Total MFLOPs", "32 B"):
        assert word in table


def test_tables_are_sorted_and_cut():
    with profile() as recorded:
        with record_function("long"):
            for _ in range(3):
                flambeau.ones(2).exp()
        with record_function("short"):
            pass
    rows = recorded.key_averages().table(sort_by="cpu_time_total", row_limit=1, header="Title")
    assert rows.startswith("Title\n")
    assert "long" in rows
    assert "short" not in rows
    assert "Self CPU time total" in rows


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_traces_are_json_that_perfetto_reads(tmp_path, name):
    with profile(record_shapes=True) as recorded, record_function("outer"):
        flambeau.ones(2) + 1
    recorded.add_metadata("who", "me")
    recorded.export_chrome_trace(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    trace = json.loads(gzip.decompress(content) if name.endswith("gz") else content)
    assert trace["who"] == "me"
    events = {each["name"]: each for each in trace["traceEvents"]}
    outer, inner = events["outer"], events["aten::add"]
    assert {each["ph"] for each in trace["traceEvents"]} == {"X"}
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert inner["args"]["Input Dims"][0] == [2]


def test_schedules():
    action = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=1)
    assert [action(i).name for i in range(7)] == [
        "NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE",
    ]  # fmt: skip
    saved = []
    with profile(schedule=action, on_trace_ready=lambda p: saved.append(counts(p))) as recorded:
        for _ in range(7):
            flambeau.ones(2).exp()
            recorded.step()
    assert saved == [{"ProfilerStep#3": 1, "ProfilerStep#4": 1, "aten::exp": 2}]
    with pytest.raises(AssertionError, match="active must be positive"):
        schedule(wait=1, warmup=1, active=0)


def test_the_handler_of_tensorboard_writes_a_file_for_each_recording(tmp_path):
    handler = profiler.tensorboard_trace_handler(str(tmp_path / "traces"), "worker")
    with profile(schedule=schedule(wait=0, warmup=0, active=1), on_trace_ready=handler) as recorded:
        for _ in range(2):
            flambeau.ones(2).exp()
            recorded.step()
    assert len(list((tmp_path / "traces").glob("worker.*.pt.trace.json"))) >= 2


def test_the_older_face():
    with flambeau.autograd.profiler.profile() as recorded:
        flambeau.ones(2).exp()
    assert "aten::exp" in str(recorded)
    assert recorded.total_average().count == 1
    with flambeau.autograd.profiler.profile(enabled=False) as nothing:
        flambeau.ones(2).exp()
    assert len(nothing.events()) == 0


def test_record_function_decorates():
    @record_function("named")
    def exp(x):
        return x.exp()

    with profile() as recorded:
        exp(flambeau.ones(2))
    assert counts(recorded)["named"] == 1
    assert ProfilerAction.RECORD.value == 2


@pytest.mark.parametrize("name", ["emit_nvtx", "emit_itt"])
def test_ranges_for_other_tools_can_be_named_and_switched_off(name):
    kind = getattr(flambeau.autograd.profiler, name)
    with kind(enabled=False):
        pass
    with pytest.raises(NotImplementedError, match=rf"{name} .* jax\.profiler\.trace"), kind():
        pass
