"""Entry point of the `zkbroker-load` script, which exists even without the `spark` extra.

The command itself is in `spark_loader.cli`, a higher layer; it is imported by name, as subcommands
are, and nothing else of it is known here.
"""

import importlib
import sys
from typing import NoReturn

from zkbroker.cli.output import say


def main() -> NoReturn:
    """Run `zkbroker-load`; if its packages are missing, say how to install them."""
    try:
        command = importlib.import_module("spark_loader.cli")
    except ModuleNotFoundError as missing:
        if missing.name != "spark_loader":
            raise
        say(f"error: {missing}", err=True)
        sys.exit(1)
    command.main()
    raise AssertionError("a command ends by exiting")
