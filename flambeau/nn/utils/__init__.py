"""Tools for modules and their parameters."""

from flambeau.nn.utils.init import skip_init as skip_init
