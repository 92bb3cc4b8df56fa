"""Processes that are started again when one fails: names that programs for torchrun import."""
