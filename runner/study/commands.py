"""What programs do, as data: the table by which `runner.study.shell` reads a command line.

Sources: POSIX.1-2024, chapter *Utilities*, for the standard programs and their options; the GNU coreutils, findutils,
grep, sed and tar manuals for theirs; `git help <command>`; the manuals of npm (`npm help run`), node, Python, cargo and
go for which of their subcommands run the project's own code. A program that is not here is `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

#: What a command line does. `inspection` only looks; `project` runs code of the project (its tests, its scripts, an
#: interpreter on a text of its own); `change` writes, moves or deletes; `network` talks to another host.
Does = Literal["inspection", "project", "change", "network", "unknown"]

#: Strongest first: a line that does several things is what the strongest of them is.
STRENGTH: Final[tuple[Does, ...]] = ("project", "change", "network", "unknown", "inspection")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Programs that only look, whatever their operands.
INSPECTION: Final = _words(
    """
    : [ awk b2sum basename cal cat cd cksum cmp column comm cut date df diff dir dirname du echo egrep expr false
    fgrep file fold free getconf grep groups head hexdump hostname id join jq less locale ls lsof md5sum more nl
    nproc od paste pathchk popd printenv printf ps pushd pwd readlink realpath rg sed seq sha1sum sha256sum
    sha512sum sleep sort stat strings sum tac tail test tr tree true tsort tty type uname uniq uptime wait wc
    whereis which who whoami xxd
    """
)
#: Programs that write, move, delete or change modes, whatever their operands.
CHANGE: Final = _words(
    """
    chattr chgrp chmod chown cp dd fallocate gunzip gzip install kill killall ln mkdir mkfifo mktemp mv patch pkill
    rename rm rmdir rsync shred split tee touch truncate unlink unzip xz zip
    """
)
#: Programs that run code of the project: interpreters, test runners, builders.
PROJECT: Final = _words(
    """
    Rscript ant ava bazel bun bundle cmake composer ctest deno dotnet eslint gradle gradlew java jest karma lua make
    meson mocha mvn ninja node nodejs nox npx perl php phpunit playwright pnpm prettier pytest python python2
    python3 rake rspec ruby sbt swift tap tape tox ts-node tsc tsx vite vitest webpack yarn
    """
)
#: Programs that talk to other hosts.
NETWORK: Final = _words(
    """
    curl dig ftp host nc ncat nslookup ping rcp scp sftp ssh telnet traceroute wget
    """
)
#: Folders whose programs are the system's own.
SYSTEM: Final = _words("/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin")

#: program -> subcommand -> what it does; '' is the program alone, '*' any other subcommand.
SUBCOMMANDS: Final[Mapping[str, Mapping[str, Does]]] = {
    "git": {
        **dict.fromkeys(
            _words(
                """
                annotate blame cat-file check-attr check-ignore count-objects describe diff diff-files diff-index
                diff-tree for-each-ref fsck grep help log ls-files ls-tree merge-base name-rev range-diff reflog
                rev-list rev-parse shortlog show show-branch show-ref status var verify-commit version whatchanged
                """
            ),
            "inspection",
        ),
        # Their bare and listing forms look; anything else changes the repository (see LISTING).
        **dict.fromkeys(_words("branch config notes remote stash submodule tag worktree"), "change"),
        **dict.fromkeys(_words("clone fetch ls-remote pull push"), "network"),
        "": "inspection",
        "*": "change",
    },
    "npm": {
        **dict.fromkeys(
            _words(
                """
                audit explain fund help info la list ll ls outdated prefix root show view why
                """
            ),
            "inspection",
        ),
        **dict.fromkeys(
            _words(
                """
                ci exec i install install-test it pack publish rebuild restart run run-script start stop t test tst
                x
                """
            ),
            "project",
        ),
        "": "inspection",
        "*": "change",
    },
    "cargo": {
        **dict.fromkeys(_words("b bench build check clippy doc install r run t test"), "project"),
        **dict.fromkeys(_words("locate-project metadata search tree version"), "inspection"),
        "*": "change",
    },
    "go": {
        **dict.fromkeys(_words("build generate install run test tool vet"), "project"),
        **dict.fromkeys(_words("doc env help list version"), "inspection"),
        "*": "change",
    },
    "pip": {
        **dict.fromkeys(_words("check freeze list show"), "inspection"),
        "*": "project",
    },
    "docker": {
        **dict.fromkeys(_words("images info inspect logs ps version"), "inspection"),
        "*": "change",
    },
    "tar": {
        "*": "change",
    },
}

#: git subcommand -> first operands with which it only lists. '' is the bare form.
LISTING: Final[Mapping[str, frozenset[str]]] = {
    "branch": frozenset(["", "--list", "-l", "-a", "--all", "-r", "--remotes", "-v", "-vv", "--show-current"]),
    "config": frozenset(["--get", "--get-all", "--list", "-l", "get", "list"]),
    "notes": frozenset(["", "list", "show"]),
    "remote": frozenset(["", "-v", "--verbose", "show", "get-url"]),
    "stash": frozenset(["list", "show"]),
    "submodule": frozenset(["", "status", "summary"]),
    "tag": frozenset(["", "-l", "--list", "-n"]),
    "worktree": frozenset(["list"]),
}

#: Options of git that stand before its subcommand and take a value.
GIT_VALUES: Final = frozenset(["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"])

#: With one of these and nothing else, any program only says who it is.
ABOUT: Final = frozenset(["--version", "-v", "-V", "-version", "--help", "-h"])

#: Programs that run the program that follows: name -> options that take a value of their own. Their own operands before
#: the command: OPERANDS.
WRAPPERS: Final[Mapping[str, frozenset[str]]] = {
    "builtin": frozenset(),
    "chroot": frozenset(),
    "command": frozenset(),
    "env": frozenset(["-u", "--unset", "-C", "--chdir", "-S", "--split-string"]),
    "exec": frozenset(["-a"]),
    "flock": frozenset(["-w", "--timeout"]),
    "ionice": frozenset(["-c", "-n"]),
    "nice": frozenset(["-n", "--adjustment"]),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset(["-i", "-o", "-e"]),
    "strace": frozenset(["-e", "-o", "-p"]),
    "sudo": frozenset(["-u", "-g", "-h", "-p"]),
    "time": frozenset(["-f", "-o"]),
    "timeout": frozenset(["-s", "--signal", "-k", "--kill-after"]),
    "xargs": frozenset(["-I", "-n", "-P", "-L", "-d", "-s", "-a", "-E"]),
}
OPERANDS: Final[Mapping[str, int]] = {"chroot": 1, "flock": 1, "timeout": 1}

#: Shells: `-c TEXT` is read as a command line, a file is a script of the project.
SHELLS: Final = frozenset(["ash", "bash", "dash", "ksh", "sh", "zsh"])
#: Run a file of the project in the shell itself.
SOURCES: Final = frozenset([".", "source"])

#: Operands that are no paths: name -> how many of the first are patterns or scripts (none where an option gives it).
PATTERNS: Final[Mapping[str, int]] = {"awk": 1, "egrep": 1, "fgrep": 1, "grep": 1, "jq": 1, "rg": 1, "sed": 1, "tr": 9}
#: Options whose value is the pattern or the script itself.
PATTERN_OPTIONS: Final = frozenset(["-e", "-f", "--regexp", "--expression", "--file"])
#: Programs whose operands name no files.
PATHLESS: Final = _words(
    """
    : cal date echo env expr false groups hostname id kill locale nproc printenv printf ps pwd seq sleep test true
    tty type uname uptime wait whereis which who whoami
    """
)
#: Options with a value that is no path: name -> options.
VALUES: Final[Mapping[str, frozenset[str]]] = {
    "cut": frozenset(["-c", "-d", "-f", "-b"]),
    "du": frozenset(["-d", "--max-depth"]),
    "grep": frozenset(["-A", "-B", "-C", "-m", "--include", "--exclude", "--exclude-dir"]),
    "head": frozenset(["-n", "-c"]),
    "rg": frozenset(["-A", "-B", "-C", "-m", "-g", "--glob", "-t", "--type"]),
    "sort": frozenset(["-k", "-t"]),
    "stat": frozenset(["-c", "--format"]),
    "tail": frozenset(["-n", "-c"]),
    "tree": frozenset(["-L", "-I", "-P"]),
}

#: Parts of find's expression that run a program, and those that write.
FIND_RUNS: Final = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
FIND_CHANGES: Final = frozenset(["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"])

#: Redirection targets that are no files of anybody's.
SINKS: Final = frozenset(["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/1", "/dev/fd/2"])
