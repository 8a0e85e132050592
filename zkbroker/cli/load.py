"""Entry point of the `zkbroker-load` script, which is there without the `spark` extra too.

The command itself lives upstairs, in `spark_loader.cli`; it is looked up by name as subcommands
are, and this room knows nothing of it but that.
"""

import importlib
import sys
from typing import NoReturn

from zkbroker.cli.output import say


def main() -> NoReturn:
    """Run `zkbroker-load`; where its packages are missing, say how to install them."""
    try:
        command = importlib.import_module("spark_loader.cli")
    except ModuleNotFoundError as missing:
        if missing.name != "spark_loader":
            raise
        say(f"error: {missing}", err=True)
        sys.exit(1)
    command.main()
    raise AssertionError("a command ends by exiting")
