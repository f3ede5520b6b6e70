"""Are the figures of a recorded sweep those that another revision computes from it?

    python -m tests.bench.figures REVISION DIR [DIR2]

`report`, `findings` and `compare` as JSON (and DIR against DIR2), by the checkout and by REVISION, value by value. What
people read (claims, notes, limits) may change its words: of it only whether there is any counts. Exit code 1 where a
value differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: Fields of the reports that hold sentences.
PROSE = frozenset({"claim", "note", "notes", "text", "limits", "what", "unit"})
_ABSENT = object()
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from runner.cli.start import main; main()"


def told_by(tree: Path, arguments: list[str]) -> Any:
    """What a command prints as JSON, with its exit code."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "ACPBENCH_ROOT": str(tree)}
    done = subprocess.run(
        [sys.executable, "-c", _START, str(tree), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
        env=environment,
    )
    output = json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done.stdout
    return {"exit code": done.returncode, "output": output, "errors": done.stderr}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no list or object, with its path; of prose that there is some."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [(f"{path}.{key}", bool(inner))] if key in PROSE else leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}[]", len(value)
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("revision")
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIR")
    options = parser.parse_args()
    first, *others = [str(directory.resolve()) for directory in options.directories]
    commands = [["report", first], ["findings", first], ["permissions", first], ["compare", first]]
    commands += [["compare", first, other] for other in others]
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        other_tree = Path(folder) / "tree"
        archive = subprocess.run(["git", "archive", options.revision], cwd=ROOT, capture_output=True, check=True)
        other_tree.mkdir()
        subprocess.run(["tar", "-x", "-C", other_tree], input=archive.stdout, check=True)
        for command in commands:
            arguments = [*command, "--format", "json"]
            then, now = (dict(leaves(told_by(tree, arguments))) for tree in (other_tree, ROOT))
            paths = [path for path in then | now if then.get(path, _ABSENT) != now.get(path, _ABSENT)]
            print(f"{command[0]}: {len(now)} values, {len(paths)} differ")
            for path in paths[:20]:
                print(f"  {path}: {then.get(path)!r} -> {now.get(path)!r}")
            different += len(paths)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
