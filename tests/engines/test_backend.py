"""An engine is chosen by name; other packages can provide engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.backend import Setup, backend
from scheduler.engines.local.engine import LocalEngine
from scheduler.errors import Invalid


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(StateFolder(tmp_path))


def test_local_is_ours(setup: Setup) -> None:
    assert isinstance(backend("local", setup).engine, LocalEngine)


def test_an_installed_package_brings_its_own(setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "runai_other-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: runai-other\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[jupyter_runai.engines]\nother = runai_other:made\n")
    (tmp_path / "runai_other.py").write_text("def made(setup):\n    return setup.folder.path, setup.patience\n")
    monkeypatch.syspath_prepend(tmp_path)
    made: object = backend("other", setup)
    assert made == (tmp_path, 0.0)
    with pytest.raises(Invalid) as refused:
        backend("slurm", setup)
    assert refused.value.sentence == "There is no engine 'slurm'; choose one of: kubernetes, local, other."
