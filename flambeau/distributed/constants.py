"""How long processes wait for each other, if nothing else is said."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)
