"""`python -m bench` lists the benchmarks; `python -m bench all` runs those of the performance page.

Each measures ratios in one interleaved run and prints medians; machines are shared and noisy, so a
single time means nothing.

    python -m bench all [--results bench/results] [--rounds 5]
"""

import argparse
import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OF_THE_PAGE = ("broker", "producer", "consumer", "growth")
"""Those that take `--results`, in the order of the page."""


def listing() -> None:
    """Print every benchmark with its first line."""
    for path in sorted(HERE.glob("*.py")):
        if path.name.startswith("_"):
            continue
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        print(f"python -m bench.{path.stem:<14} {text.partition(chr(10))[0]}")


def run_all(results: Path, rounds: int) -> int:
    """Run each in a process of its own; returns the number of those that failed."""
    failed = []
    for name in OF_THE_PAGE:
        print(f"== bench.{name}", flush=True)
        command = [sys.executable, "-m", f"bench.{name}", "--rounds", str(rounds)]
        if subprocess.run([*command, "--results", str(results)]).returncode:
            failed.append(name)
    if failed:
        print(f"failed, and their results are as they were: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("list", "all"), default="list")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.what == "all":
        sys.exit(1 if run_all(given.results, given.rounds) else 0)
    listing()


main()
