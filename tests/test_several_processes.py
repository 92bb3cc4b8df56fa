"""The programs in `many_devices` that two processes run together, over this machine's loopback."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flambeau.core.devices import native

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "many_devices"
SECONDS = 300


OF_PYTORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def two_processes(script, *arguments, world=(0, 1)):
    """Two processes that run a program, which are killed at the end."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    environment.update(
        WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), PYTHONPATH=str(ROOT)
    )
    command = [sys.executable, "-u", str(FOLDER / script), *map(str, arguments)]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(
            command, env={**environment, "RANK": str(rank)}, stdout=pipe, stderr=pipe, text=True
        )
        for rank in world
    ]
    try:
        yield processes
    finally:
        for each in processes:
            each.kill()
            each.communicate()


def outcome(process, seconds=SECONDS):
    """The code with which a process ends, and what it has written."""
    output, errors = process.communicate(timeout=seconds)
    return process.returncode, output + errors


def run_in_two(script, *arguments):
    with two_processes(script, *arguments) as processes:
        for each in processes:
            code, text = outcome(each)
            assert code == 0, text


def test_collectives():
    run_in_two("in_two_collectives.py")


def test_training_on_batches_of_their_own():
    run_in_two("in_two_parts.py")


def test_training_gives_the_numbers_of_one_device():
    run_in_two("in_two_training.py")


@pytest.mark.skipif(
    not hasattr(native._loaded(), "flambeau_lstm"),
    reason="the native kernels are not installed; `make kernels` builds them",
)
def test_native_kernels():
    run_in_two("in_two_kernels.py")


def test_checkpoints(tmp_path):
    run_in_two("in_two_checkpoints.py", tmp_path, "once")


@pytest.mark.parametrize(
    ("form", "killed", "milliseconds"), [("safetensors", 0, 7), ("pytorch", 1, 40)]
)
def test_a_killed_process_leaves_the_last_complete_checkpoint(tmp_path, form, killed, milliseconds):
    with two_processes("in_two_checkpoints.py", tmp_path, "forever", form) as processes:
        # Gloo writes to the same stream.
        last = int(next(filter(str.isdigit, map(str.strip, processes[1].stdout))))
        time.sleep(milliseconds / 1000)
        processes[killed].send_signal(signal.SIGKILL)
        time.sleep(0.2)
        processes[1 - killed].send_signal(signal.SIGKILL)
        rest = [*map(str.strip, processes[1].communicate()[0].splitlines())]
        last = int([last, *filter(str.isdigit, rest)][-1])
    with two_processes("in_two_checkpoints.py", tmp_path, "afterwards", form) as processes:
        (code, text), (_, printed) = map(outcome, processes)
    assert code == 0, text
    assert f"\nstep {last}\n" in printed or f"\nstep {last + 1}\n" in printed


def test_processes_that_slurm_has_started_find_each_other():
    # JAX derives the port of process 0 from the job's number.
    jobs = (job for job in range(4096) if is_free(61440 + job))
    slurm = {"SLURM_JOB_ID": next(jobs), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": 2}
    slurm |= {"SLURM_STEP_NUM_NODES": 1}
    environment = {name: value for name, value in os.environ.items() if name not in OF_PYTORCH}
    environment |= {name: str(value) for name, value in slurm.items()}
    environment["PYTHONPATH"] = str(ROOT)
    processes = [
        subprocess.Popen(
            [sys.executable, str(FOLDER / "in_two_found.py"), str(rank)],
            env={**environment, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        for each in processes:
            code, text = outcome(each)
            assert code == 0, text
    finally:
        for each in processes:
            each.kill()


def failures(name, other):
    """How both end, when one does something wrong in the middle of the training."""
    with two_processes("in_two_failing.py", name, 120, other) as processes:
        return [outcome(each) for each in processes]


@pytest.mark.parametrize(
    ("killed", "code", "message"),
    [
        (1, 1, "process 0 of 2 ends: process 1 has given no sign of life for 3 s"),
        # Process 0 has what connects the others, so JAX ends them at once.
        (0, -signal.SIGABRT, "Either the leader task was preempted/died"),
    ],
)
def test_a_killed_process_ends_the_other(killed, code, message):
    outcomes = failures("a_killed_process", killed)
    assert outcomes[killed][0] == -signal.SIGKILL
    assert "training\n" in outcomes[1 - killed][1]
    assert outcomes[1 - killed][0] == code
    assert message in outcomes[1 - killed][1]


def test_a_process_that_lives_and_does_not_come_ends_both():
    outcomes = failures("a_process_that_does_not_come", 1)
    assert [code for code, _ in outcomes] == [1, 1]
    for rank, (_, text) in enumerate(outcomes):
        assert (
            f"process {rank} of 2 ends: process 0 has waited for 3 s (timeout) in 'compiled_step', "
            "the program number 7 over all processes: process 1 has begun 6, the last of them "
            "'compiled_step'. "
        ) in text


def test_a_process_that_ends_early_ends_the_other():
    outcomes = failures("a_process_that_ends_early", 0)
    assert [code for code, _ in outcomes] == [1, 1]
    for rank, (_, text) in enumerate(outcomes):
        assert f"process {rank} of 2 ends: process 1 has waited for " in text
        assert "process 0 has ended, and had begun 6, the last of them 'compiled_step'" in text


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failing_process_ends_the_other(failing):
    outcomes = failures("a_failing_process", failing)
    assert [code for code, _ in outcomes] == [1, 1]
    told = f"process {failing} has failed with ValueError: the data are damaged"
    assert f"process {1 - failing} of 2 ends: {told}" in outcomes[1 - failing][1]
    assert "in a_failing_process" in outcomes[failing][1]


@pytest.mark.parametrize(
    ("rank", "message"),
    [(0, "not all processes have come to init_process_group"), (1, "process 0 does not listen")],
)
def test_a_process_that_never_starts_ends_the_other(rank, message):
    with two_processes("in_two_failing.py", "a_killed_process", 2, 1, world=(rank,)) as (process,):
        code, text = outcome(process)
    assert code == 1
    assert f"{message}" in text
    assert "at 127.0.0.1:" in text


def test_a_process_that_expects_another_world_ends_both():
    with two_processes("in_two_failing.py", "a_larger_world", 60, 1) as processes:
        outcomes = [outcome(each) for each in processes]
    message = "process 1 is started in a world of 3 processes, but process 0 in one of 2"
    assert [code for code, _ in outcomes] == [1, 1]
    assert all(message in text for _, text in outcomes)


def test_a_script_for_pytorch_is_launched_under_its_name(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "import torch.distributed as dist\n"
        "import os\n"
        "rank = int(os.environ['RANK'])\n"
        "method = f'file://{os.path.dirname(__file__)}/meeting'\n"
        "dist.init_process_group('gloo', init_method=method, rank=rank, world_size=2)\n"
        "x = torch.tensor([float(dist.get_rank() + 1)])\n"
        "dist.all_reduce(x, op=dist.ReduceOp.SUM)\n"
        "open(f'{__file__}.{dist.get_rank()}', 'w').write(f'{x.item()} {torch.__version__}')\n"
        "dist.destroy_process_group()\n"
    )
    launcher = [sys.executable, "-m", "flambeau", "-m", "torch.distributed.run"]
    found = subprocess.run(
        [*launcher, "--nproc-per-node", "2", str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert not (tmp_path / "meeting").exists()
    texts = [(tmp_path / f"script.py.{rank}").read_text() for rank in range(2)]
    assert all(text.startswith("3.0 ") and "flambeau" in text for text in texts)
