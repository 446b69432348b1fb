"""Can everything that ``pip install sfumato`` needs be had as wheels, on each system and Python?

    python tools/platforms.py            needs the network; writes nothing but pip's cache
    python tools/platforms.py --extras   the extras too

Each dependency is asked for by itself, in the version of constraints.txt: pip reads the markers of
dependencies for the machine it runs on, not for the one it is asked about. Nothing is installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def _linux(machine: str, oldest: int) -> list[str]:
    """Tags by glibc's version, and the older name of one of them, which pip takes for another."""
    return [f"manylinux2014_{machine}", *(f"manylinux_2_{n}_{machine}" for n in range(oldest, 36))]


SYSTEMS = {
    "Linux x86-64": (("linux", "x86_64"), _linux("x86_64", 5)),
    "Linux arm64": (("linux", "aarch64"), _linux("aarch64", 17)),
    "macOS arm64": (("darwin", "arm64"), [f"macosx_{n}_0_arm64" for n in (11, 12, 13, 14, 15)]),
    "Windows x86-64": (("win32", "AMD64"), ["win_amd64"]),
}


def wanted(extras: bool) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    if extras:
        others = project["optional-dependencies"].items()
        lines += [line for name, group in others if name != "dev" for line in group]
    return [need for need in map(Requirement, lines) if need.name != "sfumato"]


def applies(need: Requirement, system: tuple[str, str], python: str) -> bool:
    if need.marker is None:
        return True
    platform, machine = system
    here = {"sys_platform": platform, "platform_machine": machine, "python_version": python}
    return need.marker.evaluate({**default_environment(), **here})


def lacking(needs: list[Requirement], platforms: list[str], python: str) -> list[str]:
    """Those without a wheel: all are asked for together, and one by one only if that fails."""
    if available(needs, platforms, python):
        return []
    return [need.name for need in needs if not available([need], platforms, python)]


def available(needs: list[Requirement], platforms: list[str], python: str) -> bool:
    plain = [f"{need.name}{need.specifier}" for need in needs]
    with tempfile.TemporaryDirectory() as nowhere:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps",
                   "--ignore-installed", "--only-binary=:all:", "--target", nowhere,
                   "--constraint", str(ROOT / "constraints.txt"), "--python-version", python]  # fmt: skip
        for platform in platforms:
            command += ["--platform", platform]
        return subprocess.run([*command, *plain], capture_output=True, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--extras", action="store_true", help="ask for the extras too")
    parser.add_argument("--python", nargs="*", default=PYTHONS, help="versions of Python")
    given = parser.parse_args()
    needs, missing = wanted(given.extras), 0
    for name, (system, platforms) in SYSTEMS.items():
        for python in given.python:
            asked = [need for need in needs if applies(need, system, python)]
            absent = lacking(asked, platforms, python)
            missing += len(absent)
            said = f"no wheel of {', '.join(absent)}" if absent else "every wheel is there"
            print(f"{name}, Python {python}: {len(asked)} asked for, {said}", flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
