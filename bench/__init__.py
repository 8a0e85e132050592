"""Benchmarks: `python -m bench.<name>`. Figures are ratios measured in one run, medians of rounds."""
