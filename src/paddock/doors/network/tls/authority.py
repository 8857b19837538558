"""The certificate authority of one run, and the TLS contexts that end connections in its name.

Its keys are made in memory and die with the run; they are never written to a file system. What a
sandbox gets is the certificate, which is public.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, cast

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.hosts import canonical_host, is_address

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )

MAX_CONTEXTS = 512  # a wildcard lets an agent think of any number of names
_MAX_COMMON_NAME = 64  # X.520 allows no more; clients look at the alternative name
_CA_LIFE = timedelta(days=365)
_LEAF_LIFE = timedelta(days=4)
_RENEW_S = 24 * 3600.0  # long before a leaf expires
# A sandbox's clock may be behind, and in a replay it is as far back as the recording.
_SLACK = timedelta(days=400)
Clock = Callable[[], float]


class EndedSocket(ssl.SSLSocket):
    """A connection whose TLS ends here. It remembers which name the client asked for."""

    asked: str | None = None
    is_mismatch: bool = False


class EndedObject(ssl.SSLObject):
    """The same over buffers in memory."""

    asked: str | None = None
    is_mismatch: bool = False


class Authority:
    """Signs for any name, for one run. Its keys are made when they are first needed."""

    def __init__(self, *, clock: Clock = time.time) -> None:
        self._clock = clock
        self._made: _Issuer | None = None
        self._making = threading.Lock()  # two first calls at once must not make two authorities
        self._contexts: OrderedDict[tuple[str, tuple[str, ...]], _Kept] = OrderedDict()

    @property
    def ca_pem(self) -> bytes:
        """The certificate that the sandbox has to trust. From any thread."""
        return self._issuer.ca_pem

    def context_for(self, name: str, *, alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Ends TLS for one canonical host. A client that asks for another one is refused; one that
        asks for none is not: the address that it called stands for the name. From one thread."""
        key, now = (name, alpn), self._clock()
        kept = self._contexts.get(key)
        if kept is None or not 0 <= now - kept.made_at < _RENEW_S:
            context = _server_context(name, alpn, self._issuer.chain_for(name, now))
            kept = self._contexts[key] = _Kept(context, now)
        self._contexts.move_to_end(key)
        if len(self._contexts) > MAX_CONTEXTS:
            self._contexts.popitem(last=False)
        return kept.context

    @property
    def _issuer(self) -> _Issuer:
        with self._making:
            if self._made is None:
                self._made = _new_issuer(self._clock())
            return self._made


class _Kept(msgspec.Struct, frozen=True):
    """A context, and when its leaf was signed."""

    context: ssl.SSLContext
    made_at: float


class _Issuer(msgspec.Struct, frozen=True):
    """The keys of a run. All leaves share one, so that a new name costs one signature."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey
    leaf_key: EllipticCurvePublicKey
    leaf_key_pem: bytes
    ca_pem: bytes

    __repr__ = object.__repr__  # it shows no key

    def chain_for(self, name: str, now: float) -> bytes:
        """The leaf for a name with its key, as PEM. The authority itself is not sent: a client
        that does not have it would not trust it either."""
        from cryptography.hazmat.primitives import serialization

        leaf = _leaf(self, name, _instant(now))
        return self.leaf_key_pem + leaf.public_bytes(serialization.Encoding.PEM)


def _new_issuer(now: float) -> _Issuer:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    leaf_key = ec.generate_private_key(ec.SECP256R1())
    certificate = _ca(key, _instant(now))
    leaf_key_pem = leaf_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    ca_pem = certificate.public_bytes(serialization.Encoding.PEM)
    return _Issuer(certificate, key, leaf_key.public_key(), leaf_key_pem, ca_pem)


def _ca(key: EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    # The subject differs from run to run: a client that knows two of them picks the right one.
    subject = _named(f"Paddock run {os.urandom(8).hex()}")
    return (
        _dated(now, _CA_LIFE)
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _leaf(issuer: _Issuer, name: str, now: datetime) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    # Strict clients (RFC 5280) want both key identifiers, and a usage that is marked as binding.
    ca_key_id = issuer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    key_id = x509.SubjectKeyIdentifier.from_public_key(issuer.leaf_key)
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_key_id.value)
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        _dated(now, _LEAF_LIFE)
        .subject_name(_named(name if len(name) <= _MAX_COMMON_NAME else "Paddock"))
        .issuer_name(issuer.certificate.subject)
        .public_key(issuer.leaf_key)
        .add_extension(x509.SubjectAlternativeName([_alternative(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(server, critical=False)
        .add_extension(key_id, critical=False)
        .add_extension(authority_id, critical=False)
        .sign(issuer.key, hashes.SHA256())
    )


def _alternative(name: str) -> x509.GeneralName:
    from cryptography import x509

    return x509.IPAddress(ip_address(name)) if is_address(name) else x509.DNSName(name)


def _dated(now: datetime, life: timedelta) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + life)
    )


def _named(common_name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _instant(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)


def _server_context(name: str, alpn: tuple[str, ...], chain_pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # the client could make the host work at will
    context.num_tickets = 1  # enough to resume; each one costs a client's first answer
    context.sslsocket_class = EndedSocket
    context.sslobject_class = EndedObject
    context.sni_callback = _sni_check(name)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    _load(context, chain_pem)
    return context


def _load(context: ssl.SSLContext, chain_pem: bytes) -> None:
    """The call takes a path only. An anonymous file in memory has one, outside all file systems."""
    fd = os.memfd_create("leaf", os.MFD_CLOEXEC)
    try:
        os.write(fd, chain_pem)
        # Of this thread: "self" means the first one, which may have ended.
        context.load_cert_chain(f"/proc/thread-self/fd/{fd}")
    finally:
        os.close(fd)


SniCheck = Callable[[ssl.SSLObject, str | None, ssl.SSLContext], int | None]


def _sni_check(name: str) -> SniCheck:
    def check(tls: ssl.SSLObject, asked: str | None, _context: ssl.SSLContext) -> int | None:
        ended = cast(EndedSocket | EndedObject, tls)
        # In a resumed session of TLS 1.2, OpenSSL tells the name that the session began with and
        # not the one in the hello. Nothing is done by the latter, so it may say what it likes.
        ended.asked = asked
        ended.is_mismatch = asked is not None and asked != name and not _means(asked, name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME if ended.is_mismatch else None

    return check


def _means(asked: str, name: str) -> bool:
    try:
        return canonical_host(asked) == name
    except InvalidInput:
        return False
