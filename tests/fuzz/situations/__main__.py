"""Judge situations: ``python -m tests.fuzz.situations --seconds 60 --seed 1 --only 'property'``."""

from __future__ import annotations

import argparse
import re
import sys
from itertools import islice

from tests.fuzz.situations import chosen, every, known, write_known
from tests.fuzz.situations.crossing import crossed
from tests.fuzz.situations.running import run_all


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=None, help="when to stop")
    parser.add_argument("--seed", type=int, default=0, help="decides order and crossings")
    parser.add_argument("--limit", type=int, default=None, help="how many at most")
    parser.add_argument("--only", default=None, help="a pattern that names must match")
    parser.add_argument("--known", action="store_true", help="those of known.txt only")
    parser.add_argument("--update", action="store_true", help="rewrite known.txt by the verdicts")
    parser.add_argument("--random", action="store_true", help="random crossings only")
    parser.add_argument("--names", action="store_true", help="print no source")
    args = parser.parse_args()
    pattern, names = args.only or "", known()
    if args.random:
        situations = islice(crossed(args.seed), args.limit)
    elif args.known or args.only is not None:
        found = (each for each in every() if re.search(pattern, each.name))
        situations = (each for each in found if not args.known or each.name in names)
        situations = islice(situations, args.limit)
    else:
        situations = chosen(args.seconds, args.seed, args.limit)
    shown_all = args.known or args.update
    report = run_all(situations, args.seconds, args.seed, frozenset() if shown_all else names)
    if args.names:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(report.counts.items()))
        sys.stdout.write(f"{report.table()}\n{report.seconds:.0f} s: {counts}\n")
    else:
        sys.stdout.write(f"{report}\n{report.table()}\n")
    if args.update:
        judged = {each.situation.name for each in report.verdicts}
        failing = {each.situation.name for each in report.verdicts if not each.agrees}
        write_known(names - judged | failing)
    return bool(report.disagreements)


if __name__ == "__main__":
    raise SystemExit(main())
