"""Entry: `python3 -I -u /acpbench/guest/main.py --channel unix|stdio`.

`-I` keeps the script's folder, the user's site packages and every PYTHON* variable out, so the one addition to
`sys.path` is made here: the parent of this folder, at the end, where it can shadow nothing.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> int:
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.dirname(folder))
    supervisor = importlib.import_module(f"{os.path.basename(folder)}.supervisor")
    return int(supervisor.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
