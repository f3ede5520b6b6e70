"""Certificates for servers on loopback, made when they are needed by the openssl of the machine."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path


def certificate(host: str) -> tuple[str, str]:
    """(certificate, private key), PEM: signed by itself, valid for a day, for the name `host`."""
    with tempfile.TemporaryDirectory() as folder:
        key, made = Path(folder, "key"), Path(folder, "certificate")
        # An elliptic curve's key is made at once; an RSA key takes a second.
        argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        about = ["-days", "1", "-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
        subprocess.run([*argv, *about, "-keyout", key, "-out", made], check=True, capture_output=True)
        return made.read_text(), key.read_text()
