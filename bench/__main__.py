"""`python -m bench` lists the benchmarks; `python -m bench all` runs those of the performance page.

Each measures ratios in one interleaved run and prints medians; machines are shared and noisy, so a
single time means nothing.

    python -m bench all [--results bench/results] [--only broker,replicas] [--rounds 5] [--small]
"""

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
PAGE = {
    "broker": "--seconds 0.1",
    "replicas": "--seconds 0.3",
    "producer": "--messages 2000 --singles 20",
    "consumer": "--messages 2000",
    "spark": "--rows 2000",
    "start": "--partitions 5 --created 1",
    "failover": "--partitions 6 --only another --many 6",
    "cores": "--seconds 0.2",
    "mirror": "--messages 2000",
    "tls": "--megabytes 2",
    "console": "--topics 5 --partitions 1 --viewers 1 --seconds 1",
    "growth": "--small",
}
"""Sections of the page in their order → options of the smallest run, which shows that it works."""
MODULES = {"spark": "spark_load", "start": "startup"}
"""Of those that bear another name."""
WITHIN_S = 1800
"""A benchmark that takes longer has failed."""


def listing() -> None:
    """Print every benchmark with its first line."""
    for path in sorted(HERE.glob("*.py")):
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if f"python -m bench.{path.stem} [" in doc:
            print(f"python -m bench.{path.stem:<14} {doc.partition(chr(10))[0]}")


def run_all(names: Sequence[str], results: Path, more: Sequence[str], *, small: bool) -> int:
    """Run each in a process of its own; returns the number of those that failed."""
    failed = []
    for name in names:
        began = time.monotonic()
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"bench.{MODULES.get(name, name)}", "--results", results]
        given = [*more, *(["--rounds", "1", *PAGE[name].split()] if small else [])]
        try:
            subprocess.run([*command, *given], check=True, timeout=WITHIN_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr)
            failed.append(name)
        print(f"== {name}: {time.monotonic() - began:.0f} s", flush=True)
    if failed:
        print(f"failed, and their results are as they were: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("list", "all"), default="list")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--only", default=",".join(PAGE), help="names of sections, with commas")
    parser.add_argument("--rounds", type=int, help="by default each benchmark's own number")
    parser.add_argument("--small", action="store_true", help="only see that each works")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := set(names) - PAGE.keys():
        parser.error(f"--only {','.join(sorted(unknown))}: there are {', '.join(PAGE)}")
    if given.what == "all":
        more = [] if given.rounds is None else ["--rounds", str(given.rounds)]
        sys.exit(1 if run_all(names, given.results, more, small=given.small) else 0)
    listing()


if __name__ == "__main__":
    main()
