"""The writer of TensorBoard's files."""

import subprocess
import sys

import pytest

import flambeau


def test_tensors_are_written(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs tensorboardX")
    from flambeau.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("loss", flambeau.tensor(2.5, requires_grad=True), 3)
        writer.add_scalars("parts", {"left": flambeau.tensor(1.0), "right": 2.0}, 3)
        writer.add_histogram("weights", flambeau.randn(8, dtype=flambeau.bfloat16), 3)
        with pytest.raises(NotImplementedError, match=r"jax\.make_jaxpr"):
            writer.add_graph(flambeau.nn.Linear(2, 2))
    written = b"".join(each.read_bytes() for each in tmp_path.rglob("events*"))
    for tag in (b"loss", b"parts", b"weights"):
        assert tag in written


def test_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['tensorboardX'] = None; import flambeau; "
        "assert not hasattr(flambeau.utils, 'tensorboard'); "
        "from flambeau.utils.tensorboard import SummaryWriter"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().endswith("pip install tensorboardX"), done.stderr
    assert "ImportError" in done.stderr
