"""Checkpoints that two processes write together; with ``forever``, until one is killed.

With ``pytorch`` as third argument, these are in PyTorch's form.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))

import each_of_two
import numpy as np

import flambeau
from flambeau import distributed, nn
from flambeau.checkpoint.parts import INDEX
from flambeau.distributed import checkpoint
from flambeau.distributed.checkpoint import FileSystemWriter
from flambeau.distributed.checkpoint.torch_folder import METADATA
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh

FOLDER = sys.argv[1]
FOR_TORCH = "pytorch" in sys.argv[3:]
PLACE = {"storage_writer": FileSystemWriter(FOLDER)} if FOR_TORCH else {"checkpoint_id": FOLDER}
RULES = {"0.weight": ("model", None), "2.weight": (None, "model")}


def model_on(mesh, rules, seed):
    flambeau.manual_seed(seed)
    return flambeau.shard(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)), mesh, rules)


def elements(model):
    return [each.full_tensor().numpy(force=True) for each in model.parameters()]


def whole_mesh():
    return init_device_mesh("cpu", (8,), mesh_dim_names=("model",))


def equal(one, other):
    return all(map(np.array_equal, elements(one), elements(other)))


def each_process_writes_its_part(rank):
    folder = f"{FOLDER}/first"
    model = model_on(whole_mesh(), RULES, 1)
    checkpoint.save({"model": model, "step": 3}, checkpoint_id=folder)
    parts = sorted(each for each in os.listdir(folder) if each.startswith("model-"))
    assert len(parts) == 2
    pieces = [[*flambeau.load(f"{folder}/{part}")] for part in parts]
    assert sum("model.0.weight" in name for name in pieces[0]) == 4
    assert sum("model.0.weight" in name for name in pieces[1]) == 4
    distributed.barrier()
    assert not [each for each in os.listdir(folder) if each.startswith(".")]
    whole = flambeau.load(f"{folder}/{INDEX}")
    assert np.array_equal(whole["model.0.weight"].numpy(), elements(model)[0])
    # Another mesh, over both processes.
    mesh = DeviceMesh("cpu", [[6, 1], [3, 4]], mesh_dim_names=("data", "model"))
    other = model_on(mesh, {"0.weight": ("data", "model"), "2.weight": ("model", None)}, 2)
    state = {"model": other, "step": 0}
    checkpoint.load(state, checkpoint_id=folder)
    assert state["step"] == 3
    assert equal(model, other)


def a_save_goes_on_while_the_program_does(rank):
    folder = f"{FOLDER}/second"
    model = model_on(whole_mesh(), RULES, 1)
    before = elements(model)
    future = checkpoint.async_save({"model": model}, checkpoint_id=folder)
    with flambeau.no_grad():
        for each in model.parameters():
            each.add_(1.0)
    future.result(timeout=50)
    other = model_on(whole_mesh(), RULES, 2)
    checkpoint.load({"model": other}, checkpoint_id=folder)
    assert all(map(np.array_equal, elements(other), before))


def one_process_alone_loads_what_it_has_itself(rank):
    flambeau.manual_seed(5)
    alone = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    checkpoint.load({"model": alone}, checkpoint_id=f"{FOLDER}/first")
    expected = elements(model_on(whole_mesh(), RULES, 1))
    assert all(map(np.array_equal, [e.numpy(force=True) for e in alone.parameters()], expected))


def for_ever(rank):
    model = model_on(whole_mesh(), RULES, 1)
    for step in range(1000):
        with flambeau.no_grad():
            for each in model.parameters():
                each.fill_(float(step))
        state = {"model": model, "step": step}
        if step % 2:
            checkpoint.save(state, **PLACE)
        else:
            future = checkpoint.async_save(state, **PLACE)
            with flambeau.no_grad():
                model[0].weight.fill_(-1.0)
            future.result(timeout=50)
        if rank == 1:
            each_of_two.say(step)


def what_a_kill_has_left(rank):
    assert os.path.exists(f"{FOLDER}/{METADATA if FOR_TORCH else INDEX}")
    model = model_on(whole_mesh(), RULES, 1)
    state = {"model": model, "step": -1}
    checkpoint.load(state, checkpoint_id=FOLDER)
    assert all((each == state["step"]).all() for each in elements(model))
    if rank == 1:
        each_of_two.say(f"\nstep {state['step']}")
    # What the killed save has left goes with the next complete one.
    checkpoint.save(state, **PLACE)
    distributed.barrier()
    parts = [each for each in os.listdir(FOLDER) if each.startswith(("model-", "values-"))]
    assert len(parts) == 3


CHECKS = {
    "forever": [for_ever],
    "afterwards": [what_a_kill_has_left],
    "once": [
        each_process_writes_its_part,
        a_save_goes_on_while_the_program_does,
        one_process_alone_loads_what_it_has_itself,
    ],
}

if __name__ == "__main__":
    each_of_two.run(CHECKS[sys.argv[2]])
