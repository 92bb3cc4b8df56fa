"""The commands for checkpoint files: `inspect`, `diff` and `convert`."""

import io
import os

import numpy as np
import pytest

import flambeau
from flambeau import __main__ as command_line
from flambeau import nn
from flambeau.checkpoint import archive
from flambeau.checkpoint.elements import elements_of
from flambeau.checkpoint.limits import Limits
from flambeau.commands import contents
from flambeau.commands.contents import boxes, opened_contents
from flambeau.distributed import checkpoint
from tests.checkpoint.making import a_tensor, body, pickled, safetensors


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    def call(*arguments):
        status = command_line.main([*map(str, arguments)])
        out, error = capsys.readouterr()
        return status, out, error

    return call


def training():
    """A checkpoint with tied weights, views, NaN, and values."""
    state = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3)).state_dict()
    state["0.weight"] = state["1.weight"]
    odd = flambeau.tensor([[float("nan"), 1.0, float("inf")], [0.0, -float("inf"), 2.0]])
    expanded = flambeau.arange(4.0).reshape(4, 1).expand(2, 4, 3)
    return {
        "epoch": 3,
        "model": state,
        "lists": [flambeau.arange(5), (flambeau.tensor(True), "text")],
        "odd": odd,
        "expanded": expanded,
        "sparse": flambeau.eye(3).to_sparse(),
    }


def test_elements_are_those_of_load(here, monkeypatch):
    monkeypatch.setattr(contents, "_BLOCK", 8)
    monkeypatch.setattr(archive, "_BLOCK", 8)
    saved = training()
    del saved["sparse"]
    flambeau.save(saved, "a.pt")
    names = dict(contents.entries(flambeau.load("a.pt"), contents.Limits().budget(0)))
    with opened_contents("a.pt", Limits()) as found:
        assert names.keys() == found.tensors.keys() | found.values.keys()
        assert found.tensors["model.1.weight"].first == "model.0.weight"
        for name, each in found.tensors.items():
            elements = names[name].numpy()
            assert (each.shape, each.dtype) == (elements.shape, elements.dtype)
            whole = np.zeros(each.stored, each.dtype)
            for box in boxes(each.stored, each.dtype.itemsize):
                whole[box] = each.read(box)
            np.testing.assert_array_equal(np.broadcast_to(whole, each.shape), elements)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (1, 1, 9), (4, 3, 5)])
def test_boxes_cover_each_element_once(shape, monkeypatch):
    for block in (1, 4, 17, 1000):
        monkeypatch.setattr(contents, "_BLOCK", block)
        counts = np.zeros(shape, int)
        for box in boxes(shape, 1):
            counts[box] += 1
            assert counts[box].size <= block
        assert (counts == 1).all()


def test_inspect_lists_tensors_values_and_metadata(here, run):
    flambeau.save(training(), "a.pt")
    status, out, error = run("inspect", "a.pt", "--values")
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert (status, error) == (0, "")
    assert rows["odd"].split() == ["odd", "1", "float32", "[2,", "3]", "24", "B", "1", "2"]
    assert "tied to model.0.weight" in rows["model.1.weight"]
    assert "float32 [2, 4, 3]  16 B" in rows["expanded"]
    assert "int64 [2, 3]" in rows["sparse.indices"]
    assert rows["lists.1.1"].endswith("str  'text'")
    assert rows["epoch"].endswith("int  3")
    flambeau.save({"w": flambeau.ones(3)}, "b.safetensors", metadata={"format": "pt"})
    out = run("inspect", "b.safetensors")[1]
    assert "1 tensors, 3 elements, 12 B\nmetadata format: str  'pt'\n" in out


def test_inspect_groups_the_layers_of_long_models(here, run):
    state = {f"layers.{i}.{name}": flambeau.ones(2, 3) for i in range(30) for name in "ab"}
    flambeau.save(state, "a.safetensors")
    out = run("inspect", "a.safetensors")[1]
    assert "layers.*.a  30     float32 [2, 3]   720 B\n" in out
    assert len(out.splitlines()) == 6
    assert "layers.17.b" in run("inspect", "a.safetensors", "--all")[1]


def test_inspect_reads_no_elements(here, run, monkeypatch):
    for name in ("a.pt", "a.safetensors"):
        flambeau.save({"w": flambeau.ones(1000), "v": flambeau.ones(20, 50).T}, name)
    largest, read = [], contents.Source.read

    def counted(self, start, count):
        largest.append(count)
        return read(self, start, count)

    monkeypatch.setattr(contents.Source, "read", counted)
    assert run("inspect", "a.pt")[0] == run("inspect", "a.safetensors")[0] == 0
    assert max(largest) < 2000


def long_names():
    """Dictionaries in each other, whose joined keys are far longer than the file."""
    key = body("k" * 100) + b"q\x000"
    return key + b"}h\x00" * 50_000 + b"N" + b"s" * 50_000


HOSTILE = {
    "empty": b"",
    "text": b"import os",
    "code": pickled(b"cos\nsystem\n(X\x04\x00\x00\x00truetR"),
    "names": pickled(b"cevil\x1b[31m\nred\n)R"),
    "long": pickled(long_names()),
    "beyond": pickled(a_tensor((5,), (1,))),
    "huge": safetensors({"w": {"dtype": "F32", "shape": [1 << 62], "data_offsets": [0, 4]}}),
    "header": (1 << 60).to_bytes(8, "little"),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_errors_of_one_line(here, run, content):
    (here / "bad").write_bytes(content)
    flambeau.save({}, "good.pt")
    calls = {("inspect", "bad"): 1, ("diff", "good.pt", "bad"): 2, ("convert", "bad", "x.pt"): 1}
    for arguments, expected in calls.items():
        status, out, error = run(*arguments)
        assert (status, out) == (expected, "")
        assert error.startswith(f"flambeau {arguments[0]}: ")
        assert error[:-1].isprintable()
        assert error.endswith("\n")
    assert run("inspect", "absent")[0] == 1


def test_content_of_a_file_cannot_control_the_terminal(here, run):
    cyclic = []
    cyclic.append(cyclic)
    names = {"\x1b[31m\n": "\x1b]0;", "lone\ud800": 10**600, "cyclic": cyclic, ("a", 1): b"\r"}
    (here / "a.pt").write_bytes(pickled(body(names)))
    status, out, error = run("inspect", "a.pt")
    assert (status, error) == (0, "")
    assert all(line.isprintable() for line in out.splitlines())
    assert "the same as cyclic" in out


def test_diff(here, run):
    flambeau.save(training(), "a.pt")
    assert run("diff", "a.pt", "a.pt") == (0, "", "")
    other = flambeau.load("a.pt")
    other["odd"][1, 2] = 1.0
    other["model"]["1.bias"] = other["model"]["1.bias"].double()
    other["lists"][0] = flambeau.arange(6)
    other["epoch"] = 4
    other["new"] = other.pop("expanded")
    flambeau.save(other, "b.pt")
    status, out, error = run("diff", "a.pt", "b.pt")
    assert (status, error) == (1, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:2] == ["only in a.pt:", "expanded float32 [2, 4, 3]"]
    assert lines[2:4] == ["only in b.pt:", "new float32 [2, 4, 3]"]
    assert "model.1.bias float32 [3] -> float64 [3]" in lines
    assert "lists.0 int64 [5] -> int64 [6]" in lines
    assert "epoch int 3 -> int 4" in lines
    assert lines[-2:] == ["name absolute relative", "odd 1 0.5"]
    assert "odd" not in run("diff", "--headers", "a.pt", "b.pt")[1]


def test_the_largest_differences_come_first_and_none_is_missed(here, run):
    big = 2**63 - 1
    left = {"int": [big, 0], "nan": [1.0, 2.0], "small": [1.0, 0.0], "same": [float("nan"), -0.0]}
    right = {"int": [big - 1, 0], "nan": [float("nan"), 2.0], "small": [1.5, 0.0]}
    right["same"] = [float("nan"), 0.0]
    for name, values in (("a", left), ("b", right)):
        state = {key: flambeau.tensor(each) for key, each in values.items()}
        flambeau.save(state, f"{name}.safetensors")
    status, out, _ = run("diff", "a.safetensors", "b.safetensors")
    rows = [line.split() for line in out.splitlines()[2:]]
    assert status == 1
    assert [row[0] for row in rows] == ["nan", "small", "int"]
    assert rows[1:] == [["small", "0.5", "0.333"], ["int", "1", "1.08e-19"]]


def test_expanded_tensors_are_compared_with_full_ones(here, run):
    flambeau.save({"x": flambeau.ones(3, 1).expand(3, 4)}, "a.pt")
    flambeau.save({"x": flambeau.ones(3, 4)}, "b.pt")
    assert run("diff", "a.pt", "b.pt")[0] == 0
    flambeau.save({"x": flambeau.ones(1).expand(10**12)}, "c.pt")
    assert run("inspect", "--values", "c.pt")[0] == run("diff", "c.pt", "c.pt")[0] == 0
    status, _, error = run("convert", "c.pt", "c.safetensors")
    assert (status, os.path.exists("c.safetensors")) == (1, False)
    assert "x' in full takes" in error


def test_convert_there_and_back(here, run):
    state = training()["model"]
    flambeau.save(state, "a.pt")
    out = run("convert", "a.pt", "a.safetensors")[1]
    assert "only flambeau knows these other names of tied tensors: 1.weight\n" in out
    assert run("convert", "a.safetensors", "folder")[0] == 0
    assert run("convert", "folder", "b.pt")[0] == 0
    for other in ("a.safetensors", "folder", "folder/model.safetensors.index.json", "b.pt"):
        assert run("diff", "a.pt", other) == (0, "", "")
    back = flambeau.load("b.pt")
    assert elements_of(back["0.weight"]) == elements_of(back["1.weight"])
    loaded = flambeau.load("a.safetensors")
    assert loaded._metadata == state._metadata


def test_convert_says_what_is_lost(here, run):
    saved = training()
    del saved["sparse"]
    saved["parameter"] = nn.Parameter(flambeau.ones(1))
    flambeau.save(saved, "a.pt")
    status, out, _ = run("convert", "a.pt", "a.safetensors")
    assert status == 0
    assert "lost: values that are no tensors: epoch, lists.1.1\n" in out
    assert "lost: the nesting of dictionaries" in out
    assert "lost: which tensors are parameters" in out
    assert run("convert", "a.pt", "folder")[0] == 0
    assert run("diff", "a.pt", "folder") == (0, "", "")
    flambeau.save({"w": flambeau.ones(1)}, "m.safetensors", metadata={"format": "pt"})
    assert "lost: the metadata format\n" in run("convert", "m.safetensors", "m.pt")[1]
    run("convert", "m.safetensors", "n.safetensors")
    assert flambeau.checkpoint.read_metadata("n.safetensors") == {"format": "pt"}


def test_convert_to_another_dtype(here, run):
    saved = training()
    del saved["sparse"]
    saved["large"], saved["step"] = flambeau.tensor([1e6]), flambeau.tensor(1001.0)
    saved["parameter"] = nn.Parameter(flambeau.ones(1))
    flambeau.save(saved, "a.pt")
    status, out, _ = run("convert", "a.pt", "b.pt", "--dtype", "float16")
    found = flambeau.load("b.pt")
    assert status == 0
    assert "lost: elements that are too large for float16, in large\n" in out
    assert found["odd"].dtype is flambeau.float16
    assert found["lists"][0].dtype is flambeau.int64
    assert found["step"].item() == 1001.0
    assert type(found["parameter"]) is nn.Parameter
    assert found["parameter"].dtype is flambeau.float16
    assert elements_of(found["model"]["0.weight"]) == elements_of(found["model"]["1.weight"])
    with opened_contents("b.pt", Limits()) as contained:
        assert contained.tensors["expanded"].stored == (1, 4, 1)


def test_convert_replaces_nothing_unless_forced(here, run):
    flambeau.save({"w": flambeau.ones(1)}, "a.pt")
    (here / "b.pt").write_text("kept")
    status, _, error = run("convert", "a.pt", "b.pt")
    assert (status, (here / "b.pt").read_text()) == (1, "kept")
    assert "--force" in error
    assert run("convert", "a.pt", "b.pt", "--force")[0] == 0
    checkpoint.save({"v": flambeau.zeros(1)}, checkpoint_id=here / "folder")
    assert run("convert", "a.pt", "folder")[0] == 1
    assert run("convert", "a.pt", "folder", "--force")[0] == 0
    assert run("diff", "a.pt", "folder")[0] == 0
    (here / "bad.pt").write_bytes(HOSTILE["code"])
    assert run("convert", "bad.pt", "b.pt", "--force")[0] == 1
    assert run("diff", "a.pt", "b.pt")[0] == 0
    assert "must end in" in run("convert", "a.pt", "b.onnx")[2]


def test_a_script_with_the_name_of_a_command_is_pointed_out(here, run):
    (here / "inspect").write_text("raise SystemExit(7)")
    flambeau.save({}, "a.pt")
    status, _, error = run("inspect", "a.pt")
    assert status == 0
    assert "./inspect" in error


def test_a_closed_pipe_is_no_traceback(here, monkeypatch, capsys):
    class Closed(io.StringIO):
        def writelines(self, lines):
            raise BrokenPipeError

        def fileno(self):
            return os.open(os.devnull, os.O_WRONLY)

    flambeau.save({}, "a.pt")
    monkeypatch.setattr("sys.stdout", Closed())
    assert command_line.main(["inspect", "a.pt"]) == 1
    assert capsys.readouterr().err == ""


def test_a_file_that_takes_much_memory_is_read_with_more(here, run):
    flambeau.save({"x": flambeau.zeros(1).expand(10**9)}, "large.pt")
    flambeau.save({"x": flambeau.ones(1000)}, "small.pt")
    status, _, error = run("inspect", "small.pt", "--memory", 1000)
    assert status == 1
    assert "takes more than the 1,000 bytes that it may" in error
    assert "if you trust the file, give --memory BYTES" in error
    assert run("inspect", "small.pt", "--memory", 100_000)[0] == 0
    status, _, error = run("convert", "large.pt", "large.safetensors")
    assert status == 1
    assert "--memory BYTES" in error
