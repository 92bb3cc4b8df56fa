"""Some of the programs, with flambeau alone; PyTorch's losses are those that were kept."""

import json
import os

import numpy as np
import pytest

from tests.programs.running import CASES, HERE, NotInstalledError, run_on

RESULTS = json.loads((HERE / "results.json").read_text())
SELECTED = [each for each in CASES if each.stem in ("einops", "torchdiffeq")]


@pytest.mark.skipif(
    os.environ.get("FLAMBEAU_CONFORMANCE") == "0", reason="`make conformance` runs the programs"
)
@pytest.mark.parametrize("path", SELECTED, ids=lambda path: path.stem)
def test_a_package_trains_as_with_pytorch(path, tmp_path):
    try:
        run_on("flambeau", path, tmp_path)
    except NotInstalledError as error:
        pytest.skip(f"the package cannot be installed here: {error}")
    found = np.load(tmp_path / "numbers.npz")
    expected = RESULTS[path.stem]["losses"]
    for kind in ("eager", "compiled"):
        np.testing.assert_allclose(found[f"{kind} losses"], expected, rtol=1e-3, atol=1e-6)
