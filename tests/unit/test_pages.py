"""The pages: what they tell a reader to type is understood by our commands, and what needs no engine is run.

In a page ```sh holds commands, ```console a command and an example of its output, ```text an example of output,
```yaml a configuration. `DIR`, `RUN` and paths with `…` stand for what a reader has.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML
from typer.core import TyperGroup
from typer.main import get_command

from runner.analysis import samples
from runner.cli import main
from runner.cli.app import app
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.outcome import PRECEDENCE
from runner.config.policy import Policy
from runner.config.script import Step
from runner.config.surface import Surface
from runner.evidence import cost, metrics
from tests.unit.cli import damage

ROOT = Path(__file__).parents[2]
FOLDERS = (".", ".github", "configs", "configs/adapters", "configs/models", "fixtures", "images", "results", "runner",
           "runner/decisions", "tests", "tests/hostile")  # fmt: skip
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
#: Followed to the letter by tests/engine/test_add_your_own.py, which says what else its blocks are.
OWN_AGENT = ROOT / "configs/adapters/README.md"
LANGUAGES = {"sh", "console", "text", "yaml"}
#: Verbs that need an engine or a registry, and a test that runs them there.
ELSEWHERE = {
    "sweep": "tests/engine/test_sweep.py",
    "nightly": "tests/engine/test_nightly.py",
    "bisect": "tests/engine/test_versions.py",
    "adapters": "tests/engine/test_packages.py",
    "images": "tests/engine/test_images.py",
    "fixture": "tests/engine/test_verify_limits.py",
    "doctor": "tests/engine/test_engine.py",
}
#: Other programs that a page names.
FOREIGN = {"npm", "jq", "pytest", "apt-get", "socat", "grep", "git"}


class Block(NamedTuple):
    page: Path
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The command lines of a block, those joined by && or | apart."""
        lines = self.text.splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        elif self.language != "sh":
            return []
        return [command for line in lines for command in apart(line)]


def apart(line: str) -> list[str]:
    """The commands of a line, without a comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&|"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [shlex.join(command) for command in commands if command]


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            yield Block(page, language, text)


BLOCKS = list(blocks())
#: (page, language of the block, command line), each once.
COMMANDS = sorted(
    {(block.page.relative_to(ROOT).as_posix(), block.language, line) for block in BLOCKS for line in block.commands}
)


def words(line: str) -> list[str]:
    """A command line's words, without variables before it."""
    found = shlex.split(line)
    while found and re.match(r"[A-Z_]+=", found[0]):
        found.pop(0)
    return found


def understood(group: Any, args: list[str]) -> list[str]:
    """The verbs of a command line of ours. Raises what our command line raises for a wrong one."""
    with group.make_context(group.name, list(args)) as context:
        if not isinstance(group, TyperGroup):
            return []
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        return [str(name), *understood(command, rest)]


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damage.sweep(tmp_path_factory.mktemp("pages") / "sweep")


def filled(args: list[str], swept: Path) -> list[str]:
    """The words with a sweep's folder and a run in place of what stands for them."""
    stands_for = {"DIR": str(swept), "DIR1": str(swept), "DIR2": str(swept), "RUN": str(damage.attempt(swept))}
    return [stands_for.get(word, str(swept) if word.startswith("results/") and "…" in word else word) for word in args]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Where commands are run: what is configured is ours, what is written is not."""
    root = tmp_path / "checkout"
    root.mkdir()
    for folder in ("configs", "fixtures", "images"):
        (root / folder).symlink_to(ROOT / folder)
    return root


@pytest.mark.parametrize(("page", "language", "line"), COMMANDS)
def test_a_command_is_understood_and_run_where_it_needs_no_engine(
    page: str,
    language: str,
    line: str,
    swept: Path,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, *args = words(line)
    if program == "make":
        assert set(args) <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
        return
    if program.endswith("python") and args[:1] == ["-m"]:
        assert args[1] == "pytest" or (ROOT / f"{args[1].replace('.', '/')}.py").is_file()
        return
    if program != "acpbench":
        assert program in FOREIGN
        return
    args = filled(args, swept)
    if (ROOT / page).samefile(OWN_AGENT):
        return
    assert all((ROOT / word).exists() for word in args if word.startswith(("configs/", "fixtures/", "images/")))
    verb, *rest = understood(get_command(app), args)
    if language == "console":
        # An example of output: of a sweep that the reader has, not of ours.
        return
    if verb in ELSEWHERE and "--dry-run" not in args:
        assert verb in (ROOT / ELSEWHERE[verb]).read_text("utf-8"), rest
        return
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("ACPBENCH_ROOT", str(checkout))
    code = main.run(args)
    output = capsys.readouterr()
    assert code in (0, 1, 2), output.err


def test_every_block_says_what_it_is() -> None:
    others = [(block.page.name, block.language) for block in BLOCKS if block.page != OWN_AGENT]
    assert {language for _, language in others} <= LANGUAGES
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml" and block.page != OWN_AGENT])
def test_a_configuration_is_valid(block: Block, tmp_path: Path) -> None:
    head = block.text.partition("\n")[0]
    value = YAML(typ="safe").load(block.text)
    if head.startswith("# configs/surfaces/"):
        Surface.model_validate(value)
    elif head.startswith("# configs/sweeps/"):
        path = tmp_path / "sweep.yaml"
        path.write_text(block.text)
        assert load_sweep(path, Catalog(ROOT)).sweep.id == value["id"]
    elif head == "# policy":
        Policy.model_validate(value)
    else:
        assert head == "# steps of a script"
        assert [Step.model_validate(step) for step in value]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
    local = [link for link in links if not link.startswith(("http:", "https:"))]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_path_that_a_page_names_is_there(page: Path) -> None:
    """`room/file.py` may be named from the root, from runner/, or from the page's own folder."""
    named = re.findall(r"`([\w./-]+\.(?:py|mjs|yaml|sh|yml|toml))`", page.read_text("utf-8"))
    runner = ROOT / "runner"
    places = (ROOT, runner, *runner.glob("*/"), ROOT / "tests/hostile", ROOT / "configs", page.parent)
    written_by_a_sweep = {"sweep.yaml"}
    kinds = {"image.yaml", "fixture.yaml", "acpbench.yaml"}
    missing = [
        path
        for path in named
        if path not in written_by_a_sweep | kinds and not any((place / path).exists() for place in places)
    ]
    assert [path for path in missing if page != OWN_AGENT] == []


def test_the_readme_is_read_on_three_screens() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_every_metric_and_every_outcome_has_its_line() -> None:
    text = (ROOT / "results/README.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_]+)(?:[.:][^`]*)?`", text))
    assert {*metrics.NAMES, *metrics.MAPS, *cost.ALL} - named == set()
    assert all(f"| `{name}" in text for name in PRECEDENCE)
    assert samples.MIN_RUNS == 4  # The README states it.


@pytest.mark.parametrize("page", sorted((ROOT / "runner/decisions").glob("0*.md")), ids=lambda page: page.name)
def test_a_decision_says_why_and_what_guards_it(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Problem", "Decision", "What follows", "Guard"]
    guards = re.findall(r"^- \[`(.+?)`\]", text.partition("## Guard")[2], re.MULTILINE)
    assert guards
    assert all((ROOT / guard).is_file() for guard in guards)
    assert f"({page.name})" in (ROOT / "runner/decisions/README.md").read_text("utf-8")
