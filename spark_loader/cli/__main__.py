"""`python -m spark_loader.cli`: the same as `zkbroker-load`."""

from spark_loader.cli import main

main()
