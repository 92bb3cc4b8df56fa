"""Eight CPU devices for the tests of this folder, which run in a process of their own."""

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
