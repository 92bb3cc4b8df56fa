"""The errors of processes that a launcher has started."""
