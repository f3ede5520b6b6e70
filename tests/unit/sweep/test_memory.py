from __future__ import annotations

import subprocess
import sys

#: Frees a block of 24 MB, after which glibc by itself would serve the next ones from its heap and keep them; what is
#: still resident of twenty more blocks, in MB, after all but the last small one are freed.
PROGRAM = """
import sys
from runner.sweep.memory import give_back_large_blocks

if sys.argv[1] == "pinned":
    give_back_large_blocks()
first = bytearray(24_000_000)
del first
blocks = [bytearray(b"x") * 20_000_000 for _ in range(20)]
pin = bytearray(100_000)
del blocks
print(sum(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) // 1000)
"""


def resident_mb(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_blocks_go_back() -> None:
    assert resident_mb("pinned") < 60
    assert resident_mb("as it is") > 200
