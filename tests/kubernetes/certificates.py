"""The keys and certificates of a cluster, issued by its own authority in a folder."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    cert: Path
    key: Path


class Authority:
    """Signs the certificates of one cluster, stored in the folder as NAME.crt and NAME.key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(identifier, critical=False)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.cert = folder / "ca.crt"
        self.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
        )

    def sign(self, name: str, user: str, group: str | None = None, at: Sequence[str] = ()) -> Certificate:
        """A certificate of the client `user`, and of a server at the addresses `at`."""
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        if group is not None:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", *at)]
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        key = self.key(name)
        certificate = (
            self._builder(x509.Name(attributes), key.public_key())
            .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        written = self.folder / f"{name}.crt"
        written.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return Certificate(written, self.folder / f"{name}.key")

    def key(self, name: str) -> ec.EllipticCurvePrivateKey:
        """A private key, stored as NAME.key."""
        key = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PrivateFormat.TraditionalOpenSSL  # which the API server reads as a public key, too
        pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        (self.folder / f"{name}.key").write_bytes(pem)
        return key
