from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runner.config.catalog import Catalog, find_root
from runner.config.loaded_sweep import LoadedSweep, load_sweep
from runner.config.policy import BUILTIN
from runner.errors import ConfigError, UsageError

HERE = (Path("s.yaml"), 7)


def swap(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def sweep_of(root: Path) -> Path:
    return root / "configs/sweeps/small.yaml"


def loaded(root: Path) -> LoadedSweep:
    return load_sweep(sweep_of(root), Catalog(root))


def faults(root: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(root)
    return [line.removeprefix(f"{root}/") for line in str(caught.value).splitlines()]


def test_everything_is_resolved(root: Path) -> None:
    found = loaded(root)
    assert list(found.adapters) == ["agent@1.0.0"]
    assert list(found.surfaces) == ["acp", "nocaps", "cli"]
    assert found.policies == {"allow_once": BUILTIN["allow_once"]}
    assert found.script("scripted/fix").id == "fix"
    assert found.fixture_folder("semver") == root / "fixtures/semver/tree"
    assert found.source == sweep_of(root).read_bytes()
    assert found.arm_lines == (3,)
    surface = (root / "configs/surfaces/acp.yaml").read_bytes()
    assert found.digests["configs/surfaces/acp.yaml"] == hashlib.sha256(surface).hexdigest()
    assert len(found.digests) == 6


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("agent@1.0.0", "agent@1.0.1", 3, "unknown adapter 'agent@1.0.1'; did you mean 'agent@1.0.0'?"),
        ("agent@1.0.0", "agent-1.0.0", 3, "unknown adapter 'agent-1.0.0'; did you mean 'agent@1.0.0'?"),
        ("nocaps", "no-caps", 4, "unknown surface 'no-caps'; did you mean 'nocaps'?"),
        ("[semver]", "[semvr]", 5, "unknown fixture 'semvr'; did you mean 'semver'?"),
        ("[semver]", "[x]", 5, "unknown fixture 'x'; valid: semver"),
        ("scripted/fix", "scripted/fx", 6, "unknown script 'fx'; did you mean 'fix'?"),
        ("scripted/fix", "scripted/../fix", 6, "unknown script '../fix'"),
        ("scripted/fix", "fix", 6, "model 'fix' must be written <kind>/<name>, for example scripted/fix-semver"),
        ("scripted/fix", "script/fix", 6, "unknown kind of model 'script'; did you mean 'scripted'?"),
        ("scripted/fix", "live/opus", 6, "unknown upstream 'opus'"),
        ("scripted/fix", "replay/tape", 6, "unknown cassette 'tape'"),
        ("repeat: 3", "    policies: [allow_ones]", 7, "unknown policy 'allow_ones'; did you mean 'allow_once'?"),
        ("repeat: 3", "    policies: []", 7, "'policies' needs at least 1 item(s)"),
        ("repeat: 3", "    resets: [git-clean]", 7, "unknown reset 'git-clean'; did you mean 'git-clean-fd'?"),
        ("repeat: 3", "    resets: [contaner]", 7, "unknown reset 'contaner'; did you mean 'container'?"),
        ("repeat: 3", "    expect: pased", 7, "unknown outcome 'pased'; did you mean 'passed'?"),
        ("repeat: 3", "    expect: timeout:trun", 7, "unknown outcome 'timeout:trun'; did you mean 'timeout:turn'?"),
        ("repeat: 3", "    expect_of: {'other@*': pased}", 7, "unknown outcome 'pased'; did you mean 'passed'?"),
        ("repeat: 3", "    expect_of: {'othr@*': passed}", 7, "'othr@*' fits no adapter; did you mean 'other@2'?"),
        ("agent@1.0.0", "other@2", 4, "surface 'cli' needs transport cli, which adapter 'other@2' has not"),
    ],
)
def test_wrong_name_in_a_sweep(root: Path, old: str, new: str, line: int, words: str) -> None:
    swap(sweep_of(root), old, new)
    (found,) = faults(root)
    assert found.startswith(f"configs/sweeps/small.yaml:{line}: ")
    assert words in found


def test_every_fault_is_told(root: Path) -> None:
    swap(sweep_of(root), "agent@1.0.0", "agnt@1.0.0")
    swap(sweep_of(root), "[acp, nocaps, cli]", "[acq, nocap]")
    assert [line.split(":")[1] for line in faults(root)] == ["3", "4", "4"]


def test_policies_written_out(root: Path) -> None:
    swap(
        sweep_of(root),
        "repeat: 3",
        "    policies: [slow, {id: slow, delay_s: 2}]\n  - {adapters: [other@2], surfaces: [acp], fixtures: [semver], "
        "models: [scripted/fix], policies: [slow]}\nrepeat: 3",
    )
    assert loaded(root).policies["slow"].delay_s == 2


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ("[{id: mine, rules: [{answer: never, kind: edti}]}]", "'kind' cannot be 'edti'; did you mean 'edit'?"),
        ("[{id: never, delay_s: 2}]", "a built-in policy has the id 'never'; choose another"),
        ("[{id: mine}, {id: mine, delay_s: 2}]", "another policy of this sweep has the id 'mine'; choose another"),
    ],
)
def test_policies_of_one_name(root: Path, policies: str, words: str) -> None:
    swap(sweep_of(root), "repeat: 3", f"    policies: {policies}\nrepeat: 3")
    assert faults(root) == [f"configs/sweeps/small.yaml:7: {words}"]


def test_script_for_another_dialect(root: Path) -> None:
    (root / "configs/models/fix.yaml").write_text("id: fix\ndialects: [gemini]\nsteps: [{say: hi}]\n")
    (found,) = faults(root)
    assert "configs/sweeps/small.yaml:6: script 'fix' is for gemini; adapter 'agent@1.0.0' speaks anthropic" in found


def test_script_that_means_what_the_adapter_cannot(root: Path) -> None:
    swap(root / "configs/models/fix.yaml", "say: Done.", "search: {pattern: x}\n  - write: {path: x, content: ''}")
    (found,) = faults(root)
    assert "means 'search', 'write', for which adapter 'agent@1.0.0' has no entry in 'tools'" in found


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("adapters/agent-1.0.0", "image: agent-1", "image: agent-2", "agent-1.0.0.yaml:3: unknown image 'agent-2'"),
        ("adapters/agent-1.0.0", "id: agent@1.0.0", "id: agent@1.0.2", "yaml:1: the id 'agent@1.0.2' belongs in"),
        ("adapters/agent-1.0.0", "title:", "tilte:", "yaml:2: unknown key 'tilte'; did you mean 'title'?"),
        (
            "surfaces/acp",
            "transport: acp",
            "transport: cli",
            "acp.yaml:3: client_capabilities are of transport acp only",
        ),
    ],
)
def test_fault_in_a_file_that_the_sweep_names(root: Path, file: str, old: str, new: str, words: str) -> None:
    swap(root / "configs" / f"{file}.yaml", old, new)
    (found,) = faults(root)
    assert words in found


def test_adapter_that_nothing_starts(root: Path) -> None:
    path = root / "configs/adapters/other-2.yaml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("acp:")))
    with pytest.raises(ConfigError, match="neither 'acp' nor 'cli'"):
        Catalog(root).adapter("other@2", HERE)


def test_isolated_fixture_without_its_tests(root: Path) -> None:
    path = root / "fixtures/semver/fixture.yaml"
    path.write_text(path.read_text().replace("tests: 3", "tests: 3, isolated: true"))
    (found,) = faults(root)
    assert found.startswith("fixtures/semver/fixture.yaml:5: the tests are missing: there is no folder ")
    (root / "fixtures/semver/verify").mkdir()
    assert Catalog(root).fixture("semver").verify.isolated


def test_fixture_without_its_tree(root: Path) -> None:
    (root / "fixtures/semver/tree/a.js").unlink()
    (root / "fixtures/semver/tree").rmdir()
    (found,) = faults(root)
    assert found.startswith("fixtures/semver/fixture.yaml:1: the fixture's tree is missing")


def test_broken_neighbour_does_not_matter_but_is_a_candidate(root: Path) -> None:
    (root / "configs/surfaces/broken.yaml").write_text("[\n")
    loaded(root)
    with pytest.raises(ConfigError, match=r"s\.yaml:7: unknown surface 'brokn'; did you mean 'broken'"):
        Catalog(root).surface("brokn", HERE)


def test_names_from_the_command_line_have_no_line(root: Path) -> None:
    with pytest.raises(UsageError, match=r"^unknown adapter 'agent'; did you mean 'agent@1\.0\.0'") as caught:
        Catalog(root).adapter("agent")
    assert not isinstance(caught.value, ConfigError)


def test_lists_tell_every_broken_file(root: Path) -> None:
    assert [one.value.id for one in Catalog(root).adapters()] == ["agent@1.0.0", "other@2"]
    assert [one.value.id for one in Catalog(root).scripts()] == ["fix"]
    for name in ("agent-1.0.0", "other-2"):
        swap(root / f"configs/adapters/{name}.yaml", "title:", "titel:")
    with pytest.raises(ConfigError) as caught:
        Catalog(root).adapters()
    assert str(caught.value).count("did you mean 'title'?") == 2


def test_find_root(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACPBENCH_ROOT", raising=False)
    monkeypatch.chdir(root / "configs/sweeps")
    assert find_root() == root
    with pytest.raises(UsageError, match="not a root of acpbench: it has no folder configs, fixtures, images"):
        find_root(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find_root() == Path(__file__).parents[3]  # the checkout
    monkeypatch.setenv("ACPBENCH_ROOT", "root")
    assert find_root() == root
    assert find_root(root) == root


TOOLBOX = "id: acp\ntransport: acp\ntoolbox: {image}\nopen_buffers: [{{path: a.js, append: '{{canary:gone}}'}}]\n"


def test_a_toolbox_is_an_image_and_a_canary_is_the_fixtures(root: Path) -> None:
    surface = root / "configs/surfaces/acp.yaml"
    surface.write_text(TOOLBOX.format(image="agent-2"))
    assert any("acp.yaml:3: unknown image 'agent-2'; did you mean 'agent-1'?" in line for line in faults(root))
    surface.write_text(TOOLBOX.format(image="agent-1"))
    (found,) = faults(root)
    assert "small.yaml:4: surface 'acp' wants the canary 'gone', which fixture 'semver' has not" in found
    fixture = root / "fixtures/semver/fixture.yaml"
    fixture.write_text(fixture.read_text() + "canaries: {gone: canary-0123456789abcdef}\n")
    assert loaded(root).toolboxes() == ["agent-1"]


def test_what_is_planted_knows_its_canaries(root: Path) -> None:
    fixture = root / "fixtures/semver/fixture.yaml"
    planted = "outside: [{path: /workspace/x, content: '{canary:wrng}'}]\ncanaries: {wrong: canary-0123456789abcdef}\n"
    fixture.write_text(fixture.read_text() + planted)
    (found,) = faults(root)
    assert "fixture.yaml:6: unknown canary 'wrng'; did you mean 'wrong'?" in found


def test_other_adapters_in_place_of_the_whole_sweeps(root: Path) -> None:
    """What has its own keeps them; what none of the exchanged ones can do is left out, as with any other."""
    catalog = Catalog(root)
    with pytest.raises(UsageError, match=r"small\.yaml: every entry of 'arms' names its own adapters"):
        load_sweep(sweep_of(root), catalog, ["other@2"])
    entry = "  - adapters: [agent@1.0.0]\n    surfaces"
    own = "  - {adapters: [agent@1.0.0], surfaces: [acp], fixtures: [semver], models: [scripted/fix]}\n"
    swap(sweep_of(root), entry, own + "  - surfaces")
    swap(sweep_of(root), "repeat: 3", "repeat: 3\nadapters: [agent@1.0.0]")
    found = load_sweep(sweep_of(root), Catalog(root), ["other@2", "other@2"])
    assert [matrix.adapters for matrix in found.sweep.arms] == [["agent@1.0.0"], ["other@2"]]
    assert found.source == sweep_of(root).read_bytes()
    with pytest.raises(UsageError, match=r"^unknown adapter 'othr@2'; did you mean 'other@2'\?"):
        load_sweep(sweep_of(root), Catalog(root), ["othr@2"])


def test_expectations_of_adapters_that_no_arm_names_are_read_from_no_file(root: Path) -> None:
    swap(sweep_of(root), "repeat: 3", "    expect_of: {'other@*': task-failed}")
    found = loaded(root)
    assert len(found.digests) == 6
    matrix = found.sweep.arms[0]
    assert [matrix.expected(name) for name in ("agent@1.0.0", "other@2")] == ["passed", "task-failed"]


def test_adapters_and_knobs_of_the_whole_sweep(root: Path) -> None:
    swap(sweep_of(root), "  - adapters: [agent@1.0.0]\n    surfaces", "  - surfaces")
    (found,) = faults(root)
    assert "small.yaml:3: no 'adapters' here, and none of the whole sweep" in found
    swap(sweep_of(root), "repeat: 3", "    knobs: {deadlines: {turn: 7.0}}\nrepeat: 3\nadapters: [agent@1.0.0]")
    sweep = loaded(root)
    assert sweep.sweep.arms[0].adapters == ["agent@1.0.0"]
    assert (sweep.knobs(0).deadlines.turn, sweep.sweep.knobs.deadlines.turn) == (7.0, 600.0)
    swap(sweep_of(root), "adapters: [agent@1.0.0]", "adapters: [agnt@1.0.0]")
    (found,) = faults(root)
    assert "small.yaml:8: unknown adapter 'agnt@1.0.0'" in found


def test_a_policy_that_cancels_needs_a_surface_with_a_cancel(root: Path) -> None:
    swap(sweep_of(root), "    models:", "    policies: [allow_once, {id: stop, cancel: {at: text}}]\n    models:")
    told = "policy 'stop' cancels the turn, for which surface 'cli' has no way"
    assert faults(root) == [f"configs/sweeps/small.yaml:6: {told}"]
    swap(sweep_of(root), ", cli]", "]")
    assert loaded(root).policies["stop"].cancel is not None
