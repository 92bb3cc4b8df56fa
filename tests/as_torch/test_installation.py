"""flambeau under the name torch: what programs and packages see, in processes of their own."""

import os
import subprocess
import sys
import textwrap

import pytest

from flambeau.as_torch.torch_version import TorchVersion


def run(*arguments, code=None, folder=None, **environment):
    """Run Python; gives its standard output, and its standard error as the last item."""
    command = [sys.executable, *arguments]
    if code is not None:
        command += ["-c", textwrap.dedent(code)]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**kept, "PYTHONPATH": root, **environment},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_everything_below_torch_is_flambeau():
    out, error = run(
        "-m",
        "flambeau",
        code="""
        import importlib, importlib.metadata, importlib.util, sys
        import torch, torch.nn as nn, torch.nn.functional as F
        import torch.compile
        import torch.autograd.gradcheck
        from torch.utils.data import DataLoader
        from torch.torch_version import TorchVersion
        import flambeau

        assert torch.nn is flambeau.nn and F is flambeau.nn.functional
        assert torch.compile is flambeau.compile and callable(torch.autograd.gradcheck)
        assert flambeau.autograd.gradcheck is torch.autograd.gradcheck
        assert flambeau.nn.__spec__.name == "flambeau.nn"
        assert torch.torch is torch and torch.__name__ == torch.__spec__.name == "torch"
        assert torch.__version__ == torch.version.__version__ and torch.__version__ >= (2, 13)
        assert str(torch.__version__) == "2.13.0+flambeau" != flambeau.__version__
        assert isinstance(torch.__version__, TorchVersion) and torch.version.cuda is None
        assert importlib.metadata.version("torch") == "2.13.0+flambeau"
        # What PyTorch brings along, packages take for granted.
        asked = importlib.metadata.requires("torch")
        assert any(each.startswith("typing-extensions") for each in asked)
        assert importlib.util.find_spec("torch") is not None
        assert importlib.util.find_spec("torch.nn.functional") is not None
        assert importlib.util.find_spec("torch.nothing") is None
        assert "flambeau" in torch.__file__
        print(torch.float32, repr(torch.ones(2).shape), torch.ones(1).type())
        print(torch.ones(1, dtype=torch.int32))
        print(torch.ones(1).type("torch.DoubleTensor").dtype, torch.channels_last)
        try:
            torch.nothing
        except AttributeError as error:
            print(error)
        try:
            import torch.nothing
        except ModuleNotFoundError as error:
            print(error)
        relu, torch.relu = torch.relu, "patched"
        assert flambeau.relu == torch.relu == "patched"
        flambeau.relu = relu
        assert torch.relu is relu

        @torch.compile
        def step(x):
            return torch.relu(x)

        x = torch.tensor([-1.0])
        assert step(x).item() == 0
        import warnings

        warnings.filterwarnings("ignore", "step has been compiled 3 times")
        torch.relu = torch.sin
        assert torch.allclose(step(x), x.sin())
        flambeau.relu = torch.cos
        assert torch.allclose(step(x), x.cos())
        assert torch.compile(lambda x: x if x > 0 else -x)(x).item() == 1
        torch.gone = 1
        del flambeau.gone
        assert not hasattr(torch, "gone")
        assert "relu" in dir(torch) and "flambeau" not in repr(torch.ones(1, dtype=torch.int8))
        """,
    )
    assert out.splitlines() == [
        "torch.float32 torch.Size([2]) torch.FloatTensor",
        "tensor([1], dtype=torch.int32)",
        "torch.float64 torch.channels_last",
        "module 'torch' has no attribute 'nothing'",
        "No module named 'torch.nothing'",
    ]
    assert error.splitlines() == [(f"flambeau {__import__('flambeau').__version__} stands in for "
                                  "torch 2.13.0+flambeau")]  # fmt: skip


SCRIPT = """
import pickle, subprocess, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from helper import width

class Numbers(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.full((width,), float(i))

if __name__ == "__main__":
    batches = list(DataLoader(Numbers(), batch_size=2, num_workers=1))
    print(sys.argv[1:], [each.sum().item() for each in batches])
    child = "import importlib.metadata as m, torch; print(m.version('torch'), torch.ones(2).sum())"
    subprocess.run([sys.executable, "-c", child], check=True)
    layer = pickle.loads(pickle.dumps(nn.Linear(2, 2)))
    reference = pickle.loads(b"ctorch.nn.modules.linear\\nLinear\\n.")
    print(type(layer) is reference is nn.Linear, pickle.loads(b"ctorch\\nfloat32\\n."))

    @torch.compile
    def step(x):
        return torch.relu(x).sum()

    print(step(torch.tensor([1.0, -1.0])).item())
    sys.stdout.flush()
"""


def test_a_script_with_workers_and_processes(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("width = 3\n")
    out, error = run("-m", "flambeau", str(tmp_path / "program.py"), "--rate", "1")
    assert "['--rate', '1'] [3.0, 15.0]" in out
    assert "2.13.0+flambeau tensor(2.)" in out
    assert "True torch.float32" in out
    assert out.splitlines()[-1] == "1.0"
    assert error.count("stands in for") == 1


def test_a_package_is_run_by_its_name(tmp_path):
    package = tmp_path / "program"
    package.mkdir()
    (package / "__init__.py").write_text("import torch\n")
    (package / "__main__.py").write_text(
        "import sys, torch\nprint(__name__, sys.argv[1:], torch.__version__)\n"
    )
    out, _ = run("-m", "flambeau", "-m", "program", "7", folder=tmp_path)
    assert out == "__main__ ['7'] 2.13.0+flambeau\n"


def test_it_can_be_undone_and_is_refused_beside_pytorch(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("real = True\n")
    out, error = run(
        code=f"""
        import sys
        sys.path.append({str(tmp_path)!r})
        import flambeau
        before = list(sys.path), list(sys.meta_path), dict(__import__("os").environ)
        torch = flambeau.install_as_torch()
        assert flambeau.install_as_torch() is torch is sys.modules["torch"]
        import torch.nn.functional
        flambeau.uninstall_as_torch()
        assert not [each for each in sys.modules if each.split(".")[0] == "torch"]
        assert before == (list(sys.path), list(sys.meta_path), dict(__import__("os").environ))
        print(flambeau.float32)
        import torch
        assert torch.real
        try:
            flambeau.install_as_torch()
        except RuntimeError as error:
            print(error)
        """,
    )
    name, refusal = out.splitlines()
    assert name == "flambeau.float32"
    assert refusal.startswith("torch is imported already, from ")
    assert error.count("stands in for") == 1


def test_pytest_has_a_plugin(tmp_path):
    (tmp_path / "conftest.py").write_text("import torch\nassert torch.version.hip is None\n")
    (tmp_path / "test_it.py").write_text(
        "import torch\n\ndef test():\n    assert torch.__version__ > '2.12'\n"
    )
    out, _ = run(
        "-m", "pytest", "-q", "-p", "flambeau.as_torch", "-p", "no:cacheprovider", folder=tmp_path
    )
    assert "1 passed" in out


@pytest.mark.parametrize("arguments", [[], ["-x"], ["-m"]])
def test_a_wrong_command_line_says_how(arguments):
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage: python -m flambeau script.py" in done.stderr


def test_versions_compare_by_their_numbers():
    version = TorchVersion("2.13.0+flambeau")
    assert version >= "2.9"
    assert version < "2.13.1"
    assert version > (2, 1)
    assert version <= "2.13"
    assert version == "2.13.0"
    assert version != "2.12"
    assert version != "no version"
    assert isinstance(version, str)
    assert {version: 1}[version] == 1
    with pytest.raises(ValueError, match=r"is not a version; write one such as '2\.1'"):
        version < "new"  # noqa: B015


def test_functorch_is_there_too():
    out, _ = run(
        "-m",
        "flambeau",
        code="""
        import torch
        from functorch import combine_state_for_ensemble, grad, make_functional, vmap
        from functorch import FunctionalModule, make_functional_with_buffers

        layer = torch.nn.Linear(2, 1)
        function, parameters = make_functional(layer)
        x = torch.ones(3, 2)
        assert torch.equal(function(parameters, x), layer(x))
        assert isinstance(function, FunctionalModule) and not [*function.parameters()]
        found = vmap(grad(lambda p, x: function(p, x).sum()), (None, 0))(parameters, x)
        print([tuple(each.shape) for each in found])
        network = torch.nn.Sequential(layer, torch.nn.BatchNorm1d(1)).eval()
        try:
            make_functional(network)
        except RuntimeError as error:
            print("has buffers" in str(error))
        function, *state = make_functional_with_buffers(network, disable_autograd_tracking=True)
        assert torch.equal(function(*state, x), network(x))
        print([each.requires_grad for each in state[0]], layer.weight.requires_grad)
        function, *state = combine_state_for_ensemble([layer, layer])
        print(tuple(vmap(function, (0, 0, None))(*state, x).shape))
        """,
    )
    assert out.splitlines() == [
        "[(3, 1, 2), (3, 1)]", "True", "[False, False, False, False] True", "(2, 3, 1)"
    ]  # fmt: skip


def test_a_package_takes_its_forms_in_python_where_its_library_cannot_be_loaded(tmp_path):
    package = tmp_path / "torchaudio" / "_extension"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("from . import _extension\n")
    (package / "__init__.py").write_text("from .utils import _load_lib\nLOADED = _load_lib('x')\n")
    (package / "utils.py").write_text(
        "import torch\ndef _load_lib(name):\n    torch.ops.load_library(name)\n    return True\n"
    )
    code = "import torchaudio; print(torchaudio._extension.LOADED)"
    (tmp_path / "script.py").write_text(code)
    out, _ = run("-m", "flambeau", "script.py", folder=tmp_path)
    assert out == "False\n"
