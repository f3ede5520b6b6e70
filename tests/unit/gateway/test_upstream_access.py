"""Keys are found where the configuration says, and go into one private file and nowhere else."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import LoadedSweep, load_sweep
from runner.errors import ConfigError, UsageError
from runner.gateway.upstream_access import LiveUpstreams, UpstreamAccess
from runner.redaction.redact import spoken
from tests.certificates import certificate
from tests.unit.config.test_upstream import UPSTREAM
from tests.unit.conftest import write
from tests.unit.secret_texts import FORMS, says
from tests.unit.secret_texts import KEY as SAID

KEY = "sk-test-0123456789abcdef"
PEM, OTHER = certificate("authority")[0], certificate("machine")[0]


def loaded(root: Path, text: str = UPSTREAM) -> LoadedSweep:
    write(root / "configs/models/big.yaml", text)
    sweep = root / "configs/sweeps/small.yaml"
    write(sweep, sweep.read_text().replace("scripted/fix", "live/big"))
    return load_sweep(sweep, Catalog(root))


def test_a_sweep_without_live_models_has_no_way_out(root: Path) -> None:
    sweep = load_sweep(root / "configs/sweeps/small.yaml", Catalog(root))
    assert LiveUpstreams.of(sweep, ["scripted/fix"], {}) is None
    assert LiveUpstreams.of(loaded(root), ["scripted/fix"], {}) is None  # none of those that are run


def test_a_key_of_the_environment(root: Path) -> None:
    found = LiveUpstreams.of(loaded(root), ["live/big"], {"BIG_KEY": f" {KEY}\n"})
    assert found is not None
    assert found.keys == {"big": KEY}
    assert KEY not in repr(found)
    assert KEY not in repr(UpstreamAccess(found, "volume", "network"))
    assert found.needs_network
    assert found.folders == {}


@pytest.mark.parametrize("around", [(b"", b"\n"), (b"\xef\xbb\xbf", b"\r\n"), (b" ", b"\n\n"), (b"", b"")])
def test_a_key_of_a_file(root: Path, around: tuple[bytes, bytes]) -> None:
    write(root / "the/key", "")
    (root / "the/key").write_bytes(around[0] + KEY.encode() + around[1])
    text = UPSTREAM.replace("{env: BIG_KEY}", "{file: the/key}")
    found = LiveUpstreams.of(loaded(root, text), ["live/big"], {})
    assert found is not None
    assert found.keys == {"big": KEY}


@pytest.mark.parametrize(
    ("key", "environ", "words"),
    [
        ("{env: BIG_KEY}", {}, "the environment variable BIG_KEY is empty or not set"),
        ("{env: BIG_KEY}", {"BIG_KEY": "  "}, "the environment variable BIG_KEY is empty or not set"),
        ("{env: BIG_KEY}", {"BIG_KEY": "two words"}, "does not hold a key alone"),
        ("{env: BIG_KEY}", {"BIG_KEY": "a\nb"}, "does not hold a key alone"),
        ("{env: BIG_KEY}", {"BIG_KEY": "seven77"}, "it must have 8 characters or more, not digits alone"),
        ("{env: BIG_KEY}", {"BIG_KEY": "1234567890"}, "holds a key that cannot be struck out of what is kept"),
        ("{env: BIG_KEY}", {"BIG_KEY": "k" * 4097}, "holds more than 4096 characters, which is no key"),
        ("{file: nowhere}", {}, "nowhere cannot be read: No such file or directory"),
        ("{file: .}", {}, "cannot be read: Is a directory"),
        ("{file: /dev/zero}", {}, "/dev/zero is larger than 4 MiB"),
        ("{file: /dev/null}", {}, "/dev/null is empty"),
    ],
)
def test_a_key_that_is_not_there_is_told_without_it(root: Path, key: str, environ: dict[str, str], words: str) -> None:
    sweep = loaded(root, UPSTREAM.replace("{env: BIG_KEY}", key))
    with pytest.raises(UsageError) as caught:
        LiveUpstreams.of(sweep, ["live/big"], environ)
    assert "configs/models/big.yaml:5: model 'big': " in str(caught.value)
    assert words in str(caught.value)
    assert not any(value in str(caught.value) for value in environ.values() if value.strip())


@pytest.mark.parametrize("form", ["plain", "base64 inside, 1", "percent", "unicode some", "hex"])
def test_a_file_of_the_sweep_that_says_the_key_is_refused(root: Path, form: str) -> None:
    sweep = root / "configs/sweeps/small.yaml"
    write(sweep, f"{sweep.read_text()}# {FORMS[form]}\n")
    with pytest.raises(
        ConfigError, match=r"this line holds the key of model 'big'; a file says where a key is"
    ) as told:
        LiveUpstreams.of(loaded(root), ["live/big"], {"BIG_KEY": SAID})
    assert f"small.yaml:{len(sweep.read_text().splitlines())}: " in str(told.value)
    assert not says(str(told.value).encode())


def test_what_is_printed_from_then_on_holds_no_key(root: Path) -> None:
    LiveUpstreams.of(loaded(root), ["live/big"], {"BIG_KEY": SAID})
    assert not says(spoken(f"it said: {FORMS['base64']} {SAID}").encode())


def test_the_private_file_is_its_users_alone(root: Path) -> None:
    found = LiveUpstreams.of(loaded(root), ["live/big"], {"BIG_KEY": KEY})
    assert found is not None
    with tarfile.open(fileobj=io.BytesIO(UpstreamAccess(found, "volume", "network").tar())) as tar:
        (member,) = tar
        assert (member.name, member.mode, member.uid, member.gid) == ("policy.json", 0o600, 1000, 1000)
        file = tar.extractfile(member)
        assert file is not None
        policy = json.loads(file.read())
    assert policy == {
        "upstreams": {
            "big": {
                "base_url": "https://api.example.com/base",
                "socket": None,
                "allow": ["api.example.com:443"],
                "key": KEY,
                "auth": None,
                "ca": None,
                "silence_s": 100.0,
                "budget": {"requests": 10, "tokens": None, "money": None},
                "prices": {},
            }
        }
    }


def test_a_socket_needs_its_folder_and_no_network(root: Path) -> None:
    text = UPSTREAM.replace("https://api.example.com/base", "unix:/run/llm/api.sock")
    text = text.replace("api.example.com:443", "unix:/run/llm/api.sock").replace("key: {env: BIG_KEY}\n", "")
    found = LiveUpstreams.of(loaded(root, text), ["live/big"], {})
    assert found is not None
    assert not found.needs_network
    assert found.folders == {"/run/llm": "/upstream/0"}
    assert json.loads(found.policy())["upstreams"]["big"]["socket"] == "/upstream/0/api.sock"
    assert json.loads(found.policy())["upstreams"]["big"]["key"] is None


def test_certificates_are_the_files_or_those_of_the_machine(root: Path) -> None:
    write(root / "own.pem", PEM)
    write(root / "machine.pem", OTHER)
    here = {"BIG_KEY": KEY, "SSL_CERT_FILE": str(root / "machine.pem")}
    found = LiveUpstreams.of(loaded(root), ["live/big"], here)
    assert found is not None
    assert found.authorities == {"big": OTHER}
    write(root / "machine.pem", "broken")
    found = LiveUpstreams.of(loaded(root), ["live/big"], here)
    assert found is not None
    assert found.authorities == {"big": ""}
    write(root / "machine.pem", OTHER)
    found = LiveUpstreams.of(loaded(root, f"{UPSTREAM}ca: own.pem\n"), ["live/big"], here)
    assert found is not None
    assert json.loads(found.policy())["upstreams"]["big"]["ca"] == PEM


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "own.pem cannot be read: No such file or directory"),
        ("no certificate", "own.pem holds no certificate in PEM form"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "own.pem holds no certificate in PEM form"),
        (f"{PEM}-----BEGIN PRIVATE KEY-----\n", "own.pem holds a private key; name a file of certificates alone"),
    ],
)
def test_a_certificate_that_is_none_is_told_at_its_line(root: Path, content: str | None, words: str) -> None:
    if content is not None:
        write(root / "own.pem", content)
    with pytest.raises(ConfigError) as caught:
        LiveUpstreams.of(loaded(root, f"{UPSTREAM}ca: own.pem\n"), ["live/big"], {"BIG_KEY": KEY})
    assert "configs/models/big.yaml:9: model 'big': " in str(caught.value)
    assert str(caught.value).endswith(words)
