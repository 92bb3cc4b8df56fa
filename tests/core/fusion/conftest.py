"""Sequences are fused from the first time that they come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flambeau.core.fusion import stream
from flambeau.core.programs.gears import settings


@pytest.fixture(autouse=True)
def _fused_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(settings, "fuse", 2)
    stream.boundary()
    monkeypatch.setattr(stream.here, "stream", stream.Stream())
    yield
    stream.boundary()
