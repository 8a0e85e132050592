"""Benchmarks: `python -m bench.<name>`. Ratios measured in one run, medians of rounds."""
