"""What each of two processes does before its checks: four CPU devices, and the group of both."""

import datetime as dt
import sys

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)

from flambeau import distributed  # noqa: E402 - after the settings above

TIMEOUT = dt.timedelta(seconds=120)


def say(word):
    """Tell the test that has started this process."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def connect(timeout=TIMEOUT):
    """The rank of this process, among two that have found each other."""
    distributed.init_process_group(timeout=timeout)
    return distributed.get_rank()


def run(checks):
    """Call each check, by its name in order, and say which has failed."""
    rank = connect()
    for check in checks:
        sys.stderr.write(f"process {rank}: {check.__name__}\n")
        check(rank)
    distributed.destroy_process_group()
