"""Eight CPU devices for the tests of this folder, which run in a process of their own."""

import os

import jax

# Other processes only look for doctests here.
collect_ignore_glob = [] if os.environ.get("FLAMBEAU_MANY_DEVICES") else ["*.py"]

if not collect_ignore_glob:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
