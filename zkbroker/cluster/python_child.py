"""Runs modules of this package in child processes, wherever this process was started.

`python -m` puts the working directory before everything else, so that a directory with a
sub-directory `zkbroker`, such as the one the sources were cloned into, would hide the package.

Invariant: a child does not import from its working directory (`-P`), but uses the package of this
    process: if that is not installed, its directory is added to PYTHONPATH, whose other entries are
    kept.
"""

import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path

import zkbroker

_ROOT = Path(zkbroker.__file__).resolve().parent.parent


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a child process."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for `python_command`.

    Args:
        added: variables over those of this process.
    """
    environment = os.environ | dict(added or {})
    installed = map(Path, (*site.getsitepackages(), site.getusersitepackages()))
    if _ROOT not in {path.resolve() for path in installed}:
        given = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *([given] if given else [])])
    return environment
