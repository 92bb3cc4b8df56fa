"""The default timeout of processes."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)
