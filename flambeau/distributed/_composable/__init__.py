"""Composable ways to divide a model, by the private name that packages import."""

from flambeau.distributed._composable import fsdp as fsdp

__all__: list[str] = []
