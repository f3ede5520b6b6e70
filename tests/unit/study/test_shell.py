"""Command lines are read by their grammar, and count as what they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.study import commands
from runner.study.shell import absolute, read, strongest, within

CWD, HOME = "/workspace/semver", "/home/agent"


@pytest.mark.parametrize(
    ("line", "does"),
    [
        # plain
        ("ls -la", "inspection"),
        ("cat src/semver.js", "inspection"),
        ("node --test", "project"),
        ("npm test", "project"),
        ("npm ls", "inspection"),
        ("npm --version", "inspection"),
        ("node --version", "inspection"),
        ("python3 -c 'print(1)'", "project"),
        ("./run.sh", "project"),
        ("../tools/ls", "project"),
        ("/bin/ls", "inspection"),
        ("touch a", "change"),
        ("rm -rf a", "change"),
        ("curl example.org", "network"),
        ("some-program", "unknown"),
        ("", "inspection"),
        # subcommands
        ("git status --short", "inspection"),
        ("git -C ../x log", "inspection"),
        ("git --no-pager diff", "inspection"),
        ("git diff --output=x", "change"),
        ("git branch", "inspection"),
        ("git branch new", "change"),
        ("git stash list", "inspection"),
        ("git stash", "change"),
        ("git push", "network"),
        ("git", "inspection"),
        ("cargo test", "project"),
        ("go vet ./...", "project"),
        ("pip list", "inspection"),
        # pipes, lists, groups
        ("cat a | head -n 3", "inspection"),
        ("ls src && node --test", "project"),
        ("ls; touch a", "change"),
        ("node --test | tail -n 3", "project"),
        ("ls || node x.js", "project"),
        ("(cd src; ls)", "inspection"),
        ("{ ls; node x.js; }", "project"),
        ("! grep -q a b", "inspection"),
        ("node x.js &", "project"),
        # shells in shells
        ("bash -c 'ls -la'", "inspection"),
        ("bash -lc 'node --test'", "project"),
        ("sh -c 'sh -c \"node x.js\"'", "project"),
        ("bash run.sh", "project"),
        ("source env.sh", "project"),
        ("eval ls", "inspection"),
        ("eval 'node x.js'", "project"),
        ("ls | sh", "unknown"),
        ('bash -c "$COMMAND"', "unknown"),
        ("$EDITOR a", "unknown"),
        # prefixes and wrappers
        ("FOO=1 node --test", "project"),
        ("FOO=1 ls", "inspection"),
        ("FOO=1", "inspection"),
        ("env", "inspection"),
        ("env -u A B=c node --test", "project"),
        ("timeout 5 npm test", "project"),
        ("timeout 5 ls", "inspection"),
        ("nice -n 5 ls", "inspection"),
        ("sudo -u root touch a", "change"),
        ("echo x.js | xargs node", "project"),
        ("ls | xargs -n 1 cat", "inspection"),
        ("command ls", "inspection"),
        ("time node x.js", "project"),
        # redirections
        ("echo hi > a", "change"),
        ("echo hi >> a", "change"),
        ("ls > /dev/null", "inspection"),
        ("ls 2>&1", "inspection"),
        ("ls 2>/dev/null", "inspection"),
        ("ls &> all.log", "change"),
        ("cat < a", "inspection"),
        ("node --test > /dev/null", "project"),
        ("> a", "change"),
        ("cat <<EOF > a\ntext\nEOF\n", "change"),
        ("cat <<EOF\ntext\nEOF\n", "inspection"),
        # substitutions
        ("echo $(node x.js)", "project"),
        ("echo `node x.js`", "project"),
        ('echo "$(cat a)"', "inspection"),
        ("A=$(node x.js)", "project"),
        ("diff <(git show HEAD:a) a", "inspection"),
        ("cat <(node x.js)", "project"),
        # control flow
        ("for f in *.js; do node $f; done", "project"),
        ("for f in *; do wc -l $f; done", "inspection"),
        ("if [ -f a ]; then cat a; fi", "inspection"),
        ("while read l; do node $l; done < list", "project"),
        ("f() { node x.js; }; f", "project"),
        ("[[ -f a ]] && ls", "inspection"),
        # options that change what a program does
        ("find . -name '*.js'", "inspection"),
        ("find . -name x -delete", "change"),
        ("find . -exec cat {} \\;", "inspection"),
        ("find . -exec node {} +", "project"),
        ("sed -n '1,5p' a", "inspection"),
        ("sed -i s/a/b/ a", "change"),
        ("sed -ni s/a/b/ a", "change"),
        ("sort -o a a", "change"),
        ("awk '{print $1}' a", "inspection"),
        ("awk '{system($1)}' a", "unknown"),
        # no grammar
        ("if then", "unknown"),
        ("echo 'open", "unknown"),
    ],
)
def test_a_line_is_what_it_does(line: str, does: str) -> None:
    assert read(line).does == does


@pytest.mark.parametrize(
    ("line", "outside"),
    [
        ("cat src/a", []),
        ("cat ../sibling/a", ["../sibling/a"]),
        ("cat src/../../a", ["src/../../a"]),
        ("cat /workspace/semver/a", []),
        ("cat /etc/hostname", ["/etc/hostname"]),
        ("cat /workspace/semver-2/a", ["/workspace/semver-2/a"]),
        ("cat ~/a", ["~/a"]),
        ('cat "$HOME/a"', ["$HOME/a"]),
        ("cat '../a b'", ["../a b"]),
        ("cat ../a\\ b", ["../a b"]),
        ("ls ..", [".."]),
        ("cd .. && ls semver", [".."]),
        ("cd src && cat ../a", []),
        ("git -C ../x status", ["../x"]),
        ("find /etc -name x", ["/etc"]),
        ("grep -n /etc src/a", []),
        ("grep -e a ../b", ["../b"]),
        ("sed -n '/a/,/b/p' src/a", []),
        ("head -n 5 ../a", ["../a"]),
        ("cut -d / -f 1 a", []),
        ("echo ../a", []),
        ("tr / x", []),
        ("[ -f ../a ] && ls", []),
        ("ls > ../a", ["../a"]),
        ("cat < ../a", ["../a"]),
        ("cat -- ../a", ["../a"]),
        ("cat <(cat ../a)", ["../a"]),
        ("ls > /dev/null", []),
        ("bash -c 'cat ../a'", ["../a"]),
    ],
)
def test_paths_outside(line: str, outside: list[str]) -> None:
    assert sorted(path.text for path in read(line).reaches(CWD, HOME)) == outside


def test_further_directories_are_inside() -> None:
    assert not read("cat /workspace/shared/a").reaches(CWD, HOME, ["/workspace/shared/"])


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("sed -i s/a/b/ src/a", [("src/a", True)]),
        ("cp a b", [("a", True), ("b", True)]),
        ("echo x > a", [("a", True)]),
        ("cat a > b", [("a", False), ("b", True)]),
        ("cat a a", [("a", False)]),
    ],
)
def test_what_is_written(line: str, paths: list[tuple[str, bool]]) -> None:
    assert [(path.text, path.writes) for path in read(line).paths] == paths


@pytest.mark.parametrize("line", ["cat $FILE", 'cat "$(ls)"', "echo x > $F", "if then", 'bash -c "$X"'])
def test_what_only_the_shell_knows_is_dynamic(line: str) -> None:
    assert read(line).dynamic or read(line).does == "unknown"


def test_home_is_known() -> None:
    assert not read('cat "$HOME/a"').dynamic
    assert absolute("${HOME}/a", CWD, HOME) == absolute("~/a", CWD, HOME) == "/home/agent/a"
    assert absolute("~other/a", CWD, HOME) == "/workspace/semver/~other/a"


def test_within_is_by_parts() -> None:
    assert within("/a/b", "/a")
    assert within("/a", "/a")
    assert within("/a", "/")
    assert not within("/ab", "/a")


def test_the_strongest_counts() -> None:
    assert strongest([]) == "inspection"
    assert strongest(["inspection", "unknown", "change"]) == "change"


def test_shells_in_shells_end_somewhere() -> None:
    line = "ls"
    for _ in range(12):
        line = "bash -c " + "'" + line.replace("'", "'\\''") + "'"
    assert read(line).does in ("unknown", "inspection")


def test_no_program_stands_in_two_tables() -> None:
    tables = [
        commands.INSPECTION,
        commands.CHANGE,
        commands.PROJECT,
        commands.NETWORK,
        commands.SHELLS,
        commands.SOURCES,
    ]
    tables += [frozenset(commands.SUBCOMMANDS), frozenset(commands.WRAPPERS)]
    assert sum(map(len, tables)) == len(frozenset().union(*tables))
    assert set(commands.LISTING) <= set(commands.SUBCOMMANDS["git"])
    assert {does for known in commands.SUBCOMMANDS.values() for does in known.values()} <= set(commands.STRENGTH)


def test_letters_beyond_ascii_are_letters() -> None:
    line = read("cat '/tmp/ä b' \"/tmp/$HOME/ü€\" > /tmp/日本/\U0001f600 && touch ../ö\\ x")
    assert [path.text for path in line.paths] == ["/tmp/ä b", "/tmp/$HOME/ü€", "/tmp/日本/\U0001f600", "../ö x"]
    assert line.does == "change"


@pytest.mark.parametrize(
    "text", ["9\x1e\x13R\U0003b558O\r{\U000def9f5", "{\U000d6963", "a{1..\U0010ffff}", "\ud800 {\ud800"]
)
def test_characters_that_the_grammars_scanner_dies_of(text: str) -> None:
    assert read(text).does in commands.STRENGTH


@given(st.text(max_size=60))
def test_nothing_that_a_model_writes_breaks_it(text: str) -> None:
    line = read(text)
    assert line.does in commands.STRENGTH
    line.reaches(CWD, HOME)


@given(st.lists(st.sampled_from(["ls", "node --test", "touch a", "curl x", "nothing-known"]), min_size=1, max_size=4))
def test_a_list_is_its_strongest_part(parts: list[str]) -> None:
    for joint in ("; ", " && ", " | ", " || "):
        assert read(joint.join(parts)).does == strongest(read(part).does for part in parts)
