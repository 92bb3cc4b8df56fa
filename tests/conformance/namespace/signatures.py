"""Functions whose parameters are not PyTorch's, and why."""

from __future__ import annotations

FLASH = "PyTorch's other parameters order the writes of its FLASH kernel"
FILES = "has one pickler of its own, and safetensors beside it"
PLAIN = "an object of a class that PyTorch makes in C++, and nobody constructs"
ONE_OF_TWO = "PyTorch names the parameter after what it is given; here it has the documented name"
SCRIPT = "PyTorch's other names are those of TorchScript's overloads"
GPU_ONLY = "PyTorch has `out_dtype` on GPUs only; convert the result"

#: Full names below `torch`, and reasons.
DIFFERENT: dict[str, str] = {
    "SymBool": PLAIN,
    "SymFloat": PLAIN,
    "SymInt": PLAIN,
    "addmm": GPU_ONLY,
    "autograd.graph.GradientEdge": "PyTorch's third entry keeps alive what Python keeps here",
    "autograd.graph.Node": PLAIN,
    "baddbmm": GPU_ONLY,
    "bmm": GPU_ONLY,
    "cholesky_solve": "its second parameter has the documented name",
    "dsplit": ONE_OF_TWO,
    "dtype": PLAIN,
    "eq": SCRIPT,
    "hsplit": ONE_OF_TWO,
    "isin": ONE_OF_TWO,
    "layout": PLAIN,
    "linalg.lstsq": "its second parameter has the documented name",
    "linalg.tensorsolve": "its second parameter has the documented name",
    "memory_format": PLAIN,
    "mm": GPU_ONLY,
    "ne": SCRIPT,
    "nn.attention.flex_attention.BlockMask": FLASH,
    "nn.attention.flex_attention.create_block_mask": FLASH,
    "nn.functional.elu_": "the other factors are SELU's, which has a function of its own",
    "nn.functional.fractional_max_pool2d": "PyTorch's Python function calls it `_random_samples`",
    "nn.functional.fractional_max_pool3d": "PyTorch's Python function calls it `_random_samples`",
    "nn.functional.rrelu_": "draws come from the default generator",
    "onnx.ONNXProgram": "nothing is one here",
    "orgqr": "its second parameter has the documented name",
    "ormqr": "its parameters have the documented names",
    "random.fork_rng": "devices are named with their type",
    "result_type": ONE_OF_TWO,
    "rrelu_": "draws come from the default generator",
    "save": FILES,
    "serialization.mkdtemp": "it is Python's",
    "serialization.save": FILES,
    "sort": SCRIPT,
    "tensor": SCRIPT,
    "tensor_split": ONE_OF_TWO,
    "types.SymBool": PLAIN,
    "types.SymFloat": PLAIN,
    "types.SymInt": PLAIN,
    "vsplit": ONE_OF_TWO,
}

#: Second names of parameters, which are taken besides the one in the signature.
SECOND_NAMES = {"A": "input", "x": "input"}
