"""The reference says who may do what, as it is tested."""

from __future__ import annotations

from tests.api.permissions_page import PAGE, render


def test_the_reference_has_the_table_that_is_tested() -> None:
    assert PAGE.read_text() == render(), "out of date: run python -m tests.api.permissions_page"
