"""Delivers notices: e-mail through the administrator's server, webhooks over HTTPS.

What must hold:
- A webhook is connected to the very address that was checked: a public one, unless the administrator names its host.
  Redirects are not followed.
- Neither an address nor a URL is ever logged or part of a problem.
- A slow endpoint or name server holds one of a few slots for a bounded time, and never the event loop or the threads
  of others.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import smtplib
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from tornado.httpclient import HTTPClientError
from tornado.netutil import Resolver
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from scheduler.controller.noticing import text, title
from scheduler.errors import Invalid, Unavailable
from scheduler.model import Notice, NoticeChannel, NoticeChoice

AT_ONCE = 8
"""The most deliveries at the same time, by e-mail and by webhook each."""

PATIENCE = 15.0
"""Seconds that an endpoint has to accept a connection, and to answer."""

MOST_ANSWERED = 64 * 1024
"""The most bytes of an answer; what it says is not read."""

_ADDRESS_RULE = "an e-mail address looks like ada@example.org"


@dataclass(frozen=True, slots=True)
class Mail:
    """The administrator's mail server. `tls` is `starttls`, `tls` (from the first byte) or `none`."""

    host: str
    port: int
    tls: str
    sender: str
    user: str = ""
    password: str = field(default="", repr=False)


class Delivery:
    """`hosts` are those to which webhooks may be sent: names, or patterns such as `*.example.org`. A host that is named
    exactly may have a private address and be reached over plain HTTP."""

    def __init__(self, mail: Mail | None, hosts: Sequence[str]) -> None:
        self._mail = mail
        self._hosts = tuple(host.lower() for host in hosts)
        self._slots = {way: asyncio.Semaphore(AT_ONCE) for way in ("mail", "web")}
        self._threads = ThreadPoolExecutor(2 * AT_ONCE, thread_name_prefix="notices")
        self._client = SimpleAsyncHTTPClient(
            force_instance=True,
            max_clients=AT_ONCE,
            resolver=_Checked(hosts=self._hosts, threads=self._threads),
            max_buffer_size=MOST_ANSWERED,
            max_body_size=MOST_ANSWERED,
        )

    def close(self) -> None:
        self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def check(self, choice: NoticeChoice) -> None:
        """Raises `Invalid` where a choice can never be delivered."""
        if choice.channel is NoticeChannel.EMAIL:
            self._check_mail(choice.address)
        elif choice.channel is not NoticeChannel.NONE:
            self._check_url(choice.address)

    def _check_mail(self, address: str) -> None:
        if self._mail is None:
            raise Invalid(
                "This scheduler sends no e-mail; choose a webhook, or ask an administrator to set smtp_host.",
                field="channel",
            )
        name, _, host = address.rpartition("@")
        plain = address.isascii() and address.isprintable() and not set(address) & set(' ,;:<>()[]"\\')
        if not (name and "@" not in name and host.strip(".") and plain):
            raise Invalid(f"This is no e-mail address; {_ADDRESS_RULE}.", field="address")

    def _check_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, _ = (parts.hostname or "").lower(), parts.port
        except ValueError:
            host = ""
        if not host or not url.isascii() or not url.isprintable() or parts.scheme not in ("https", "http"):
            raise Invalid("This is no URL of a webhook; it begins with https://.", field="address")
        if "@" in parts.netloc:
            raise Invalid("The URL of a webhook has no user name; put secrets into its path.", field="address")
        if not _allowed(host, self._hosts):
            raise Invalid(
                f"Webhooks to {host} are not allowed; ask an administrator to add it to webhook_hosts.",
                field="address",
            )
        if parts.scheme == "http" and host not in self._hosts:
            raise Invalid(
                "The URL of a webhook begins with https://; plain http needs an administrator who names its host in "
                "webhook_hosts.",
                field="address",
            )

    async def send(self, choice: NoticeChoice, notices: Sequence[Notice]) -> None:
        """Raises `Invalid` or `Unavailable`, with a sentence for the user who chose it."""
        self.check(choice)
        way = "mail" if choice.channel is NoticeChannel.EMAIL else "web"
        try:
            async with self._slots[way], asyncio.timeout(4 * PATIENCE):
                if choice.channel is NoticeChannel.EMAIL:
                    assert self._mail is not None
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(self._threads, _mail, self._mail, choice.address, tuple(notices))
                elif choice.channel is not NoticeChannel.NONE:
                    await self._post(choice, notices)
        except TimeoutError:
            raise Unavailable("The endpoint did not answer in time.") from None

    async def _post(self, choice: NoticeChoice, notices: Sequence[Notice]) -> None:
        try:
            await self._client.fetch(
                choice.address,
                method="POST",
                body=json.dumps(body(choice.channel, notices)),
                headers={"Content-Type": "application/json", "Idempotency-Key": notices[0].key},
                follow_redirects=False,
                connect_timeout=PATIENCE,
                request_timeout=2 * PATIENCE,
                decompress_response=False,
            )
        except _Refused as error:
            raise Unavailable(str(error)) from None
        except HTTPClientError as error:
            if error.code == 599:
                raise Unavailable("The endpoint did not answer in time, or closed the connection.") from None
            raise Unavailable(f"The endpoint answered with HTTP {error.code}.") from None
        except ssl.SSLError as error:
            raise Unavailable(f"The endpoint's certificate is not accepted: {error.reason or 'TLS error'}.") from None
        except (OSError, ValueError) as error:
            raise Unavailable(f"The endpoint cannot be reached: {_cause(error)}.") from None


class _Refused(Exception):
    """The host has an address that notices are not sent to."""


class _Checked(Resolver):
    """Resolves a host to the addresses that a webhook may be sent to."""

    def initialize(self, hosts: Sequence[str], threads: ThreadPoolExecutor) -> None:
        self._hosts, self._threads = hosts, threads

    async def resolve(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[tuple[int, Any]]:
        look_up = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        addresses: list[tuple[int, Any]] = [(kind, address) for kind, _, _, _, address in found]
        if host.lower() in self._hosts:
            return addresses
        public = [(kind, address) for kind, address in addresses if is_public(str(address[0]))]
        if not public:
            raise _Refused("The host has no public address; an administrator may name it in webhook_hosts.")
        return public


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet; also not one that stands for a private one."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _allowed(host: str, hosts: Sequence[str]) -> bool:
    return any(host == known or ("*" in known and fnmatchcase(host, known)) for known in hosts)


def _cause(error: BaseException) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or type(error).__name__


# -- messages ---------------------------------------------------------------------------------------------------


def body(channel: NoticeChannel, notices: Sequence[Notice]) -> dict[str, Any]:
    """The JSON of a webhook. For Slack and Teams, names are text and cannot mention anybody or be links."""
    match channel:
        case NoticeChannel.SLACK:
            escaped = text(notices).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return {"text": escaped}
        case NoticeChannel.TEAMS:
            lines = [line for line in text(notices).splitlines() if line]
            blocks = [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line}]} for line in lines]
            card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
            card["$schema"] = "http://adaptivecards.io/schemas/adaptive-card.json"
            attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
            return {"type": "message", "attachments": [attachment]}
        case _:
            told = [
                {
                    "key": notice.key,
                    "event": notice.kind.value if notice.kind else "test",
                    "job": notice.job,
                    "name": notice.name,
                    "project": notice.project,
                    "text": notice.text,
                    "at": notice.at,
                }
                for notice in notices
            ]
            return {"text": text(notices), "notices": told}


def mail(sender: str, address: str, notices: Sequence[Notice]) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = sender, address
    message["Subject"] = " ".join(title(notices).split())[:200]
    message["Date"] = formatdate(notices[-1].at)
    message["Message-ID"] = f"<{notices[0].key.replace(':', '.')}@jupyter-runai>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text(notices) + "\n")
    return message


def _mail(server: Mail, address: str, notices: Sequence[Notice]) -> None:
    context = ssl.create_default_context()
    try:
        if server.tls == "tls":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=PATIENCE, context=context)
        else:
            connection = smtplib.SMTP(server.host, server.port, timeout=PATIENCE)
        with connection:
            if server.tls == "starttls":
                connection.starttls(context=context)
            if server.user:
                connection.login(server.user, server.password)
            connection.send_message(mail(server.sender, address, notices), server.sender, [address])
    except smtplib.SMTPResponseException as error:
        raise Unavailable(f"The mail server answered with {error.smtp_code}.") from None
    except smtplib.SMTPRecipientsRefused:
        raise Unavailable("The mail server does not accept this address.") from None
    except ssl.SSLError as error:
        raise Unavailable(f"The mail server's certificate is not accepted: {error.reason or 'TLS error'}.") from None
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise Unavailable(f"The mail server cannot be used: {_cause(error)}.") from None
