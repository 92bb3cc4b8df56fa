"""The catalogue of operators. Importing it declares them and gives Tensor its methods."""

from flambeau.ops.conversion import *
