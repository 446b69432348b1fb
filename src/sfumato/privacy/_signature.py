"""Signing a card with a key file (Ed25519), and checking a signature.

The signed bytes are the stored card without its signature, as JSON with sorted keys and no spaces.
Versions before 2 of the card signed what they derived from the promise, and wrote just that: so this
rule confirms every signature of theirs, and unlike the old one it notices forged words and numbers.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sfumato.files import refuse_overwrite, write_text
from sfumato.privacy._card import Card
from sfumato.privacy._card_text import CardError


def make_key(path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a new private key (mode 0600) and its public half beside it; return the latter."""
    private_path = Path(path)
    public_path = private_path.with_name(private_path.name + ".pub")
    refuse_overwrite(public_path, force=force)
    refuse_overwrite(private_path, force=force)
    key = Ed25519PrivateKey.generate()
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    private_path.unlink(missing_ok=True)
    handle = os.open(private_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(encoded)
    write_text(public_path, _public_hex(key.public_key()) + "\n", force=force)
    return public_path


def sign(card: Card, key_path: str | os.PathLike[str]) -> Card:
    """The card with a signature over everything else that is stored on it."""
    key = _private_key(key_path)
    signature = {
        "algorithm": "ed25519",
        "public_key": _public_hex(key.public_key()),
        "value": key.sign(card.canonical()).hex(),
    }
    return card.with_signature(signature)


def signer_of_key(key_path: str | os.PathLike[str]) -> str:
    """The public half of a private key file, as cards name who signed them."""
    return _public_hex(_private_key(key_path).public_key())


def _private_key(key_path: str | os.PathLike[str]) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(Path(key_path).read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        raise CardError(
            "Expected an unencrypted Ed25519 private key file (PEM): make one with "
            "sfumato verify --make-key FILE."
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise CardError(f"Expected an Ed25519 key, got {type(key).__name__}.")
    return key


def check_signature(card: Card, public_key: str | os.PathLike[str] | None = None) -> str:
    """Raise unless the card is signed, by ``public_key`` (a file) if one is given; return the key.

    Without a key of your own this only shows that the card is intact, not who signed it.
    """
    if card.signature is None:
        raise CardError("The card is not signed: sign it, or leave out the check of the signature.")
    signer = card.signature.get("public_key", "")
    if public_key is not None:
        expected = _public_key(public_key)
        if signer != expected:
            raise CardError("The card is signed by another key than the one given.")
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer))
        key.verify(bytes.fromhex(card.signature.get("value", "")), card.canonical())
    except (ValueError, InvalidSignature):
        raise CardError(
            "The card's signature does not fit its content: the card was changed after signing."
        ) from None
    return _public_hex(key)


def _public_key(path: str | os.PathLike[str]) -> str:
    try:
        found = Path(path).read_text(encoding="ascii").strip()
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(found))
    except (OSError, ValueError):
        raise CardError(
            "Expected a public key file as sfumato verify --make-key writes it (KEY.pub), got "
            "something else: check --key."
        ) from None
    return found


def _public_hex(key: Ed25519PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
