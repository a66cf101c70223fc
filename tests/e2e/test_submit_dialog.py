"""Jobs submitted from JupyterLab's dialog: a script by mouse, a command by keyboard, and errors at their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from scheduler.client import Client

from .audit import audit
from .conftest import Hub, eventually
from .test_first_light import client_of, in_the_lab, shot

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

SCRIPT = "import sys, shapes\nprint(shapes.AREA, *sys.argv[1:])\n"
THEMES = ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"


@pytest.fixture
def page(hub: Hub, in_the_lab: Callable[..., Page]) -> Page:
    """JupyterLab with its file browser in a folder of two scripts."""
    page = in_the_lab("kim")
    folder = hub.folder / "users" / "kim" / "digits"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "shapes.py").write_text("AREA = 6\n")
    page.get_by_role("button", name=re.compile("Refresh")).click()
    page.locator(".jp-DirListing-item", has_text="digits").dblclick()
    return page


def train(page: Page, file: str) -> Locator:
    """Open the submit dialog for a file."""
    page.locator(".jp-DirListing-item", has_text=file).click(button="right")
    page.get_by_role("menuitem", name="Train…").click()
    return page.locator(".runai-SubmitDialog")


def field(dialog: Locator, name: str) -> Locator:
    return dialog.get_by_label(name, exact=True)


def the_job(client: Client, name: str) -> str:
    found = eventually(lambda: [job for job in client.jobs(mine=True).jobs if job.name == name])
    assert len(found) == 1
    return found[0].id


def test_a_script_is_sent_from_the_file_browser_in_three_clicks(hub: Hub, page: Page) -> None:
    dialog = train(page, "train.py")
    expect(field(dialog, "Run")).to_have_value("train.py")
    expect(dialog).to_contain_text("Runs in a copy of the folder digits: 2 files")
    expect(field(dialog, "GPUs")).to_be_focused()
    expect(dialog.get_by_role("status")).to_contain_text("Starts now. It is over quota: ")
    shot(page, "submit-dialog")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".Toastify__toast", has_text="train.py was sent to project")).to_have_count(1)
    with client_of(hub, "kim") as client:
        job = the_job(client, "train.py")
        assert client.wait(job, timeout=60).state == "succeeded"
        assert client.log(job) == b"6\n"


def test_a_notebook_is_sent_from_its_toolbar_and_seen_in_the_status_bar(hub: Hub, page: Page) -> None:
    tab = page.locator(".lm-TabBar-tab", has_text="First steps.ipynb")
    expect(tab).to_have_count(1)
    status = page.locator(".runai-Status")
    expect(status).to_contain_text("free")
    page.get_by_role("button", name="Run this notebook on the GPU pool").click()
    dialog = page.locator(".runai-SubmitDialog")
    expect(field(dialog, "Run")).to_have_value("'First steps.ipynb'")
    field(dialog, "Run").fill("sleep 600")
    dialog.get_by_role("button", name="Send").click()
    expect(status).to_contain_text("1 running")
    shot(page, "status-bar")
    status.click()
    expect(page.get_by_role("tab", name="GPU pool")).to_have_attribute("aria-selected", "true")
    with client_of(hub, "kim") as client:
        client.cancel(the_job(client, "sleep"))
    expect(status).not_to_contain_text("running")


def test_a_command_is_sent_from_the_launcher_with_the_files_of_its_folder(hub: Hub, page: Page) -> None:
    page.get_by_role("button", name=re.compile("^New Launcher [(]")).click()
    card = page.locator(".jp-LauncherCard", has_text="New job…")
    card.scroll_into_view_if_needed()
    expect(card).to_have_attribute("title", "Send a script, a notebook or a command to the GPU pool")
    shot(page, "launcher")
    card.click()
    dialog = page.locator(".runai-SubmitDialog")
    expect(dialog).to_contain_text("Runs in a copy of the folder digits: 2 files")
    field(dialog, "Run").fill("cat shapes.py")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_have_count(0)
    with client_of(hub, "kim") as client:
        job = the_job(client, "cat")
        assert client.wait(job, timeout=60).state == "succeeded"
        assert client.log(job) == b"AREA = 6\n"


def test_an_error_is_shown_at_its_field_and_corrected_there(hub: Hub, page: Page) -> None:
    dialog = train(page, "train.py")
    field(dialog, "Run").fill("train.py --epochs 3")
    field(dialog, "GPUs").fill("64")
    expect(dialog.get_by_role("status")).to_contain_text("64 GPUs")
    shot(page, "submit-dialog-impossible")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_contain_text("64 GPUs")
    expect(dialog.get_by_role("status")).to_be_empty()
    expect(field(dialog, "GPUs")).to_be_focused()
    expect(field(dialog, "GPUs")).to_have_attribute("aria-invalid", "true")
    shot(page, "submit-dialog-refused")
    field(dialog, "GPUs").fill("0.5")
    expect(dialog.get_by_role("alert")).to_have_count(0)

    dialog.get_by_text("More options").click()
    field(dialog, "Maximum run time").fill("soon")
    field(dialog, "Name").fill("by hand")
    field(dialog, "Environment variables").fill("A=1\nB=2")
    dialog.get_by_text("More options").click()
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_contain_text("'soon' is not a duration; write 90s")
    expect(field(dialog, "Maximum run time")).to_be_focused()
    shot(page, "submit-dialog-more")
    page.set_viewport_size({"width": 480, "height": 700})
    shot(page, "submit-dialog-narrow")
    form = dialog.locator(".runai-Submit")
    assert form.evaluate("form => form.scrollWidth <= form.clientWidth"), "a field is cut off"
    page.set_viewport_size({"width": 1360, "height": 900})
    field(dialog, "Maximum run time").fill("1h")
    field(dialog, "Maximum run time").press("Enter")
    expect(dialog).to_have_count(0)
    with client_of(hub, "kim") as client:
        job = the_job(client, "by hand")
        assert client.wait(job, timeout=60).gpus == 0.5
        assert client.log(job) == b"6 --epochs 3\n"

    dialog = train(page, "train.py")
    expect(field(dialog, "Run")).to_have_value("train.py --epochs 3")
    expect(field(dialog, "GPUs")).to_have_value("0.5")
    expect(field(dialog, "Maximum run time")).to_have_value("1h")
    expect(field(dialog, "Maximum run time")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_job_file_is_sent_from_the_file_browser(hub: Hub, page: Page) -> None:
    folder = hub.folder / "users" / "kim" / "digits"
    (folder / "job.yaml").write_text("command: [python, train.py, --epochs, '3']\ngpus: 0.5\n")
    (folder / "wrong.yml").write_text("gpu: 1\n")
    page.get_by_role("button", name=re.compile("Refresh")).click()
    dialog = train(page, "wrong.yml")
    refused = "there is no key 'gpu' here; did you mean 'gpus'"
    expect(page.locator(".Toastify__toast", has_text=refused)).to_have_count(1)
    expect(dialog).to_have_count(0)
    train(page, "job.yaml")
    expect(field(dialog, "Run")).to_have_value("python train.py --epochs 3")
    expect(field(dialog, "GPUs")).to_have_value("0.5")
    shot(page, "submit-dialog-job-file")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_have_count(0)
    with client_of(hub, "kim") as client:
        job = client.wait(the_job(client, "job"), timeout=60)
        assert (job.state, job.gpus) == ("succeeded", 0.5)
        assert client.log(job.id) == b"6 --epochs 3\n"
    for name in ("job.yaml", "wrong.yml"):
        (folder / name).unlink()


def test_options_are_kept_as_a_template_and_fill_in_another_form(hub: Hub, page: Page) -> None:
    dialog = train(page, "train.py")
    field(dialog, "GPUs").fill("0.5")
    field(dialog, "Priority").fill("40")
    dialog.get_by_role("button", name="Save as template…").click()
    expect(field(dialog, "Template name")).to_be_focused()
    page.keyboard.type("half a GPU")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("'half a GPU' is not a valid template name; use letters")
    shot(page, "template-refused")
    audit(page, "refused template", ".runai-SubmitDialog")
    field(dialog, "Template name").fill("half")
    page.keyboard.press("Enter")
    expect(field(dialog, "Template")).to_have_value("half")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)

    dialog = train(page, "shapes.py")
    field(dialog, "Template").select_option("half")
    expect(field(dialog, "GPUs")).to_have_value("0.5")
    field(dialog, "Priority").fill("60")
    shot(page, "template")
    audit(page, "template", ".runai-SubmitDialog")
    page.set_viewport_size({"width": 640, "height": 900})
    shot(page, "template-640")
    audit(page, "template, 640 px", ".runai-SubmitDialog")
    page.set_viewport_size({"width": 1360, "height": 900})
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_have_count(0)
    with client_of(hub, "kim") as client:
        job = client.wait(the_job(client, "shapes.py"), timeout=60)
        assert (job.gpus, job.priority) == (0.5, 60)
    kept = hub.folder / "users/kim/.jupyter/runai/templates/half.yaml"
    assert kept.read_text() == "gpus: 0.5\npriority: 40\n"
    kept.unlink()


def test_a_command_is_sent_from_the_panel_by_keyboard_in_the_dark_theme(hub: Hub, page: Page) -> None:
    themes: Path = hub.folder / "users" / "kim" / THEMES
    themes.parent.mkdir(parents=True, exist_ok=True)
    themes.write_text(json.dumps({"theme": "JupyterLab Dark"}))
    page.reload()
    page.get_by_role("tab", name="GPU pool").click()
    page.get_by_role("button", name="New job").click()
    dialog = page.locator(".runai-SubmitDialog")
    expect(field(dialog, "Run")).to_be_focused()
    page.keyboard.type("echo {lr}")
    expect(field(dialog, "Run")).to_have_value("echo {lr}")
    dialog.get_by_text("More options").focus()
    page.keyboard.press("Enter")
    field(dialog, "Sweep").fill("lr=1,2")
    shot(page, "submit-dialog-dark")
    field(dialog, "Sweep").press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.locator(".Toastify__toast", has_text="echo: 2 jobs were sent")).to_have_count(1)
    expect(page.locator(".runai-Group", has_text="echo")).to_contain_text("2 jobs")
    page.get_by_role("button", name="New job").click()
    expect(field(dialog, "Run")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
