"""Print the share of flambeau's public interface that is typed; fail if it has decreased.

    python -m tools.completeness [--missing]

Pyright's ``--verifytypes`` counts the public names whose type is known without inference;
``--missing`` prints its diagnostics for the others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
#: The least percentage of public names with a known type.
FLOOR = 97.5
_LIMIT = 300


def measured() -> dict[str, Any]:
    """Pyright's report on the package, as seen from where it is installed."""
    with tempfile.TemporaryDirectory() as folder:
        # Outside of the repository, where pyright would treat it as the program to check.
        (Path(folder) / "flambeau").symlink_to(ROOT / "flambeau")
        done = subprocess.run(
            [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson",
             "--verifytypes", "flambeau", "--ignoreexternal"],
            cwd=folder, env={**os.environ, "PYTHONPATH": folder},
            capture_output=True, text=True, check=False, timeout=_LIMIT,
        )  # fmt: skip
    try:
        return json.loads(done.stdout)["typeCompleteness"]
    except (ValueError, KeyError):
        raise SystemExit(f"pyright --verifytypes failed:\n{done.stdout}{done.stderr}") from None


def missing(found: dict[str, Any]) -> list[str]:
    """The diagnostics of all public names without a known type."""
    lines = []
    for symbol in found["symbols"]:
        if symbol["isExported"] and not symbol["isTypeKnown"]:
            messages = [" ".join(each["message"].split()) for each in symbol["diagnostics"]]
            lines += [f"{symbol['name']}: {each}" for each in messages if "docstring" not in each]
    return lines


def main() -> None:
    """Print the percentage; fail below `FLOOR`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", action="store_true", help="print every name without a type")
    found = measured()
    if parser.parse_args().missing:
        sys.stdout.writelines(f"{line}\n" for line in missing(found))
    score = 100 * found["completenessScore"]
    sys.stdout.write(f"{score:.1f} % of the public names have a known type\n")
    if score < FLOOR:
        raise SystemExit(
            f"that is less than {FLOOR} %: annotate what `python -m tools.completeness --missing` "
            "lists, first the attributes and base classes on which other names depend"
        )


if __name__ == "__main__":
    main()
