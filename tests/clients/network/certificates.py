"""An authority for the servers of the tests. Only the door trusts it, by `network.tls.ca`."""

from __future__ import annotations

import datetime
import ssl
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class ServerAuthority:
    """Signs certificates for any name. Its files lie in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of tests")])
        self._certificate = self._signed(self._subject, self._key.public_key(), None)
        self.file = directory / "authority.pem"
        self.file.write_bytes(_pem(self._certificate))

    @cached_property
    def text(self) -> str:
        return self.file.read_text()

    def files(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of a server."""
        certificate, key = (self.directory / f"{name}.{kind}" for kind in ("pem", "key"))
        if not certificate.exists():
            made = ec.generate_private_key(ec.SECP256R1())
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
            key.write_bytes(_private(made))
            key.chmod(0o600)
            certificate.write_bytes(_pem(self._signed(subject, made.public_key(), name)))
        return certificate, key

    def context(self, name: str) -> ssl.SSLContext:
        """For a server of that name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.files(name))
        return context

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, name: str | None
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        own = x509.SubjectKeyIdentifier.from_public_key(key)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=name is None, path_length=None), critical=True)
            .add_extension(own, critical=False)
            .add_extension(signer, critical=False)
        )
        if name is not None:
            names = x509.SubjectAlternativeName([x509.DNSName(name)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
