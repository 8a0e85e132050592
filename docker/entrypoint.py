"""Runs `zkbroker` in a container; without arguments, a broker configured by the environment.

ZKBROKER_SOME_KEY=value becomes the property some.key=value, over those of the property file that
ZKBROKER_FILE names, if any. In names of variables `__` stands for a hyphen and `___` for an
underscore. The command replaces this process, so that it receives the container's signals.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

_COMMAND = "/opt/zkbroker/bin/zkbroker"
_PREFIX = "ZKBROKER_"
_DEFAULTS = {"log.dirs": "/data", "port": "9092", "zookeeper.connect": "zookeeper:2181"}
# Variables of the commands, which are no properties of a broker.
_OF_COMMANDS = {"FILE", "BOOTSTRAP", "COMMAND_CONFIG", "PURE_PYTHON", "USER_PASSWORD", "ZOOKEEPER"}
_SIGNS = {"_": ".", "__": "-", "___": "_"}


def main() -> None:
    """Replace this process by `zkbroker`."""
    arguments = sys.argv[1:]
    if not arguments:
        arguments = ["broker", str(_write_properties())]
    os.execv(_COMMAND, [_COMMAND, *arguments])  # noqa: S606 - replacing this process is the point


def _write_properties() -> Path:
    settings = {
        _key(name.removeprefix(_PREFIX)): _escaped(value)
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _OF_COMMANDS
    }
    given = os.environ.get(f"{_PREFIX}FILE")
    text = Path(given).read_text(encoding="utf-8") if given else ""
    known = "".join(f"{key}={value}\n" for key, value in _DEFAULTS.items())
    chosen = "".join(f"{key}={value}\n" for key, value in settings.items())
    # Of two lines with one key the later one counts.
    path = Path(tempfile.gettempdir()) / "server.properties"
    path.touch(mode=0o600)  # there may be passwords in it
    path.write_text(f"{known}{text}\n{chosen}", encoding="utf-8")
    return path


def _key(name: str) -> str:
    return re.sub("_{1,3}", lambda found: _SIGNS[found[0]], name.lower())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


main()
