"""Runs `zkbroker` in a container; without arguments, a broker configured by the environment.

ZKBROKER_SOME_KEY=value becomes the property some.key=value, over those of the property file that
ZKBROKER_FILE names, if any. The command replaces this process, so that it receives the container's
signals.
"""

import os
import sys
from pathlib import Path

_COMMAND = "/opt/zkbroker/bin/zkbroker"
_PREFIX = "ZKBROKER_"
_DEFAULTS = {"log.dirs": "/data", "port": "9092", "zookeeper.connect": "zookeeper:2181"}


def main() -> None:
    """Replace this process by `zkbroker`."""
    arguments = sys.argv[1:]
    if not arguments:
        arguments = ["broker", str(_write_properties())]
    os.execv(_COMMAND, [_COMMAND, *arguments])  # noqa: S606 - replacing this process is the point


def _write_properties() -> Path:
    settings = {
        name.removeprefix(_PREFIX).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and name != f"{_PREFIX}FILE"
    }
    given = os.environ.get(f"{_PREFIX}FILE")
    text = Path(given).read_text(encoding="utf-8") if given else ""
    known = "".join(f"{key}={value}\n" for key, value in _DEFAULTS.items())
    chosen = "".join(f"{key}={value}\n" for key, value in settings.items())
    # Of two lines with one key the later one counts.
    path = Path("/tmp/server.properties")  # noqa: S108 - the container's own
    path.write_text(f"{known}{text}\n{chosen}", encoding="utf-8")
    return path


main()
