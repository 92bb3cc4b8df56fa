"""What a compiled function prints appears once at each call."""
# ruff: noqa: T201

import builtins
import functools
import threading

import pytest

import flambeau
from flambeau import nn
from tests.compile.following import MAY_RUN_EAGERLY

pytestmark = MAY_RUN_EAGERLY
ONES = flambeau.ones(2)


def printed(capsys, function, *calls, **options):
    """The lines that the calls of a function print when it is compiled; and its programs."""
    compiled = flambeau.compile(function, **options)
    capsys.readouterr()
    for arguments in calls:
        compiled(*arguments)
    return capsys.readouterr().out.splitlines(), compiled.program_count


def test_text_of_python_values_is_printed_at_each_call(capsys):
    def function(x):
        for i in range(2):
            print(i, end=" ", flush=True)
        print("shape", *x.shape, sep="=")
        return x * 2

    assert printed(capsys, function, *[(ONES,)] * 3) == (["0 1 shape=2"] * 3, 1)


@pytest.mark.parametrize("show", [lambda y: print("sum", y), lambda y: print("sum", y.item())])
def test_text_of_tensors_is_printed_once_at_each_call(capsys, show):
    def function(x):
        print("before")
        show(x.sum())
        return x * 2

    expected = []
    for i in range(12):
        with flambeau.no_grad():
            function(ONES * i)
        expected += capsys.readouterr().out.splitlines()
    assert printed(capsys, function, *[(ONES * i,) for i in range(12)]) == (expected, 0)


def test_an_answer_and_its_text_belong_together(capsys):
    def function(x):
        print("largest", x.max().item())
        return x * 2

    calls = [(ONES * (1 if i < 6 else 2),) for i in range(12)]
    lines, programs = printed(capsys, function, *calls)
    assert lines == ["largest 1.0"] * 6 + ["largest 2.0"] * 6
    assert programs


def test_text_follows_numbers_lists_and_modes(capsys):
    history, layer = [], nn.Dropout()

    def function(x, epoch):
        print(epoch, history, layer.training)
        return x * epoch

    compiled, expected = flambeau.compile(function), []
    capsys.readouterr()
    for i in range(6):
        history[:] = [i // 2]
        layer.train(i % 3 == 0)
        compiled(ONES, i % 2)
        expected.append(f"{i % 2} [{i // 2}] {i % 3 == 0}")
    assert capsys.readouterr().out.splitlines() == expected


def test_a_module_prints(capsys):
    class Model(nn.Module):
        def forward(self, x):
            print("forward", self.training)
            return x * 2

    model = Model()
    compiled = flambeau.compile(model)
    for _ in range(3):
        compiled(ONES)
    model.eval()
    compiled(ONES)
    assert capsys.readouterr().out.splitlines() == ["forward True"] * 3 + ["forward False"]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_text_before_an_error_is_printed_once(capsys, fullgraph):
    def function(x):
        print("before")
        raise ValueError("own")

    compiled = flambeau.compile(function, fullgraph=fullgraph)
    for _ in range(2):
        with pytest.raises(ValueError, match="own"):
            compiled(ONES)
    assert capsys.readouterr().out.splitlines() == ["before"] * 2


def test_text_for_other_files_and_threads_goes_there_at_once(capsys, tmp_path):
    path = tmp_path / "log"

    def other():
        with path.open("a") as file:
            print("in a file", file=file)
        print("elsewhere")

    with path.open("a") as file:

        def function(x):
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            print("here", file=file, flush=True)
            return x * 2

        flambeau.compile(function)(ONES)
    assert {*path.read_text().splitlines()} == {"in a file", "here"}
    assert "elsewhere" in capsys.readouterr().out


@pytest.mark.parametrize("before", [builtins.print, functools.partial(print, flush=True)])
def test_print_is_as_before_afterwards(monkeypatch, capsys, before):
    monkeypatch.setattr(builtins, "print", before)
    flambeau.compile(lambda x: print("x") or x * 2)(ONES)
    with pytest.raises(flambeau.CompileError):
        flambeau.compile(lambda x: print(x) or x * 2, fullgraph=True)(ONES)
    assert builtins.print is before
    assert capsys.readouterr().out == "x\n"
