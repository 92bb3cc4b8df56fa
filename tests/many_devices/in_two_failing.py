"""What one of two processes does wrong, by name; the other has to end with an error."""

import datetime as dt
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(__file__))

import each_of_two

import flambeau
from flambeau import distributed, nn, optim
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.nn.parallel import DistributedDataParallel


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


def a_killed_process(rank):
    trained((lambda: os.kill(os.getpid(), signal.SIGKILL)) if rank else None)


def a_failing_process(rank):
    def fail():
        raise ValueError("the data are damaged")

    trained(fail if rank == int(sys.argv[3]) else None)


if __name__ == "__main__":
    seconds = dt.timedelta(seconds=int(sys.argv[2]))
    globals()[sys.argv[1]](each_of_two.connect(seconds))
