"""A profile tells whose time it is, by module, and changes nothing about the programs that run."""

import json

import pytest

import flambeau
from flambeau import nn
from flambeau.core.programs.gears import settings
from flambeau.profiler import record_function


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.linear(self.linear(x)).relu()


def training():
    model = nn.Sequential(Block(), Block())
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return model, step


def by_path(profiled):
    return {each.path: each for each in profiled.rows()}


def test_modules_have_paths_classes_and_calls():
    _, step = training()
    with flambeau.profile() as profiled:
        for _ in range(2):
            step(flambeau.ones(2, 4))
    rows = by_path(profiled)
    assert {path: (row.class_name, row.calls) for path, row in rows.items() if row.class_name} == {
        "Sequential": ("Sequential", 2), "Sequential.0": ("Block", 2),
        "Sequential.0.linear": ("Linear", 4), "Sequential.1": ("Block", 2),
        "Sequential.1.linear": ("Linear", 4),
    }  # fmt: skip
    assert rows["Optimizer.step#SGD.step"].calls == 2
    assert all(rows[f"Sequential.{i}.linear"].backward > 0 for i in range(2))


def test_times_add_up():
    _, step = training()
    with flambeau.profile() as profiled, record_function("all"):
        step(flambeau.ones(2, 4))
    rows = by_path(profiled)
    assert sum(each.share for each in rows.values()) == pytest.approx(1)
    own = sum(each.self_time + each.backward for each in rows.values())
    events = profiled.events()
    span = max(e.end for e in events) - min(e.start for e in events)
    assert own == pytest.approx(span / 1000)
    inner = sum(rows[f"Sequential.{name}"].self_time for name in ("0", "0.linear"))
    assert rows["Sequential.0"].total == pytest.approx(inner)
    assert rows["Sequential.0"].total < rows["Sequential"].total < rows["all"].total


def test_recursion_counts_once():
    class Again(nn.Module):
        def forward(self, x, depth=3):
            return self(x, depth - 1) + 1 if depth else x

    with flambeau.profile() as profiled:
        Again()(flambeau.ones(1))
    row = by_path(profiled)["Again"]
    assert row.calls == 4
    assert row.total == pytest.approx(row.self_time)


def test_models_of_one_class_have_rows_of_their_own():
    models = [nn.Linear(2, 2) for _ in range(2)]
    with flambeau.profile() as profiled:
        for model in models:
            model(flambeau.ones(2))
    assert [each.path for each in profiled.rows()[:2]] == ["Linear", "Linear#2"]


def test_compiled_functions_are_rows_and_are_not_compiled_again():
    model, step = training()
    compiled, x = flambeau.compile(step), flambeau.ones(2, 4)
    compiled(x), compiled(x)
    inner = flambeau.compile(model)
    inner(x)
    counts = compiled.program_count, inner.program_count
    with flambeau.profile() as profiled:
        compiled(x), inner(x)
    compiled(x), inner(x)
    assert (compiled.program_count, inner.program_count) == counts
    rows = by_path(profiled)
    assert rows["compiled function step"].calls == 1
    assert rows["compiled function Sequential"].calls == 1


def test_the_operations_of_compiled_functions():
    step = flambeau.compile(lambda x: (x @ x).sin())
    x = flambeau.ones(64, 64)
    step(x)
    with flambeau.profile(xla=True) as profiled:
        step(x), step(x)
    assert profiled.operations
    assert all(each.calls > 0 for each in profiled.operations)
    assert sum(each.time for each in profiled.operations) > 0
    assert "XLA's operation" in str(profiled)


def test_no_sequence_is_fused_inside():
    _, step = training()
    x = flambeau.ones(2, 4)
    with flambeau.compiler.gears(fuse=30):
        for _ in range(100):
            step(x)
        before = flambeau.compiler.stats()["followed"]
        assert before > 0
        with flambeau.profile() as profiled:
            for _ in range(50):
                step(x)
        assert flambeau.compiler.stats()["followed"] == before
        assert settings.fuse == 30
    assert by_path(profiled)["Sequential.0.linear"].calls == 100


def test_an_error_ends_the_profile_and_its_calls():
    with pytest.raises(RuntimeError), flambeau.profile() as profiled:
        nn.Linear(2, 2)(flambeau.ones(3))
    assert by_path(profiled)["Linear"].calls == 1
    nn.Linear(2, 2)(flambeau.ones(2))
    assert len(profiled.events()) == 2


def test_an_empty_profile_has_a_table():
    with flambeau.profile() as profiled:
        pass
    assert "(other code)" in str(profiled)


def test_the_table_fits_and_the_trace_has_the_modules(tmp_path):
    name = "a_name_that_is_so_long_that_few_people_would_give_it_to_their_module"
    model = nn.Sequential()
    model.add_module(name, nn.Sequential())
    model.get_submodule(name).add_module(name, nn.Linear(2, 2))
    with flambeau.profile() as profiled:
        model(flambeau.ones(2))
    assert max(map(len, str(profiled).splitlines())) <= 100
    profiled.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    found = {each["name"]: each for each in events}
    whole, linear = found["Sequential"], found[f"Sequential.{name}.{name}"]
    assert (linear["cat"], linear["args"]) == ("module", {"Class": "Linear"})
    assert whole["ts"] <= linear["ts"]
    assert linear["ts"] + linear["dur"] <= whole["ts"] + whole["dur"]


def test_checkpointed_modules_belong_to_backward_when_they_run_again():
    from flambeau.utils.checkpoint import checkpoint

    block = Block()
    with flambeau.profile() as profiled:
        checkpoint(block, flambeau.ones(2, 4), use_reentrant=False).sum().backward()
    assert by_path(profiled)["Block"].calls == 1
    assert by_path(profiled)["Block"].backward > 0
