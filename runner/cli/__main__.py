"""`python -m runner.cli`: the same as the installed command."""

from runner.cli.main import main

main()
