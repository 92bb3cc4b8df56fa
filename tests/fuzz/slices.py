"""When the slices of the searches run."""

from __future__ import annotations

import os

import pytest

SLICE_OF_A_SEARCH = pytest.mark.skipif(
    os.environ.get("FLAMBEAU_CONFORMANCE") == "0", reason="`make conformance` runs the searches"
)
