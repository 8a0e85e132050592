"""`python -m bench` lists the benchmarks; `python -m bench.NAME` runs one.

Each measures ratios in one interleaved run and prints medians; machines are shared and noisy, so a
single time means nothing.
"""

import ast
from pathlib import Path


def main() -> None:
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name.startswith("_"):
            continue
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        print(f"python -m bench.{path.stem:<14} {text.partition(chr(10))[0]}")


main()
