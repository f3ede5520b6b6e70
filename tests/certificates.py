"""Certificates for servers on loopback, signed by an authority of their own."""

from __future__ import annotations

import trustme


def certificate(host: str) -> tuple[str, str, str]:
    """(the authority's certificate, the server's own for the name `host`, its private key), PEM."""
    authority = trustme.CA()
    issued = authority.issue_cert(host)
    (signed,) = issued.cert_chain_pems
    return authority.cert_pem.bytes().decode(), signed.bytes().decode(), issued.private_key_pem.bytes().decode()
