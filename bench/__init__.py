"""Benchmarks: `python -m bench.<name>`. Ratios measured in one run, medians of rounds."""

import os

# A broker that compiles its sources at each start takes twice the CPU time to be ready.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
