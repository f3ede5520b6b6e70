"""The verbs that look at the machine, on the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from runner.cli.app import app
from runner.errors import UsageError

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.engine


def test_doctor_reports_the_engine_and_its_floor() -> None:
    done = CliRunner().invoke(app, ["--root", str(ROOT), "doctor", "--image", "base"], standalone_mode=False)
    assert done.exception is None
    rows = {line[:30].strip(): line for line in done.stdout.splitlines()}
    for name in ("engine", "storage driver", "kernel", "disk left, engine", "disk left, here", "image base"):
        assert name in rows
    assert "create" in rows["floor on base"]
    assert "n=5" in rows["floor on base"]
    assert "attach echo" in rows


def test_doctor_of_an_image_that_is_not_built() -> None:
    done = CliRunner().invoke(app, ["--root", str(ROOT), "doctor", "--image", "bas"], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert "did you mean 'base'?" in str(done.exception)


def test_images_list_knows_every_recipe() -> None:
    done = CliRunner().invoke(app, ["--root", str(ROOT), "images", "list"], standalone_mode=False)
    assert done.exception is None
    listed = {line.split()[0] for line in done.stdout.splitlines()[2:]}
    assert listed == {path.parent.name for path in (ROOT / "images").glob("*/image.yaml")}
