"""The bundle of a job's folder: its files, its format, and when it is refused."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from scheduler.errors import Invalid, NotFound, TooLarge
from scheduler.files.bundle import in_words, pack, snapshot, survey


def fill(folder: Path, *paths: str, content: str = "x") -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return folder


def taken(folder: Path, *patterns: str) -> list[str]:
    return [entry.path for entry in survey(folder, patterns).entries]


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return {member.name: member for member in archive}


def test_packs_files_without_hidden_ones_and_caches(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "lib/model.py", "data/x.csv")
    fill(tmp_path, ".git/config", ".ssh/id_rsa", ".env", ".ipynb_checkpoints/a.ipynb", "lib/__pycache__/m.pyc")
    fill(tmp_path, "node_modules/a/index.js", ".venv/pyvenv.cfg", "env/pyvenv.cfg", "env/lib/python/a.py")
    assert taken(tmp_path) == ["data/x.csv", "lib/model.py", "train.py"]


def test_honours_gitignore_of_the_folder_of_those_below_and_of_the_repository_above(tmp_path: Path) -> None:
    fill(
        tmp_path,
        ".git/config",
        "sub/train.py",
        "sub/a.log",
        "sub/deep/keep.bin",
        "sub/deep/x.bin",
        "sub/out/y",
    )
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "sub/.gitignore").write_text("/out/\n*.bin\n")
    (tmp_path / "sub/deep/.gitignore").write_text("!keep.bin\n")
    assert taken(tmp_path / "sub") == ["deep/keep.bin", "train.py"]


def test_rules_above_count_only_inside_a_repository(tmp_path: Path) -> None:
    fill(tmp_path, "sub/train.log")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert taken(tmp_path / "sub") == ["train.log"]


@pytest.mark.parametrize("rule", ["/.runai/", "ada/"])
def test_a_folder_that_its_repository_ignores_is_packed(tmp_path: Path, rule: str) -> None:
    fill(
        tmp_path,
        ".git/config",
        ".runai/users/ada/lib.py",
        ".runai/users/ada/train.log",
        ".runai/users/ada/x.bin",
    )
    (tmp_path / ".gitignore").write_text(f"{rule}\n*.log\n")
    (tmp_path / ".runai/users/ada/.gitignore").write_text("*.bin\n")
    assert taken(tmp_path / ".runai/users/ada") == ["lib.py", "train.log"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["train.py"], ["train.py"]),
        (["./train.py"], ["train.py"]),
        (["data"], ["data/big.bin", "data/x.csv"]),
        (["*.py"], ["lib/model.py", "train.py"]),
        (["*.py", "!lib"], ["train.py"]),
        (["*", ".env"], [".env", "data/big.bin", "data/x.csv", "lib/model.py", "train.py"]),
        (["."], ["data/big.bin", "data/x.csv", "lib/model.py", "train.py"]),
    ],
)
def test_patterns_choose_instead(tmp_path: Path, patterns: list[str], expected: list[str]) -> None:
    fill(tmp_path, "train.py", "lib/model.py", "data/x.csv", "data/big.bin", ".env", ".ssh/id_rsa")
    (tmp_path / ".gitignore").write_text("*.bin\n")
    assert taken(tmp_path, *patterns) == expected


def test_an_absolute_pattern_is_one_below_the_folder(tmp_path: Path) -> None:
    fill(tmp_path, "lib/a.py", "b.py")
    assert taken(tmp_path, str(tmp_path / "lib")) == ["lib/a.py"]


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "train.py")
    with pytest.raises(Invalid, match=r"matches 'trian.py'; look at --in"):
        survey(tmp_path, ["trian.py"])


def test_a_pattern_that_leads_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is outside"):
        survey(tmp_path, ["../secrets"])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no folder"):
        survey(tmp_path / "nowhere")


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    first = fill(tmp_path / "one", "b.py", "a/c.py", "a.py")
    second = fill(tmp_path / "two", "a.py", "a/c.py", "b.py")
    os.utime(second / "a.py", (1, time.time() - 9e6))
    one, two = snapshot(first), snapshot(second)
    assert one.data == two.data
    assert one.digest == two.digest == hashlib.sha256(one.data).hexdigest()
    (second / "a.py").write_text("y")
    assert snapshot(second).digest != one.digest


def test_modes_and_contents_are_packed_and_owners_are_not(tmp_path: Path) -> None:
    fill(tmp_path, "run.sh", "a.txt")
    (tmp_path / "run.sh").chmod(0o700)
    found = members(snapshot(tmp_path).data)
    assert (found["run.sh"].mode, found["a.txt"].mode) == (0o755, 0o644)
    assert all((m.uid, m.gid, m.uname, m.mtime) == (0, 0, "", 0) for m in found.values())


def test_inner_links_are_packed_and_links_out_of_the_folder_are_not(tmp_path: Path) -> None:
    fill(tmp_path, "outside/data", "work/a.py")
    (tmp_path / "work/same.py").symlink_to("a.py")
    (tmp_path / "work/out").symlink_to("../outside")
    (tmp_path / "work/absolute").symlink_to(tmp_path / "work/a.py")
    bundle = snapshot(tmp_path / "work")
    assert members(bundle.data)["same.py"].linkname == "a.py"
    assert bundle.listing.outside == ("absolute", "out")
    assert [e.path for e in bundle.listing.entries] == ["a.py", "same.py"]


def test_extra_files_replace_others(tmp_path: Path) -> None:
    fill(tmp_path, "a.py")
    data = snapshot(tmp_path, extra={"a.py": b"better", ".runai/cell.py": b"1"}).data
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        content = archive.extractfile("a.py")
        assert content is not None
        assert content.read() == b"better"
        assert archive.getnames() == [".runai/cell.py", "a.py"]


def test_a_too_large_folder_is_refused_with_its_largest_files_and_advice(tmp_path: Path) -> None:
    fill(tmp_path, "train.py")
    fill(tmp_path, "data/a.bin", "data/b.bin", content="x" * 3000)
    with pytest.raises(TooLarge) as refused:
        survey(tmp_path, max_bytes=4096)
    assert "largest are data/ (5.9 KiB), train.py (1 B)" in refused.value.sentence
    assert "--in" in refused.value.sentence
    assert "--no-files" in refused.value.sentence
    assert taken(tmp_path, "train.py") == ["train.py"]


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, *(f"shards/{n}" for n in range(30)))
    with pytest.raises(TooLarge, match=r"There are 30 files .* at most; most are in shards/ \(30\)"):
        survey(tmp_path, max_files=20)
    with pytest.raises(TooLarge, match=r"There are 20 and more files"):
        survey(tmp_path, max_files=2)


def test_a_file_that_shrinks_or_vanishes_meanwhile_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "b.py", content="long enough")
    listing = survey(tmp_path)
    (tmp_path / "b.py").write_text("")
    with pytest.raises(Invalid, match=r"b\.py could not be sent"):
        pack(listing, {})
    (tmp_path / "a.py").unlink()
    with pytest.raises(Invalid, match=r"a\.py could not be sent \(No such file"):
        pack(listing, {})


@pytest.mark.parametrize(("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (300 * 2**20, "300 MiB")])
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_words(size) == words
