"""Notices by e-mail and webhook: a real service process, a real web server and a real mail server."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from unittest.mock import PropertyMock, patch

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from scheduler.model import JobId, Notice, NoticeChannel, NoticeKind
from scheduler.schema import ProjectEntry
from scheduler.service.delivery import body, is_public
from tests.kubernetes.certificates import Authority

if TYPE_CHECKING:
    from tests.app.conftest import Service

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

SECRET = "T0/s3cr3t"


class Hook:
    """A web server that records what it is sent, and answers as `answers` says."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.paths: list[str] = []
        self.answers: Callable[[int], int] = lambda number: 200
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                hook.paths.append(self.path)
                hook.keys.append(self.headers["Idempotency-Key"])
                hook.received.append(json.loads(content))
                self.send_response(hook.answers(len(hook.received)))
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *args: object) -> None:
                """Not on the terminal."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/{SECRET}"

    def of(self, name: str, event: str) -> list[dict[str, Any]]:
        told = [notice for body in self.received for notice in body["notices"]]
        return [notice for notice in told if (notice["name"], notice["event"]) == (name, event)]


@pytest.fixture
def hook() -> Iterator[Hook]:
    found = Hook()
    thread = Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


ALLOWED = "--RunaiService.webhook_hosts=127.0.0.1"


def choose(service: Service, channel: str, address: str) -> None:
    service.cli("notices", "set", channel, address, "--shortest-success", "0")


def sent(service: Service, name: str, command: str, *options: str) -> str:
    words = ("submit", "--no-files", "--name", name, *options, "--", "sh", "-c", command)
    return service.cli(*words).stdout.strip()


def test_a_webhook_tells_the_ends_of_jobs_and_no_log_has_its_secret(service: Service, hook: Hook) -> None:
    """Also `webhook_hosts`: plain HTTP and a private address only where an administrator names the host."""
    service.start(ALLOWED)
    sent(service, "before", "exit 4")
    service.until(lambda: "failed" in service.cli("list").stdout)
    choose(service, "webhook", hook.url)
    tested = service.cli("notices", "test")
    assert tested.stdout == "The test notice was accepted.\n"
    assert hook.received[0]["text"] == "This is a test: notices of your jobs arrive here."
    job = sent(service, "digits", "exit 3")
    (failed,) = service.until(lambda: hook.of("digits", "failed"))
    assert failed.pop("at") > 0
    assert failed.pop("key").startswith(f"{job}:")
    assert failed == {
        "event": "failed",
        "job": job,
        "name": "digits",
        "project": "default",
        "text": "digits failed: It ended with exit code 3.",
    }
    sent(service, "well", "true")
    service.until(lambda: hook.of("well", "succeeded"))
    assert not hook.of("before", "failed")  # it was before the choice
    choose(service, "slack", hook.url)
    sent(service, "slacking", "exit 5")
    last = service.until(lambda: hook.received[-1] if "slacking" in hook.received[-1]["text"] else None)
    assert set(last) == {"text"}
    service.cli("notices", "set", "none")
    assert "nothing outside the browser" in service.cli("notices", "show").stdout
    assert service.stop() == 0
    assert SECRET not in service.log.read_text()


def test_a_webhook_tells_of_a_reclaim_and_that_the_job_runs_again(service: Service, hook: Hook) -> None:
    service.start(ALLOWED)
    choose(service, "webhook", hook.url)
    with service.client() as client:
        free = int(client.pool().train.free)
        client.project_put(ProjectEntry(name="due", guaranteed=free, members=[client.me().name]))
    surplus = sent(service, "surplus", "sleep 600", "--gpus", str(free), "--grace", "1", "--project", "default")
    service.until(lambda: "running" in service.cli("list").stdout)
    due = sent(service, "due", "sleep 600", "--gpus", str(free), "--project", "due")
    (paused,) = service.until(lambda: hook.of("surplus", "paused"))
    assert paused["text"] == (
        "surplus is being paused: Project due reclaims GPUs for due. It resumes when GPUs are free again."
    )
    service.cli("cancel", due)
    (resumed,) = service.until(lambda: hook.of("surplus", "resumed"))
    assert (resumed["job"], resumed["text"]) == (surplus, "surplus is running again.")


def test_a_notice_is_delivered_again_with_its_key_after_a_kill_before_its_delivery_was_recorded(
    service: Service, hook: Hook
) -> None:
    service.start(ALLOWED)
    choose(service, "webhook", hook.url)

    def kill_first(number: int) -> int:
        if number == 1:
            service.kill()  # it has been delivered, which the scheduler never learns
        return 200

    hook.answers = kill_first
    sent(service, "digits", "exit 3")
    service.until(lambda: hook.received)
    service.until(lambda: service.process is not None and service.process.poll() is not None)
    service.start(ALLOWED)
    service.until(lambda: len(hook.received) == 2)
    assert hook.keys[0] == hook.keys[1]
    assert hook.received[0] == hook.received[1]
    service.until(lambda: "Waiting" not in service.cli("notices", "show").stdout)
    service.kill()
    service.start(ALLOWED)
    sent(service, "next", "exit 4")
    service.until(lambda: hook.of("next", "failed"))
    assert len(hook.of("digits", "failed")) == 2  # what was recorded is not told again


def test_a_failing_endpoint_is_tried_again_and_its_problem_shown(service: Service, hook: Hook) -> None:
    hook.answers = lambda number: 500 if number == 1 else 200
    service.start(ALLOWED)
    choose(service, "webhook", hook.url)
    sent(service, "digits", "exit 3")
    service.until(lambda: "The endpoint answered with HTTP 500." in service.cli("notices", "show").stdout)
    service.until(lambda: "Problem" not in service.cli("notices", "show").stdout)
    assert len(hook.of("digits", "failed")) == 2


def test_redirects_are_not_followed(service: Service, hook: Hook) -> None:
    hook.answers = lambda number: 302
    service.start(ALLOWED)
    choose(service, "webhook", hook.url)
    tested = service.cli("notices", "test", check=False)
    assert (tested.returncode, tested.stderr) == (1, "The endpoint answered with HTTP 302.\n")
    assert hook.paths == [f"/{SECRET}"]


def test_private_addresses_need_an_administrator(service: Service, hook: Hook) -> None:
    """By default webhooks go to public addresses only, also where a name leads to a private one."""
    service.start()
    plain = service.cli("notices", "set", "webhook", hook.url, check=False)
    assert plain.stderr.startswith("The URL of a webhook begins with https://; plain http needs an administrator")
    for host in ("localhost", "127.0.0.1", "[::1]", "169.254.169.254", "2130706433"):
        choose(service, "webhook", f"https://{host}:{hook.server.server_address[1]}/")
        tested = service.cli("notices", "test", check=False)
        assert tested.stderr.startswith("The host has no public address"), (host, tested)
    service.stop()
    service.start("--RunaiService.webhook_hosts=*.example.org")
    refused = service.cli("notices", "set", "teams", "https://hooks.example.com/x", check=False)
    assert refused.stderr.startswith("Webhooks to hooks.example.com are not allowed")
    assert not hook.received


class Mails:
    """The handler of a mail server: what it has accepted."""

    def __init__(self) -> None:
        self.received: list[tuple[list[str], EmailMessage]] = []
        self.logins: list[LoginPassword] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, _class=EmailMessage, policy=policy.default)
        self.received.append((envelope.rcpt_tos, message))
        return "250 OK"

    def login(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        self.logins.append(data)
        return AuthResult(success=data.password == b"s3same")


@contextmanager
def mail_server(mails: Mails, tls: str = "none", context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Its port; `tls` as in the service's settings."""
    loop = asyncio.new_event_loop()
    upgrades = tls == "starttls"

    def protocol() -> SMTP:
        return SMTP(
            mails, authenticator=mails.login, auth_required=True, auth_require_tls=False, loop=loop,
            tls_context=context if upgrades else None, require_starttls=upgrades,
        )  # fmt: skip

    async def listen() -> asyncio.Server:
        return await loop.create_server(protocol, "127.0.0.1", 0, ssl=context if tls == "tls" else None)

    async def end(server: asyncio.Server) -> None:
        server.close()
        while rest := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in rest:
                task.cancel()
            await asyncio.wait(rest)

    thread = Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen(), loop).result()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_e_mail_goes_through_the_administrators_server(service: Service) -> None:
    """With `smtp_host`, `smtp_port`, `smtp_tls`, `smtp_user`, `smtp_password` and `smtp_from`."""
    mails = Mails()
    with mail_server(mails) as port:
        environment = {**service.environment, "RUNAI_SMTP_PASSWORD": "s3same"}
        with patch.object(type(service), "environment", PropertyMock(return_value=environment)):
            settings = {"host": "127.0.0.1", "port": port, "tls": "none", "user": "runai", "from": "gpus@example.org"}
            service.start(*(f"--RunaiService.smtp_{name}={value}" for name, value in settings.items()))
        choose(service, "email", "ada@example.org")
        assert service.cli("notices", "test").stdout == "The test notice was accepted.\n"
        job = sent(service, "digits", "exit 3")
        service.until(lambda: len(mails.received) == 2)
        recipients, message = mails.received[1]
        assert recipients == ["ada@example.org"]
        assert (message["From"], message["To"]) == ("gpus@example.org", "ada@example.org")
        assert message["Subject"] == "digits failed: It ended with exit code 3."
        assert message["Message-ID"].startswith(f"<{job}.")
        assert f"job {job} of project default" in message.get_content()
        assert {login.login for login in mails.logins} == {b"runai"}
        for wrong in ("ada", "ada@example.org, ben@example.org", "ada@example.org\nBcc: ben@example.org"):
            refused = service.cli("notices", "set", "email", wrong, check=False)
            assert refused.stderr.startswith("This is no e-mail address"), wrong


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_e_mail_goes_through_tls_to_a_server_whose_certificate_is_trusted(
    service: Service, tmp_path: Path, tls: str
) -> None:
    """`SSL_CERT_FILE` of the service names the authority of an organisation's own mail server."""
    authority = Authority(tmp_path)
    certificate = authority.sign("mail", "mail")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.cert, certificate.key)
    mails = Mails()
    with mail_server(mails, tls, context) as port:
        settings = {"host": "127.0.0.1", "port": port, "tls": tls, "user": "runai"}
        options = [f"--RunaiService.smtp_{name}={value}" for name, value in settings.items()]
        password = {**service.environment, "RUNAI_SMTP_PASSWORD": "s3same"}
        with patch.object(type(service), "environment", PropertyMock(return_value=password)):
            service.start(*options)
        choose(service, "email", "ada@example.org")
        refused = service.cli("notices", "test", check=False)
        assert refused.stderr.startswith("The mail server's certificate is not accepted")
        assert not mails.received
        assert not mails.logins
        service.stop()
        trusting = {**password, "SSL_CERT_FILE": str(authority.cert)}
        with patch.object(type(service), "environment", PropertyMock(return_value=trusting)):
            service.start(*options)
        assert service.cli("notices", "test").stdout == "The test notice was accepted.\n"
    assert [recipients for recipients, _ in mails.received] == [["ada@example.org"]]


def test_a_mail_server_without_tls_gets_nothing_where_tls_is_set(service: Service) -> None:
    """`smtp_tls` is starttls unless the administrator turns it off."""
    mails = Mails()
    with mail_server(mails) as port:
        service.start("--RunaiService.smtp_host=127.0.0.1", f"--RunaiService.smtp_port={port}")
        choose(service, "email", "ada@example.org")
        tested = service.cli("notices", "test", check=False)
    assert tested.returncode == 1
    assert tested.stderr.startswith("The mail server cannot be used")
    assert not mails.received


def test_without_a_mail_server_there_is_no_e_mail(service: Service) -> None:
    service.start()
    refused = service.cli("notices", "set", "email", "ada@example.org", check=False)
    assert refused.stderr.startswith("This scheduler sends no e-mail")
    refused = service.cli("notices", "test", check=False)
    assert refused.stderr.startswith("You have not chosen yet where notices go.")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        *((address, True) for address in ("1.1.1.1", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1")),
        *((address, False) for address in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0")),
        *((address, False) for address in ("::1", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1")),
        *((address, False) for address in ("224.0.0.1", "255.255.255.255", "2002:a00:1::", "ff02::1", "::")),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) == public


def test_a_name_cannot_mention_anybody_or_be_a_link() -> None:
    text = "<!channel> & [x](https://example.org) failed."
    notice = Notice("j1:7", NoticeKind.FAILED, JobId("j1"), "x", "vision", text, 5.0)
    assert body(NoticeChannel.SLACK, [notice]) == {
        "text": "&lt;!channel&gt; &amp; [x](https://example.org) failed. (job j1 of project vision)"
    }
    (attachment,) = body(NoticeChannel.TEAMS, [notice])["attachments"]
    (block,) = attachment["content"]["body"]
    run = {"type": "TextRun", "text": f"{text} (job j1 of project vision)"}
    assert block == {"type": "RichTextBlock", "inlines": [run]}
