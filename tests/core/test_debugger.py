"""A debugger's prompt inside a compiled function."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """
import flambeau
@flambeau.compile
def double(x):
    y = x * 2
    breakpoint()
    return y
print(double(flambeau.ones(2)), double.program_count)
"""


def test_a_prompt_shows_shapes_and_the_function_goes_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CODE)
    done = subprocess.run(
        [sys.executable, script],
        input="p y\np y.sum().item()\nprint(y.shape)\nc\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.split("(Pdb) ")[1:]
    assert shown[0] == "tensor(..., size=(2,))\n"
    assert shown[1].startswith("*** ")
    assert "the value of a tensor is not known" in shown[1]
    assert shown[2] == "flambeau.Size([2])\n"
    assert shown[3] == "tensor([2., 2.]) 1\n"
