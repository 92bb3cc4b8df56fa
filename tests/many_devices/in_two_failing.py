"""What one of two processes does wrong, by name; the other has to end with an error.

The arguments are the name, the seconds for which processes wait for each other, and the rank of the
process that does it.
"""

import datetime as dt
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))

import each_of_two

import flambeau
from flambeau import distributed, nn, optim
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.process_group import store_of_world
from flambeau.distributed.supervision import supervise
from flambeau.nn.parallel import DistributedDataParallel

OTHER = int(sys.argv[3])
SOON = 3.0


def trained(step_of_failure=None):
    """Train for ever; call a function at one step."""
    mesh = init_device_mesh("cpu", (8,))
    model = DistributedDataParallel(nn.Linear(4, 4), device_mesh=mesh)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @flambeau.compile
    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    batches = [flambeau.ones(8, 4)] * 2000
    for number, x in enumerate(distributed.global_batches(batches, mesh)):
        if number == 5 and step_of_failure is not None:
            step_of_failure()
        step(x)
        if number == 0:
            each_of_two.say("training")


def soon(seconds=SOON):
    """Wait for others, and for a sign of life, only this many seconds, from now on."""
    supervise(store_of_world(), 2, seconds, SOON)


def a_killed_process(rank):
    soon(10 * SOON)
    trained((lambda: os.kill(os.getpid(), signal.SIGKILL)) if rank == OTHER else None)


def a_process_that_does_not_come(rank):
    soon()
    trained((lambda: time.sleep(100)) if rank == OTHER else None)


def a_process_that_ends_early(rank):
    trained(sys.exit if rank == OTHER else None)


def a_failing_process(rank):
    def fail():
        raise ValueError("the data are damaged")

    try:
        trained(fail if rank == OTHER else None)
    finally:
        distributed.destroy_process_group()


def a_larger_world(rank):
    trained()


if __name__ == "__main__":
    if sys.argv[1] == "a_larger_world" and int(os.environ["RANK"]) == OTHER:
        os.environ["WORLD_SIZE"] = "3"
    seconds = dt.timedelta(seconds=int(sys.argv[2]))
    globals()[sys.argv[1]](each_of_two.connect(seconds))
