"""A new user gets the sample notebook; no file is overwritten, and deleted ones stay deleted."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from hub_spawner.welcome import EXAMPLES, place_examples

NOTEBOOK = "First steps.ipynb"


def test_a_new_user_finds_the_notebook(tmp_path: Path) -> None:
    place_examples(tmp_path)
    notebook = nbformat.read(tmp_path / NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert "%%runai_train --gpus 1 --out model,accuracy" in code
    assert "%runai_train train.py --gpus 1 -- --epochs 3" in code


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / NOTEBOOK).write_text("mine")
    place_examples(tmp_path)
    assert (tmp_path / NOTEBOOK).read_text() == "mine"


def test_a_deleted_notebook_is_not_copied_again(tmp_path: Path) -> None:
    place_examples(tmp_path)
    (tmp_path / NOTEBOOK).unlink()
    place_examples(tmp_path)
    assert not (tmp_path / NOTEBOOK).exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / NOTEBOOK).symlink_to(tmp_path / "elsewhere")
    place_examples(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_an_unwritable_folder_does_not_stop_the_server(tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file where a folder should be")
    place_examples(tmp_path)
    assert not (tmp_path / NOTEBOOK).exists()


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_examples_hold_no_outputs(example: Path) -> None:
    for cell in nbformat.read(example, as_version=4).cells:
        assert not cell.get("outputs")
