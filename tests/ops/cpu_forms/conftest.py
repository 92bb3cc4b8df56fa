"""Forms for XLA's compiler are tested as they are, also where native kernels would be faster."""

from __future__ import annotations

import pytest

from flambeau.ops.native import convolution


@pytest.fixture(autouse=True)
def without_native_kernels(monkeypatch):
    monkeypatch.setattr(convolution, "takes", lambda *_: False)
