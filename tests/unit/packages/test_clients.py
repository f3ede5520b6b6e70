"""What npm and pip complain of, in the one line that a user gets to read."""

from __future__ import annotations

import pytest

from runner.packages.clients import ClientRun

NPM_NO_VERSION = """\
npm error code ETARGET
npm error notarget No matching version found for tiny@99.0.0.
npm error notarget In most cases you or one of your dependencies are requesting
npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log
"""
NPM_NO_WAY = """\
npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to https://joe:key@npm.example/tiny failed, reason: connect ECONNREFUSED 10.0.0.1:443
"""
PIP_NO_VERSION = """\
ERROR: Ignored the following yanked versions: 0.0.0
ERROR: Could not find a version that satisfies the requirement tiny==99.1.2 (from versions: 0.0.1, 0.0.2)

[notice] A new release of pip is available: 25.1 -> 26.0
ERROR: No matching distribution found for tiny==99.1.2
"""
PIP_NO_WAY = """\
WARNING: Retrying after connection broken by 'NewConnectionError(Connection refused)': /simple/tiny/
ERROR: Could not find a version that satisfies the requirement tiny==1.0 (from versions: none)
ERROR: No matching distribution found for tiny==1.0
"""


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (NPM_NO_VERSION, "npm error notarget No matching version found for tiny@99.0.0."),
        (
            NPM_NO_WAY,
            "npm error FetchError: request to <registry> failed, reason: connect ECONNREFUSED 10.0.0.1:443",
        ),
        (PIP_NO_VERSION, "ERROR: No matching distribution found for tiny==99.1.2"),
        (
            PIP_NO_WAY,
            "WARNING: Retrying after connection broken by 'NewConnectionError(Connection refused)': /simple/tiny/",
        ),
        ("npm error code E401\n", "npm error code E401"),
        ("\nsh: npm: not found\n", "sh: npm: not found"),
        ("", "exit code 7"),
    ],
)
def test_the_line_that_says_why(stderr: str, words: str) -> None:
    assert ClientRun(7, b"", stderr.encode()).words == words
