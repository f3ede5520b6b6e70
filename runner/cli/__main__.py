"""`python -m runner.cli`: the same as the installed command."""

from runner.cli.start import main

main()
