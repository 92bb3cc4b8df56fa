"""Two processes that JAX finds by a scheduler's variables: without an address from PyTorch's."""

import sys

import each_of_two

import flambeau
from flambeau import distributed


def the_group(rank):
    assert (rank, distributed.get_world_size()) == (int(sys.argv[1]), 2)
    x = flambeau.tensor([float(rank), 1.0])
    distributed.all_reduce(x)
    assert x.tolist() == [1.0, 2.0]


if __name__ == "__main__":
    each_of_two.run([the_group])
