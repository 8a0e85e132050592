"""The `zkbroker` command.

Invariant: a user's mistake ends in one sentence of cause and one of cure, never in a traceback; the
exit status is 0 for success, 1 for a failure, 2 for a wrong command line. A subcommand's module is
imported when it is called, so that a broker process does not load code of other commands.
"""

from zkbroker.cli.main import main

__all__ = ["main"]
