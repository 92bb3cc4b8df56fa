"""`flambeau.distributed.tensor`, under the private name that packages import."""

from flambeau.distributed.tensor import *
