"""`python -m zkbroker.cli`."""

from zkbroker.cli.main import main

main()
