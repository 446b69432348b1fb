"""The image as far as it can be checked without an engine: what is copied exists, its steps are ours."""

from __future__ import annotations

import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines())
    ]


def test_every_instruction_is_known_and_copies_what_is_there() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    known = {"ARG", "FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"}
    found = instructions()
    assert {word for word, _ in found} <= known
    copied = [rest for word, rest in found if word == "COPY" and not rest.startswith("--from")]
    assert copied
    for rest in copied:
        *sources, _ = shlex.split(rest)
        for source in sources:
            assert (ROOT / source).exists(), source
            assert not any(fnmatch(source, pattern) for pattern in ignored), source


def test_stages_arguments_and_extras_are_declared() -> None:
    found = instructions()
    stages = [rest.split(" AS ")[1] for word, rest in found if word == "FROM" and " AS " in rest]
    for word, rest in found:
        if word == "COPY" and rest.startswith("--from="):
            assert rest.split("=")[1].split()[0] in stages
    declared = {rest.partition("=")[0] for word, rest in found if word == "ARG"}
    used = {name for word, rest in found for name in re.findall(r"\$\{?([A-Z_]+)\}?", rest)}
    assert used - {"PATH"} <= declared
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = next(
        rest.partition("=")[2] for word, rest in found if word == "ARG" and "EXTRAS" in rest
    )
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    python = next(
        rest.partition("=")[2] for word, rest in found if word == "ARG" and "PYTHON" in rest
    )
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]
    assert found[-3][0] == "WORKDIR" or ("USER", "sfumato") in found
