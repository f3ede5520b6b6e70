"""The entry point of the installed command: a Ctrl-C while the libraries are still being loaded is one line too."""

from __future__ import annotations

import os
import sys


def main() -> None:
    try:
        from runner.cli.main import INTERRUPTED, main
    except KeyboardInterrupt:
        os.write(2, b"acpbench: interrupted\n")
        sys.exit(130)
    try:
        main()
    except KeyboardInterrupt:  # between two statements of `main` itself
        sys.exit(INTERRUPTED)
