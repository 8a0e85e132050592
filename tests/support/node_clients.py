"""The Node.js clients, which `scripts/install-node-clients.sh` puts beside the environment."""

import os
import shutil
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "interop" / "node"
FOLDER = Path(sys.prefix) / "node-clients"


def missing() -> str | None:
    """Why they cannot be run here; None when they can."""
    if shutil.which("node") is None:
        return "there is no node"
    if not (FOLDER / "installed.json").exists():
        return f"no Node.js clients at {FOLDER} (sh scripts/install-node-clients.sh {FOLDER})"
    return None


def command(script: str) -> list[str]:
    """Return the command that runs a program of `tests/interop/node`."""
    return ["node", str(SOURCES / script)]


def environment() -> dict[str, str]:
    """The environment in which node finds them."""
    return os.environ | {
        "NODE_PATH": str(FOLDER / "node_modules"),
        "KAFKAJS_NO_PARTITIONER_WARNING": "1",
        "NODE_NO_WARNINGS": "1",  # kafka-node calls what newer releases of node deprecate
    }
