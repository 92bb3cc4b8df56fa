"""Names of PyTorch that only answer: each row of the table is a module, or adds names to one."""

import inspect
import pickle
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

import flambeau
from flambeau._absent import AnswerFinder, _entries
from flambeau._answers import ANSWERS

MODULES = {key: name for name, key in AnswerFinder.modules.items()}


def run(code, *args):
    done = subprocess.run(
        [sys.executable, *args, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("key", ANSWERS)
def test_a_row_is_a_module_with_its_names(key):
    module = import_module(MODULES[key])
    assert find_spec(MODULES[key]) is not None
    for name, (declared, _) in _entries(key).items():
        value = getattr(module, name)
        if declared.startswith("class "):
            assert isinstance(value, type)
            assert (value.__module__, value.__name__) == (module.__name__, name)
        elif declared.endswith(")"):
            parameters = inspect.signature(value).parameters
            assert len(parameters) == 0 or declared.startswith(f"{name}(")
            assert value.__name__ == name


def test_every_row_is_a_module_under_the_name_torch():
    code = """
    import sys, flambeau
    from importlib import import_module
    from flambeau._absent import AnswerFinder
    flambeau.install_as_torch()
    for name, key in AnswerFinder.modules.items():
        assert import_module(f"torch.{key}") is sys.modules[name], key
    import torch
    print(torch._dynamo.exc.UserError, torch.distributed.algorithms.join.Join)
    """
    out = run(inspect.cleandoc(code))
    assert out == (
        "<class 'torch._dynamo.exc.UserError'> <class 'torch.distributed.algorithms.join.Join'>\n"
    )


def test_an_empty_folder_is_not_taken_for_a_module_of_the_table(tmp_path):
    (tmp_path / "onnx").mkdir()
    code = """
    import sys, flambeau
    flambeau.__path__.insert(0, sys.argv[1])
    if sys.argv[2] == "torch":
        flambeau.install_as_torch()
    import flambeau.onnx
    print(flambeau.onnx.is_in_onnx_export())
    """
    for name in ("flambeau", "torch"):
        command = [sys.executable, "-c", inspect.cleandoc(code), str(tmp_path), name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "False\n"


def test_an_answer_takes_the_arguments_of_pytorchs_function():
    assert flambeau.xpu.manual_seed(seed=3) is None
    assert flambeau.onnx.register_custom_op_symbolic("a::b", len, opset_version=9) is None
    with pytest.raises(TypeError):
        flambeau.xpu.device_count(1)
    with pytest.raises(TypeError):
        flambeau.jit.annotate(int)


def test_classes_and_numbers_are_pickled_by_name():
    error = flambeau.onnx.OnnxExporterError("no")
    assert type(pickle.loads(pickle.dumps(error))) is flambeau.onnx.OnnxExporterError
    mode = flambeau.onnx.TrainingMode.TRAINING
    assert pickle.loads(pickle.dumps(mode)) is mode
    assert mode == 2


def test_names_that_packages_import_without_calling_them():
    from flambeau.distributed.elastic.multiprocessing.errors import record
    from flambeau.fx.experimental.proxy_tensor import get_proxy_mode
    from flambeau.onnx import symbolic_opset11

    assert record(len) is len
    assert get_proxy_mode() is None
    assert symbolic_opset11.__name__ == "flambeau.onnx.symbolic_opset11"
    assert not flambeau.utils._python_dispatch.is_in_torch_dispatch_mode()
    with pytest.raises(NotImplementedError, match="TorchFunctionMode"):
        flambeau.utils._python_dispatch.TorchDispatchMode().__enter__()


def test_a_compiled_function_may_ask():
    def function(x):
        with flambeau.jit.strict_fusion():
            return x * (3 if flambeau.xpu.is_available() or flambeau.jit.is_scripting() else 2)

    run = flambeau.compile(function)
    assert [run(flambeau.ones(1)).item() for _ in range(3)] == [2, 2, 2]
    assert run.program_count == 1
