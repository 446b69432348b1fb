"""The tests under other conditions than this machine's: ``make portable``, ``make portable ONLY="avx2 tz"``.

Without names, conditions that do not touch each other share a run (``ENVIRONMENTS``); ``avx2+tz`` is such a
run too. What fails in one runs again under each of its conditions alone, and the table says whose fault it is.
Every condition is looked for from inside before the tests run in it; one that cannot be made here is
skipped with the reason. The exit code is 0 only when no test failed anywhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".portable"  # logs, and the environments of other Pythons
WHOLE = ("tests",)
# what floating point can touch
COMPUTING = tuple(
    f"tests/{room}"
    for room in ("attributes", "audit", "benchmarks", "body", "data", "learn", "models", "people", "privacy", "protect",
                 "stage", "test_readme.py")
)  # fmt: skip
FREE_BYTES = 15e9  # a build of torch for GPUs, which is all that some Pythons get, takes about 7 GB


class Skip(Exception):
    """This machine cannot make the condition."""


@dataclass
class Setting:
    """How a command runs under a condition."""

    environment: dict[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()
    python: str = sys.executable
    # a Python statement that fails where the condition is not there
    check: str = ""

    def under(self, other: Setting) -> Setting:
        """Both: the other's prefix runs inside of this one's."""
        for name in self.environment.keys() & other.environment.keys():
            if self.environment[name] != other.environment[name]:
                raise Skip(f"two conditions want {name}: run them apart")
        mine, others = (each.python != sys.executable for each in (self, other))
        if mine and others:
            raise Skip("two conditions want a Python of their own: run them apart")
        return Setting(
            self.environment | other.environment,
            (*self.prefix, *other.prefix),
            other.python if others else self.python,
        )

    def run(self, *command: str, log: Path) -> int:
        with log.open("ab") as stream:
            return subprocess.run(
                [*self.prefix, self.python, *command],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment},
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode


@dataclass(frozen=True)
class Condition:
    """A name, what it changes, the tests that it can touch, and how it is made."""

    name: str
    about: str
    tests: Sequence[str]
    make: Callable[[], Setting]


@dataclass(frozen=True)
class Environment:
    """Conditions that hold at once, in the order in which their prefixes nest."""

    conditions: tuple[Condition, ...]

    @property
    def name(self) -> str:
        return "+".join(each.name for each in self.conditions)

    @property
    def about(self) -> str:
        return ", ".join(each.about for each in self.conditions)

    @property
    def tests(self) -> Sequence[str]:
        """Every test that one of them can touch."""
        touched = [each.tests for each in self.conditions]
        return WHOLE if WHOLE in touched else tuple(dict.fromkeys(sum(map(tuple, touched), ())))

    def make(self, log: Path) -> tuple[Setting, list[str]]:
        """All of them at once, and why some could not be made here."""
        setting, absent = Setting(), []
        for condition in self.conditions:
            try:
                made = condition.make()
                wider = setting.under(made)
                if made.check and wider.run("-c", made.check, log=log):
                    raise Skip(_last_line(log))
                setting = wider
            except Skip as reason:
                absent.append(f"{condition.name} skipped: {reason}")
        return setting, absent


@dataclass
class Outcome:
    environment: Environment
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""
    # node ids of what failed; a file that could not be collected stands for all of it
    failures: list[str] = field(default_factory=list)
    # what each of them said, for machines whose log nobody can open afterwards
    said: list[str] = field(default_factory=list)


def capability(
    torch: str, onednn: str, openblas: str, numpy: str, opencv: str, glibc: str
) -> Setting:
    """Every library with kernels of its own is told to leave newer instructions alone."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        raise Skip(f"for x86-64 only; this is {platform.machine()}")
    from numpy._core._multiarray_umath import __cpu_dispatch__

    off = [each for each in __cpu_dispatch__ if re.search(numpy, each)]
    return Setting(
        {
            "ATEN_CPU_CAPABILITY": torch,
            "ONEDNN_MAX_CPU_ISA": onednn,
            "OPENBLAS_CORETYPE": openblas,
            "NPY_DISABLE_CPU_FEATURES": " ".join(off),
            "OPENCV_CPU_DISABLE": opencv,
            "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={glibc}",
        },
        check="import torch; found = torch.backends.cpu.get_cpu_capability().lower();"
        f"assert found == {torch!r}, 'this CPU has only ' + found",
    )


def avx2() -> Setting:
    return capability("avx2", "AVX2", "Haswell", "AVX512|X86_V4", "AVX512-SKX", "-AVX512F")


def sse() -> Setting:
    newer = "AVX512-SKX,AVX2,AVX,FP16"
    return capability("default", "SSE41", "Nehalem", ".", newer, "-AVX512F,-AVX2,-AVX,-FMA")


def cores() -> Setting:
    """More threads than cores."""
    if not shutil.which("taskset"):
        raise Skip("no taskset to keep the tests on one core")
    check = "import os; assert len(os.sched_getaffinity(0)) == 1"
    return Setting({"OMP_NUM_THREADS": "3"}, ("taskset", "--cpu-list", "0"), check=check)


def order(number: int) -> Setting:
    return Setting({"SFUMATO_TEST_ORDER": str(number)})


def seed() -> Setting:
    """Other random numbers wherever a test does not say which, and other examples of properties."""
    return Setting({"SFUMATO_TEST_SEED": "1", "HYPOTHESIS_PROFILE": "search"})


def user() -> Setting:
    """Somebody who is not root and cannot write into the home folder."""
    home = WORK / "home"
    home.mkdir(exist_ok=True)
    home.chmod(0o555)
    setting = Setting(
        {"HOME": str(home), "SFUMATO_CACHE": str(models())},  # somebody else pulled the models
        check="import os, pathlib; assert os.geteuid() != 0, 'still root';"
        "assert not os.access(pathlib.Path.home(), os.W_OK), 'the home can be written'",
    )
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        setting.environment[variable] = ""
    if os.geteuid() == 0:
        for tool in ("setpriv", "unshare", "mount"):
            if not shutil.which(tool):
                raise Skip(f"no {tool} to stop being root with")
        setting.prefix = (*_open_folders(), "setpriv", "--reuid=nobody", "--regid=nogroup",
                          "--clear-groups", "--")  # fmt: skip
    return setting


def models() -> Path:
    """Where this user's models lie."""
    from platformdirs import user_cache_path

    return Path(os.environ.get("SFUMATO_CACHE") or user_cache_path("sfumato", appauthor=False))


def _open_folders() -> tuple[str, ...]:
    """A mount namespace in which others reach the interpreter and the project, if a folder above
    them, such as /root, is closed to others; outside of the namespace nothing changes."""
    needed = {str(ROOT), sysconfig.get_config_var("installed_base") or sys.base_prefix, sys.prefix}
    if models().is_dir():
        needed.add(str(models()))
    closed = {
        str(above)
        for place in needed
        for above in Path(place).resolve().parents
        if not above.stat().st_mode & 0o001
    }
    script = 'set -e; stash=$(mktemp -d); mount -t tmpfs -o mode=755 none "$stash"\n'
    behind = sorted(place for place in needed if any(place.startswith(f"{c}/") for c in closed))
    for number, place in enumerate(behind):
        script += f'mkdir "$stash/{number}"; mount --bind "{place}" "$stash/{number}"\n'
    script += "".join(f'mount -t tmpfs -o mode=755 none "{each}"\n' for each in sorted(closed))
    for number, place in enumerate(behind):
        script += f'mkdir -p "{place}"; mount --bind "$stash/{number}" "{place}"\n'
    return ("unshare", "--mount", "sh", "-c", script + 'exec "$@"', "sh") if closed else ()


def zone() -> Setting:
    return Setting(
        {"TZ": "Asia/Kolkata", "LANG": "C", "LC_ALL": "C"},
        check="import time; assert time.timezone == -19800, 'no table of time zones'",
    )


def network() -> Setting:
    """A network namespace with nothing but the loopback."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        raise Skip("no unshare and ip to cut the network with")
    mine = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return Setting(
        prefix=("unshare", *mine, "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"),
        check="import socket; assert [n for _, n in socket.if_nameindex()] == ['lo']",
    )


def pythons() -> dict[tuple[int, int], str]:
    """Version to interpreter, of those that the project supports and this machine has."""
    places = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places += sorted(pyenv.glob("3.*/bin"))
    found = {sys.version_info[:2]: getattr(sys, "_base_executable", sys.executable)}
    for minor in range(11, 30):
        for folder in places:
            if (folder / f"python3.{minor}").is_file() and "shims" not in folder.parts:
                found.setdefault((3, minor), str(folder / f"python3.{minor}"))
    return found


def other_python(choose: Callable[..., tuple[int, int]], *, tested: bool) -> Setting:
    """An environment of its own, with the tested versions of everything or the newest."""
    there = pythons()
    version = choose(there)
    if tested and version == sys.version_info[:2]:
        return Setting()
    if shutil.disk_usage(ROOT).free < FREE_BYTES:
        raise Skip(f"needs {FREE_BYTES / 1e9:.0f} GB of free disk for another Python's packages")
    folder = WORK / f"python3.{version[1]}-{'tested' if tested else 'newest'}"
    python, stamp = folder / "bin" / "python", folder / "installed"
    asked = hashlib.sha256(
        (ROOT / "pyproject.toml").read_bytes() + (ROOT / "constraints.txt").read_bytes()
    ).hexdigest()
    if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == asked):
        versions = ("--constraint", "constraints.txt") if tested else ("--upgrade",)
        log = WORK / f"{folder.name}.install.log"
        log.unlink(missing_ok=True)
        inside = Setting(python=str(python))
        if (
            Setting(python=there[version]).run("-m", "venv", "--clear", str(folder), log=log)
            or inside.run("-m", "pip", "install", "--quiet", "--upgrade", "pip", log=log)
            or inside.run("-m", "pip", "install", "--quiet", *versions, "-e", ".[dev]", log=log)
        ):
            raise Skip(f"could not be installed: see {os.path.relpath(log, ROOT)}")
        stamp.write_text(asked, encoding="utf-8")
    return Setting(python=str(python))


CONDITIONS = (
    Condition("avx2", "a CPU with AVX2 and no AVX-512", COMPUTING, avx2),
    Condition("sse", "a CPU with SSE only", COMPUTING, sse),
    Condition("cores", "one core, three threads", COMPUTING, cores),
    *(Condition(f"order-{n}", f"random order {n}", WHOLE, lambda n=n: order(n)) for n in (1, 2, 3)),
    Condition("seed", "other random numbers", WHOLE, seed),
    Condition("user", "not root, home read-only", WHOLE, user),
    Condition("tz", "TZ=Asia/Kolkata LANG=C", WHOLE, zone),
    Condition("network", "no network", WHOLE, network),
    Condition("oldest-python", "oldest Python here, tested versions", WHOLE,
              lambda: other_python(min, tested=True)),
    Condition("newest-python", "newest Python here, tested versions", WHOLE,
              lambda: other_python(max, tested=True)),
    Condition("newest", "newest Python here, newest of everything, torch too", WHOLE,
              lambda: other_python(max, tested=False)),
)  # fmt: skip


# Every condition with every test it can touch, in four runs. A user comes last: only root can cut the network.
ENVIRONMENTS = (
    "order-1+avx2+tz+oldest-python+network+user",
    "order-2+seed+newest-python",
    "order-3+newest",
    "sse+cores",
)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that whoever runs the tests can write into."""
    folder = Path(tempfile.mkdtemp(prefix="sfumato-portable-"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


VERSIONS = (
    "import platform, torch; print(f'Python {platform.python_version()}, torch {torch.__version__}, '"
    "f'{torch.backends.cpu.get_cpu_capability()}')"
)


def run(environment: Environment, tests: Sequence[str], *, log: Path | None = None) -> Outcome:
    outcome, began = Outcome(environment), time.monotonic()
    log = log or WORK / f"{environment.name}.log"
    log.unlink(missing_ok=True)
    setting, absent = environment.make(log)
    if absent and len(absent) == len(environment.conditions):
        outcome.note = "; ".join(absent)
        return outcome
    setting.run("-c", VERSIONS, log=log)
    outcome.note = "; ".join([_last_line(log), *absent])
    with scratch() as folder:
        workers = os.environ.get("SFUMATO_TEST_WORKERS", "2")
        results = folder / "results.xml"
        code = setting.run(
            "-m", "pytest", "-n", workers, "--dist", "loadfile", "--durations=40",
            f"--junitxml={results}", "-o", f"cache_dir={folder / 'cache'}", *tests,
            log=log,
        )  # fmt: skip
        if results.exists():
            _count(ElementTree.parse(results).getroot(), outcome)
        failures = folder / "cache" / "v" / "cache" / "lastfailed"
        if failures.exists():
            outcome.failures = sorted(json.loads(failures.read_text(encoding="utf-8")))
    if code and not outcome.failed:
        outcome.failed = 1  # pytest itself went wrong
        outcome.note += f"; pytest ended with {code}"
    if outcome.failed:
        outcome.note += f"; see {os.path.relpath(log, ROOT)}"
    outcome.seconds = time.monotonic() - began
    return outcome


def narrowed(outcome: Outcome) -> Iterator[str]:
    """Whose fault each failure is: the failed tests again, here as it is and under each condition alone.

    An order is a matter of what ran before, so under one the whole files run again.
    """
    if not outcome.failures:
        return
    guilty: dict[str, list[str]] = {test: [] for test in outcome.failures}
    log = WORK / f"{outcome.environment.name}.again.log"
    here = set(run(Environment(()), outcome.failures, log=log).failures)
    for condition in outcome.environment.conditions:
        tests = outcome.failures
        if condition.name.startswith("order-"):
            tests = sorted({test.split("::")[0] for test in tests})
        log = WORK / f"{outcome.environment.name}.{condition.name}.log"
        for test in set(run(Environment((condition,)), tests, log=log).failures) - here:
            if test in guilty:
                guilty[test].append(condition.name)
    for test, names in guilty.items():
        if test in here:
            yield f"{test}: fails without any condition"
        else:
            yield f"{test}: {' and '.join(names) or 'only together, in this order, or by chance'}"


def _count(root: ElementTree.Element, outcome: Outcome) -> None:
    for suite in root.iter("testsuite"):
        outcome.failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        outcome.skipped += int(suite.get("skipped", 0))
        outcome.passed += int(suite.get("tests", 0))
    outcome.passed -= outcome.failed + outcome.skipped
    for case in root.iter("testcase"):
        for kind in ("failure", "error"):
            for each in case.findall(kind):
                trace = (each.text or "").strip().splitlines()[-40:]
                outcome.said.append(
                    "\n    ".join([f"{case.get('classname')}::{case.get('name')}", *trace])
                )


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1].removeprefix("AssertionError: ") if lines else "nothing was said"


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [("condition", "passed", "failed", "skipped", "seconds", "")]
    for each in outcomes:
        numbers = (each.passed, each.failed, each.skipped, round(each.seconds))
        shown = map(str, numbers) if each.seconds else ("-",) * 4
        rows.append((each.environment.name, *shown, f"{each.environment.about}; {each.note}"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        row[0].ljust(widths[0])
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:5], widths[1:]))
        + f"  {row[5]}"
        for row in rows
    )


def chosen(names: Sequence[str]) -> list[Environment]:
    """The conditions of these names alone, those joined by ``+`` at once; ``order-17`` is any order."""
    known = {condition.name: condition for condition in CONDITIONS}
    environments = []
    for name in names:
        parts = name.split("+")
        for part in parts:
            if number := re.fullmatch(r"order-(\d+)", part):
                drawn = int(number[1])
                known.setdefault(
                    part, Condition(part, f"random order {drawn}", WHOLE, lambda n=drawn: order(n))
                )
        if unknown := [part for part in parts if part not in known]:
            raise SystemExit(
                f"Expected conditions among {', '.join(known)} or order-N, got {', '.join(unknown)}."
            )
        environments.append(Environment(tuple(known[part] for part in parts)))
    return environments


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", metavar="condition")
    parser.add_argument(
        "--tests", nargs="+", help="these tests instead of what a condition touches"
    )
    parser.add_argument(
        "--again", action="store_true",
        help="run what failed a second time: only what fails twice hangs on the condition and counts",
    )  # fmt: skip
    asked = parser.parse_args()
    environments = chosen(asked.only or ENVIRONMENTS)
    WORK.mkdir(exist_ok=True)
    outcomes, faults = [], []
    for environment in environments:
        print(f"{environment.name}: {environment.about} ...", flush=True)
        outcome = run(environment, asked.tests or environment.tests)
        outcomes.append(outcome)
        faults += outcome.said
        if asked.again and outcome.failures:
            log = WORK / f"{environment.name}.again.log"
            second = run(environment, outcome.failures, log=log)
            outcome.note += f"; {outcome.failed} failed once, of which {second.failed} failed again"
            outcome.failed, outcome.failures = second.failed, second.failures
        if len(environment.conditions) > 1:
            faults += narrowed(outcome)
    print(f"\n{table(outcomes)}\n")
    for fault in faults:
        print(fault)
    passed, failed, skipped = (
        sum(getattr(each, name) for each in outcomes) for name in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
