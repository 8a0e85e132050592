"""Tests with a Docker engine, which are asked for by name: their libraries are slow to load."""

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return True if "not docker" in config.option.markexpr else None
