"""What every test starts from: the same random numbers, and real data only where somebody named it.

``SFUMATO_TEST_ORDER=7`` runs the tests in an order drawn from that number. ``SFUMATO_TEST_SEED=7`` gives
other random numbers where a test does not say which, and real entropy (``make portable``).
"""

from __future__ import annotations

import gc
import os
import random
import secrets
from collections.abc import Generator, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from sfumato.jobs import Answer, Processes, _choose_engine, _run
from sfumato.jobs._engine import Task, attempt
from sfumato.privacy import _randomness
from sfumato.progress import listening

# The same examples on every machine, however slow it is. Another search: --hypothesis-seed=N with
# HYPOTHESIS_PROFILE=search.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("search", deadline=None, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


gc.disable()  # while modules are imported and tests collected: all of that stays


def pytest_collection_finish() -> None:
    """Half a million objects that the garbage collector need not look through again and again."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In another order when asked: files, and the tests of each file, which stay together."""
    order = os.environ.get("SFUMATO_TEST_ORDER")
    if order is None:
        return
    drawn = random.Random(order)
    places = {file: drawn.random() for file in sorted({item.path for item in items})}
    items.sort(key=lambda item: (places[item.path], drawn.random()))


class SameEntropy:
    """In the place of the operating system's: noise is noise, and the same on every machine.

    Names and ids (``token_hex``) stay as random as they are.
    """

    source = random.Random(0)
    token_hex = staticmethod(secrets.token_hex)

    def randbits(self, count: int) -> int:
        return self.source.getrandbits(count)

    def randbelow(self, limit: int) -> int:
        return self.source.randrange(limit)

    def token_bytes(self, count: int) -> bytes:
        return self.source.randbytes(count)


_SEED = os.environ.get("SFUMATO_TEST_SEED")
if _SEED is None:
    _randomness.secrets = SameEntropy()  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Whatever a test draws without a seed of its own does not depend on what ran before it."""
    SameEntropy.source.seed(0)
    random.seed(_SEED or 0)
    torch.manual_seed(int(_SEED or 0))


class NoText:
    """Finds no text: most tests are about people, and need no network and no model for letters."""

    name, device, at_once = "no text", "test", True

    def detect(self, image: object) -> list[object]:
        return []


@pytest.fixture(autouse=True)
def no_text(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text is looked for by tests that are marked ``text``, and by processes of their own."""
    if "text" not in request.keywords:
        monkeypatch.setattr("sfumato.people.text_detector", NoText)


class InThisProcess(Processes):
    """Does a folder's files one after the other, each handed over and answered as by a process.

    A process of its own takes seconds to import what the work needs.
    """

    def run(
        self, work: Any, count: int, task: Task, **more: Any
    ) -> Generator[list[Answer], None, None]:
        for number in range(count):
            given = _as_pickled((work, task(number, 1)))
            with listening(lambda said: None):  # a process has no listener
                value = _as_pickled(attempt(*given))
            yield [Answer(number, *value)]


def _as_pickled(value: Any) -> Any:
    return ForkingPickler.loads(ForkingPickler.dumps(value))


@pytest.fixture(autouse=True)
def few_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are worked on by processes in tests that are marked ``processes``."""
    if "processes" not in request.keywords:
        for user in (_run, _choose_engine):
            monkeypatch.setattr(user, "Processes", InThisProcess)


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Models and tensors made by the test are float64: an oracle must not be a matter of rounding.

    In float32 a near-tie (of max-pooling, of a ReLU) falls one way on one CPU and the other on the
    next, and moves a gradient by per cents.
    """
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


_BESIDE_THE_PROJECT = Path(__file__).resolve().parents[2] / "shared" / "data"


class RealData:
    """A folder of real data sets; a test that asks for one that is not there is skipped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __truediv__(self, name: str) -> Path:
        wanted = self.folder / name
        if not wanted.exists():
            pytest.skip(f"no real data: set SFUMATO_DATA (looked for {wanted})")
        return wanted


@pytest.fixture(scope="session")
def real_data() -> RealData:
    named = os.environ.get("SFUMATO_DATA")
    return RealData(Path(named) if named else _BESIDE_THE_PROJECT)
