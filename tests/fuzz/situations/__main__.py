"""Judge situations: ``python -m tests.fuzz.situations --seconds 60 --seed 1 --only 'property'``."""

from __future__ import annotations

import argparse
import re
import sys
from itertools import islice

from tests.fuzz.situations import chosen, every
from tests.fuzz.situations.running import run_all


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=None, help="when to stop")
    parser.add_argument("--seed", type=int, default=0, help="decides order and crossings")
    parser.add_argument("--limit", type=int, default=None, help="how many at most")
    parser.add_argument("--only", default=None, help="a pattern that names must match")
    parser.add_argument("--names", action="store_true", help="print no source")
    parser.add_argument("--list", action="store_true", help="print all names, judge none")
    args = parser.parse_args()
    if args.only is not None:
        found = (each for each in every() if re.search(args.only, each.name))
        situations = islice(found, args.limit)
    else:
        situations = chosen(args.seconds, args.seed, args.limit)
    if args.list:
        sys.stdout.writelines(f"{each.name}\n" for each in situations)
        return 0
    report = run_all(situations, args.seconds, args.seed)
    if args.names:
        sys.stdout.writelines(f"{each.title}\n" for each in report.disagreements)
    else:
        sys.stdout.write(f"{report}\n{report.table()}\n")
    return bool(report.disagreements)


if __name__ == "__main__":
    raise SystemExit(main())
