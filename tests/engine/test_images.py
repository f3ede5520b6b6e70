"""Our images, really built: what is in them, what is not, and what a broken one says."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from runner.config.adapter import Adapter, Program
from runner.config.catalog import Catalog
from runner.errors import BuildError
from runner.sandbox.build import STAGE_LABEL
from runner.sandbox.images import ROOT, Images
from runner.sandbox.throwaway import output
from tests.engine.agents import PER_DIALECT

pytestmark = pytest.mark.engine

CANARY = "canary-5f2b"
#: Images that a run starts containers from, or stands on.
RUNNING = ("base", "node", "gateway")


@pytest.fixture(scope="module")
def images(engine: docker.DockerClient) -> Images:
    found = Images(engine)
    found.build([*RUNNING, "npm", "acp-sdk", *(Catalog(ROOT).adapter(name).image for name in PER_DIALECT)])
    return found


@pytest.fixture(scope="module")
def adapters() -> list[Adapter]:
    """One of each model dialect: their images are all that the test suite builds (`make agents` builds every one)."""
    return [Catalog(ROOT).adapter(name) for name in PER_DIALECT]


@pytest.fixture
def scratch(engine: docker.DockerClient, images: Images, tmp_path: Path) -> Iterator[Callable[[str, str], Images]]:
    """Make a root that holds our base and node images and one more; its image is removed afterwards."""
    for name in ("base", "npm", "node"):
        shutil.copytree(ROOT / "images" / name, tmp_path / "images" / name)
    made: list[str] = []

    def make(name: str, dockerfile: str) -> Images:
        folder = tmp_path / "images" / name
        folder.mkdir()
        (folder / "image.yaml").write_text("title: probe\n")
        (folder / "Dockerfile").write_text(dockerfile)
        found = Images(engine, tmp_path)
        # The same recipes give the same tags: nothing of ours is built again.
        assert found.recipes["node"].tag == images.recipes["node"].tag
        made.append(found.recipes[name].reference)
        return found

    yield make
    for reference in made:
        if engine.images.list(reference):
            engine.api.remove_image(reference)


def stages(engine: docker.DockerClient, name: str) -> set[str]:
    """Ids of build stages of that name that are still there. Other tests build at the same time, under other names."""
    return {str(image.id) for image in engine.images.list(all=True, filters={"label": f"{STAGE_LABEL}={name}"})}


def test_a_cached_build_is_a_lookup(images: Images, adapters: list[Adapter]) -> None:
    began = time.monotonic()
    images.build([adapter.image for adapter in adapters])
    assert time.monotonic() - began < 2


def test_every_program_says_what_its_pin_says(images: Images, adapters: list[Adapter]) -> None:
    names = [*RUNNING, "npm", *(adapter.image for adapter in adapters)]
    stated = images.verify(names, adapters)
    assert {one.image for one in stated} == set(names)
    assert all(one.expect in one.printed for one in stated)
    assert {(one.image, one.program) for one in stated} >= {
        (adapter.image, program.name) for adapter in adapters for program in adapter.programs
    }


def test_verify_names_pin_and_answer(images: Images, adapters: list[Adapter]) -> None:
    wrong = Program(name="node", command=["/opt/node/bin/node", "--version"], expect="v1.2.3")
    adapter = adapters[0].model_copy(update={"programs": [wrong]})
    with pytest.raises(BuildError, match=r"node is pinned to 'v1.2.3' but printed 'v\d+\.\d+\.\d+' \(exit 0\)"):
        images.verify([adapter.image], [adapter])


def test_verify_of_a_program_that_is_not_there(images: Images, adapters: list[Adapter]) -> None:
    wrong = Program(name="ghost", command=["/opt/ghost", "--version"], expect="1")
    adapter = adapters[0].model_copy(update={"programs": [wrong]})
    with pytest.raises(BuildError, match=r"ghost is pinned to .*/opt/ghost.*\(exit 127\)"):
        images.verify([adapter.image], [adapter])


def test_node_of_the_fixture_is_found_by_a_login_shell_and_is_apart_from_the_agents(
    engine: docker.DockerClient, images: Images, adapters: list[Adapter]
) -> None:
    for adapter in adapters:
        code, printed = output(
            engine, images.ensure(adapter.image).id, ["bash", "-lc", "command -v node; node -p 'process.execPath'"]
        )
        assert (code, printed.split()) == (0, ["/usr/local/bin/node"] * 2)


def test_the_agents_user_and_its_folders_are_fresh(
    engine: docker.DockerClient, images: Images, adapters: list[Adapter]
) -> None:
    look = "id -u; id -g; ls -A /home/agent /workspace; stat -c '%n %u:%g' /home/agent /workspace; pwd"
    for adapter in adapters:
        _, printed = output(engine, images.ensure(adapter.image).id, ["sh", "-c", look])
        assert printed.split("\n") == [
            "1000", "1000", "/home/agent:", "", "/workspace:",
            "/home/agent 1000:1000", "/workspace 1000:1000", "/workspace", "",
        ]  # fmt: skip


def test_the_gateways_volumes_belong_to_its_user(engine: docker.DockerClient, images: Images) -> None:
    look = ["stat", "-c", "%n %u:%g", "/model", "/journal"]
    _, printed = output(engine, images.ensure("gateway").id, look)
    assert printed.split("\n") == ["/model 0:64000", "/journal 1000:1000", ""]


def test_adapters_share_base_and_node_layers(images: Images, scratch: Callable[[str, str], Images]) -> None:
    found = scratch("probe-second", "FROM acpbench/node\nCOPY image.yaml /opt/agent/\n")
    found.build(["probe-second"])
    listed = {info.name: info for info in found.list()}
    assert listed["probe-second"].shared_layers == listed["node"].layers
    assert listed["probe-second"].own_mb == 0


def test_the_machines_settings_reach_build_stages_and_nothing_else(
    engine: docker.DockerClient, scratch: Callable[[str, str], Images], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text(f"{CANARY}-ca\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("HTTPS_PROXY", f"http://{CANARY}-proxy.test")
    monkeypatch.setenv("PIP_INDEX_URL", f"https://{CANARY}-pip.test/simple")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"https://{CANARY}-npm.test/")
    found = scratch(
        "probe-leak",
        f"FROM acpbench/base AS build\nLABEL {STAGE_LABEL}=probe-leak\nCOPY .host/ /tmp/host/\n"
        "RUN . /tmp/host/env"
        " && grep -q ca$ $SSL_CERT_FILE && grep -q BEGIN $SSL_CERT_FILE"
        " && env | grep -c canary > /count\n"
        "FROM scratch\nCOPY --from=build /count /count\n",
    )
    ref = found.ensure("probe-leak")
    saved = b"".join(engine.images.get(ref.id).save())
    # Proxy, pip's index and npm's registry were there when the stage ran.
    assert b"3\n" in saved
    assert CANARY.encode() not in saved
    assert CANARY not in json.dumps(engine.images.get(ref.id).history()) + json.dumps(engine.images.get(ref.id).attrs)
    assert stages(engine, "probe-leak") == set()


def test_a_broken_build_shows_its_end_and_leaves_no_stage(
    engine: docker.DockerClient, scratch: Callable[[str, str], Images]
) -> None:
    found = scratch(
        "probe-broken",
        f"FROM acpbench/base AS build\nLABEL {STAGE_LABEL}=probe-broken\nCOPY .host/ /tmp/host/\n"
        "RUN echo the reason >&2; exit 7\nFROM scratch\nCOPY --from=build /etc/hostname /\n",
    )
    with pytest.raises(BuildError, match=r"(?s)probe-broken could not be built: .*code: 7.*\| the reason") as caught:
        found.build(["probe-broken"])
    assert caught.value.exit_code == 1
    assert found.find("probe-broken") is None
    assert stages(engine, "probe-broken") == set()


def test_final_images_hold_nothing_of_the_building_machine(engine: docker.DockerClient, images: Images) -> None:
    look = (
        r"find / -xdev \( -path '/tmp/?*' -o -name .package-lock.json -o -name _cacache -o -name .npm \) 2>/dev/null;"
        " grep -c BEGIN /etc/ssl/certs/ca-certificates.crt"
    )
    _, plain = output(engine, images.ensure("base").id, ["grep", "-c", "BEGIN", "/etc/ssl/certs/ca-certificates.crt"])
    # Others only bring files along.
    running = {*RUNNING, *(adapter.value.image for adapter in Catalog(ROOT).adapters())}
    for info in images.list():
        if info.name not in running or info.id is None:
            continue
        history = json.dumps(engine.images.get(info.id).history())
        assert "proxy" not in history.lower()
        assert "/tmp/host" not in history
        _, printed = output(engine, info.id, ["sh", "-c", look], user="0")
        assert printed == plain


def test_schemas_of_the_adapters_sdk_and_the_newest(images: Images, adapters: list[Adapter]) -> None:
    newest = json.loads((ROOT / "images" / "acp-sdk" / "package.json").read_text())["dependencies"]
    for adapter in adapters:
        own = {package.version for package in adapter.packages if adapter.acp_sdk and package.path == adapter.acp_sdk}
        found = images.schemas(adapter.image, adapter.acp_sdk)
        assert set(found) == own | set(newest.values())
        for path in found.values():
            assert "SessionNotification" in json.loads(path.read_text())["$defs"]


def test_acp_and_command_line_are_the_same_build(images: Images, adapters: list[Adapter]) -> None:
    for adapter in adapters:
        if adapter.acp is None or adapter.cli is None:
            continue
        found = images.digests(adapter.image, [adapter.acp.binary, adapter.cli.binary, "/usr/local/bin/node"])
        assert found[adapter.acp.binary] == found[adapter.cli.binary]
        assert all(len(digest) == 64 for digest in found.values())


def test_a_missing_binary_is_named(images: Images, adapters: list[Adapter]) -> None:
    with pytest.raises(BuildError, match="/opt/agent/none: No such file"):
        images.digests(adapters[0].image, ["/opt/agent/none"])
