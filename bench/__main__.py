"""`python -m bench` lists the benchmarks; `python -m bench all` runs those of the performance page.

Each measures ratios in one interleaved run and prints medians; machines are shared and noisy, so a
single time means nothing.

    python -m bench all [--results bench/results] [--only broker,replicas] [--rounds 5] [--small]
"""

import argparse
import ast
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Section(NamedTuple):
    """The benchmark of a section of the page.

    Attributes:
        module: of this package.
        small: options of the smallest run, which only checks that it works.
        page: options of the run for the page, if not the defaults.
    """

    module: str
    small: str
    page: str = ""


PAGE = {
    "broker": Section("broker", "--seconds 0.1"),
    "replicas": Section("replicas", "--seconds 0.3"),
    "producer": Section("producer", "--messages 2000 --singles 20"),
    "consumer": Section("consumer", "--messages 2000"),
    "spark": Section("spark_load", "--rows 2000 --only floor,range,loader,source"),
    "start": Section("startup", "--partitions 5 --created 1"),
    "failover": Section(
        "failover",
        "--partitions 6 --only another --many 6",
        "--many 10000 --brokers 6 --many-rounds 2",
    ),
    "cores": Section("cores", "--seconds 0.2"),
    "mirror": Section("mirror", "--messages 2000"),
    "tls": Section("tls", "--megabytes 2"),
    "console": Section(
        "console",
        "--topics 5 --partitions 1 --viewers 1 --seconds 1",
        "--topics 200 --partitions 5",
    ),
    "growth": Section("growth", "--small"),
}
"""Sections of the page, in their order."""
WITHIN_S = 1800
"""A benchmark that takes longer has failed."""


def listing() -> None:
    """Print every benchmark with its first line."""
    for path in sorted(HERE.glob("*.py")):
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if f"python -m bench.{path.stem} [" in doc:
            print(f"python -m bench.{path.stem:<14} {doc.partition(chr(10))[0]}")


def run_all(names: Sequence[str], results: Path, more: Sequence[str], *, small: bool) -> int:
    """Run each in its own process; return the number of failures."""
    failed = []
    for name in names:
        began = time.monotonic()
        print(f"== {name}", flush=True)
        module, least, page = PAGE[name]
        given = f"--rounds 1 {least}" if small else page
        command = [sys.executable, "-m", f"bench.{module}", *given.split(), *more]
        process = subprocess.Popen([*command, "--results", str(results)])
        try:
            code = process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            print(f"{name} took longer than {WITHIN_S} s", file=sys.stderr)
            process.send_signal(signal.SIGINT)  # it stops what it started
            code = process.wait() or 1
        if code:
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
    parser.add_argument("--small", action="store_true", help="only check that each works")
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
