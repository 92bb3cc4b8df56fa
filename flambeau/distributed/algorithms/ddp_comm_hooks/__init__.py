"""Functions for `DistributedDataParallel.register_comm_hook`."""
