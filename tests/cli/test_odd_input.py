"""Odd files, odd numbers and a machine that refuses, for every verb: one sentence, never a bug."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from command import DONE, FAILED, USAGE, Run, in_words

from sfumato.cli import main as entry
from sfumato.errors import SfumatoError, reading, refusal, temporary_name
from sfumato.media import VideoWriter
from sfumato.privacy import Bounds, Card, Gaussian, Guarantee, Output

CONTENT = {
    "empty": b"",
    "cut": b'{"schema": "sfumato-card", "version": 1, "outp',
    "list": b"[]",
    "number": b"3",
    "other": b"{}",
    "nan": b'{"schema": "sfumato-card", "version": NaN}',
    "huge": b'{"schema": "sfumato-card", "version": ' + b"9" * 6000 + b"}",
    "deep": b"[" * 100_000,
    "binary": bytes(range(256)) * 20,
    "latin": b"\xff\xfe{}",
    "archive": b"PK\x03\x04" + bytes(50),
    "tags": b"a: !!python/name:os.system\n",
}
VALUES = [None, -1, float("nan"), "\x1b[31mred", [], {"a": None}, 10**400]
NUMBERS = ["x", "nan", "inf", "-1", "0", "1e-308", "1e308", "9999999999999", "9" * 400, "2.5"]
LONG = "n" * 300


def released(folder: Path, name: str = "model.safetensors") -> Path:
    made = folder / name
    made.write_bytes(b"weights")
    promise = Guarantee(
        mechanism="test",
        unit="record",
        relation="replace",
        delta=1e-5,
        event=Gaussian(4.0, Bounds.DIFFERENCE),
        accountant="analytic-gaussian",
    )
    Card(method="dp-sgd", done="Trained.", promise=promise, outputs=(Output.of(made),)).write(made)
    return made


@pytest.fixture
def video(tmp_path: Path) -> Path:
    made = tmp_path / "in.mkv"
    with VideoWriter(made, rate=10, size=(32, 24), codec="ffv1") as writer:
        for number in range(3):
            writer.write(np.full((24, 32, 3), 40 * number, np.uint8))
    return made


@pytest.fixture
def book(run: Run, tmp_path: Path) -> list[str]:
    """The option that names a ledger with one data set."""
    named = ["--ledger", str(tmp_path / "book.db")]
    made = run("ledger", "create", "d", "--owner", "o", "--epsilon", "9", "--delta", "1e-5",
               "--unit", "record", "--relation", "replace", *named)  # fmt: skip
    assert made[0] == DONE
    return named


# -- malformed files ---------------------------------------------------------------------------


def changed_cards(card: Any) -> Iterator[Any]:
    """The card with each value in it replaced by each odd one, or taken away."""

    def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        yield at
        if isinstance(value, dict | list):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from places(each, (*at, key))

    for *before, last in filter(None, places(card)):
        for value in (*VALUES, "taken away"):
            made = json.loads(json.dumps(card))
            owner = made
            for key in before:
                owner = owner[key]
            if value == "taken away":
                del owner[last]
            else:
                owner[last] = value
            yield made


def test_no_change_of_a_card_ends_in_a_bug(run: Run, tmp_path: Path) -> None:
    made = released(tmp_path)
    assert run("verify", made)[0] == DONE
    file = made.with_name(made.name + ".card.json")
    cards = list(changed_cards(json.loads(file.read_text())))
    assert len(cards) > 250
    for number, card in enumerate(cards):
        file.write_text(json.dumps(card))
        # every verb reads a card by the same function: the others take their turns
        others = (
            ["report", made, "-o", "page.html", "--force"],
            ["audit", "guarantee", made, "--trials", "1000", "--force"],
            ["verify", made, "--registry"],
            ["predict", "in.png", "-o", "out.png", "--model", tmp_path],
        )
        for words in (["verify", made], others[number % len(others)]):
            assert in_words(run(*words)), (words, card)


def test_no_malformed_promise_ends_in_a_bug(run: Run, book: list[str], tmp_path: Path) -> None:
    card = json.loads(Path(f"{released(tmp_path)}.card.json").read_text())
    file = tmp_path / "promise.json"
    for promise in changed_cards(card["promise"]):
        file.write_text(json.dumps(promise))
        words = ["ledger", "reserve", "d", "--card", file, "--key", "k", "--dry-run", *book]
        assert in_words(run(*words)), promise


def verbs_that_read(file: Path, suffix: str) -> Iterator[list[Any]]:
    """One command for every way in which a verb is given a file or folder."""
    match suffix:
        case ".card.json" | ".json":
            yield ["verify", file]
            yield ["report", file, "-o", "page.html"]
            yield ["audit", "guarantee", file]
            yield ["ledger", "reserve", "d", "--card", file, "--key", "k"]
            yield ["ledger", "verify", "--against", file]
            yield ["protect", "in.mkv", "out1.mkv", "--method", "blur", "--import-boxes", file]
        case ".measures.json" | ".audit.json":
            yield ["report", file, "-o", "page.html"]
        case ".yaml":
            yield ["train", file]
            yield ["train", file, "--dry-run"]
        case ".key":
            yield ["verify", "model.safetensors", "--key", file]
            yield ["verify", "model.safetensors", "--sign", file]
        case ".db":
            for verb in ("list", "export", "verify"):
                yield ["ledger", verb, "--ledger", file]
        case ".mp4" | ".png" | "":
            yield ["protect", file, f"out{suffix}", "--method", "edges"]
            yield ["audit", "leaks", file]
            yield ["audit", "reconstruct", file, file]
            yield ["audit", "visual", file, file]
            yield ["audit", "reid", file, file]
            yield ["audit", "membership", file]
            yield ["predict", file, "-o", f"drawn{suffix}", "--model", file]
            yield ["audit", "probe", file, "--state", file]
        case ".npz":
            yield ["stage", "make", "staged", "--motion", file, "--clips", "1", "--frames", "1"]
        case ".safetensors":
            yield ["protect", "in.mkv", "out2.mkv", "--method", "dp-image", "--unit", "frame",
                   "--epsilon", "1", "--set", f"encoder={file}"]  # fmt: skip


@pytest.mark.parametrize(
    "suffix",
    [".card.json", ".json", ".measures.json", ".audit.json", ".yaml", ".key", ".db", ".mp4", ".png",
     "", ".npz", ".safetensors"],
)  # fmt: skip
def test_no_odd_file_ends_in_a_bug(run: Run, video: Path, tmp_path: Path, suffix: str) -> None:
    assert video.is_file()
    released(tmp_path)
    files = [tmp_path / f"{name}{suffix}" for name in CONTENT]
    for file, content in zip(files, CONTENT.values(), strict=True):
        file.write_bytes(content)
    folder, loop = tmp_path / f"folder{suffix}", tmp_path / f"loop{suffix}"
    folder.mkdir()
    loop.symlink_to(loop.name)
    files += [folder, loop, tmp_path / f"{LONG}{suffix}", tmp_path / f"absent{suffix}"]
    files += [tmp_path / "in.mkv" / f"below{suffix}"]
    tried = 0
    for file in files:
        for words in verbs_that_read(file, suffix):
            assert in_words(run(*words)), words
            tried += 1
    assert tried >= len(files)


def test_no_malformed_data_set_ends_in_a_bug(run: Run, tmp_path: Path) -> None:
    picture = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    layouts: dict[str, dict[str, bytes]] = {
        "data/audioMNIST_meta.txt": {"data/01/0_01_0.wav": b"RIFF"},
        "data/01/0_01_0.wav": {"data/audioMNIST_meta.txt": b"{}"},
        "data/01/odd.wav": {"data/audioMNIST_meta.txt": b"{}"},
        "logmel.npz": {"speakers.json": b"{}"},
        "A_DeviceMotion_data/dws_1/sub_1.csv": {"data_subjects_info.csv": b"code,gender\n1,1\n"},
        "data_subjects_info.csv": {"A_DeviceMotion_data/dws_1/sub_1.csv": b"a,b\n1,2\n"},
        "subjects.csv": {"SA01/D01_SA01_R01.txt": b"1,2,3\n"},
        "SA01/D01_SA01_R01.txt": {"Readme.txt": b"| SA01 | 1 | 2 | 3 | M |"},
        "list_attr_celeba.txt": {"list_eval_partition.txt": b"1.jpg 0\n"},
        "index.csv": {"1_0_0_2.jpg": picture},
        "faces.zip": {"index.csv": b"file,age,gender,race\nx.jpg,1,0,0\n"},
    }
    for number, (odd, others) in enumerate(layouts.items()):
        for name, content in CONTENT.items():
            folder = tmp_path / f"{number}-{name}"
            for each, plain in {**others, odd: content}.items():
                (folder / each).parent.mkdir(parents=True, exist_ok=True)
                (folder / each).write_bytes(plain)
            words = ["protect", folder, tmp_path / "out", "--method", "pass", "--private", "a",
                     "--useful", "b", "--donors-are", "public"]  # fmt: skip
            assert in_words(run(*words)), (odd, name)


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        ("utd-mhad", "Depth/a1_s1_t1_depth.mat"), ("stage", "metadata.jsonl"), ("lsp", "joints.mat"),
        ("lsp", "joints.npy"), ("coco", "annotations/person_keypoints_train2017.json"),
        ("ucf101", "ucfTrainTestlist/trainlist01.txt"), ("folder", "walk/a.mp4"),
        ("hmdb51", "testTrainMulti_7030_splits/brush_hair_test_split1.txt"),
    ],
)  # fmt: skip
def test_no_malformed_training_data_ends_in_a_bug(
    run: Run, tmp_path: Path, kind: str, odd: str
) -> None:
    pose = {"pose": {"joints": "lsp"}, "model": {"name": "efficientnet-lite0"}}
    for name, content in CONTENT.items():
        file = tmp_path / f"data-{name}" / odd
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        config = {"out": "made", "data": {"kind": kind, "path": str(tmp_path / f"data-{name}")},
                  "privacy": {"records": 9, "epsilon": 1}, "training": {"steps": 1, "batch": 2},
                  **(pose if kind in {"lsp", "coco"} else {})}  # fmt: skip
        Path("train.yaml").write_text(json.dumps(config))
        answer = run("train", "train.yaml", "--force")
        assert in_words(answer), (name, answer)
        # a video is read when it is first drawn: a short training may never meet it
        assert answer[0] == FAILED or kind == "folder"


@pytest.mark.parametrize("place", ["/", ".", "..", "/dev/null", "there/"])
@pytest.mark.parametrize(
    "words",
    [
        ("leaks", "in.png", "--out"), ("visual", "a", "b", "--out"), ("reid", "a", "b", "--out"),
        ("reid", "a", "b", "--by"), ("probe", "a", "--out"), ("cross-data", "a", "b", "c", "--out"),
        ("leaks",), ("guarantee",), ("membership",), ("visual", "a"),
    ],
)  # fmt: skip
def test_an_audit_of_a_place_that_is_no_file_is_refused_in_words(
    run: Run, tmp_path: Path, words: tuple[str, ...], place: str
) -> None:
    (tmp_path / "there").mkdir()
    if words == ("leaks",) and place in ("/", ".."):
        place = {"/": "/dev/null/..", "..": "there/.."}[
            place
        ]  # not a whole disk, nor other tests' files
    before = sorted(tmp_path.rglob("*"))
    answer = run("audit", *words, place)
    assert in_words(answer), answer
    assert answer[0] == FAILED
    assert sorted(tmp_path.rglob("*")) == before


def test_a_broken_state_folder_is_named(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "speech"
    (folder / "data" / "01").mkdir(parents=True)
    (folder / "data" / "audioMNIST_meta.txt").write_text("{}")
    for name, content in CONTENT.items():
        state = tmp_path / f"state-{name}"
        state.mkdir()
        (state / "order.json").write_bytes(content)
        answer = run("audit", "probe", folder, "--state", state)
        assert answer[0] == FAILED
        assert in_words(answer), answer


# -- odd numbers and names ---------------------------------------------------------------------


def test_odd_numbers_of_every_verb_are_refused_in_words(run: Run, book: list[str]) -> None:
    account = ["account", "--noise-multiplier", "1", "--delta", "1e-6", "--sampling-rate", "0.01",
               "--steps", "1", "--relation", "replace"]  # fmt: skip
    create = ["ledger", "create", "e", "--owner", "o", "--epsilon", "1", "--delta", "1e-6",
              "--unit", "record", "--relation", "replace", *book]  # fmt: skip
    protect = ["protect", "in.mkv", "out.mkv", "--method", "snow", "--dry-run"]
    stage = ["stage", "make", "staged", "--dry-run"]
    commands = [
        (account, ["--noise-multiplier", "--delta", "--sampling-rate", "--steps", "--relation",
                   "--unit", "--group", "--accountant", "--epochs", "--records", "--batch"]),
        (["account"], ["--as-published"]),
        (create, ["--epsilon", "--delta", "--unit", "--relation"]),
        (["ledger", "verify", "--head", "x", *book], ["--count"]),
        (protect, ["--epsilon", "--delta", "--unit", "--seed", "--workers", "--quality", "--pairs",
                   "--donors", "--method"]),
        (stage, ["--clips", "--actors", "--rooms", "--frames", "--fps", "--size", "--habit",
                 "--seed", "--actions"]),
        (["audit", "guarantee", "absent"], ["--trials", "--confidence"]),
        (["audit", "membership", "absent"], ["--shadows", "--most"]),
        (["audit", "leaks", "absent"], ["--every"]),
        (["audit", "probe", "absent"], ["--epochs", "--most"]),
        (["models", "pull", "--offline"], [""]),
        (["bench"], [""]),
    ]  # fmt: skip
    refused = 0
    for words, options in commands:
        for option in options:
            for value in NUMBERS:
                said = [*words, *filter(None, [option]), value]
                if "account" in words and (option, value) == ("--steps", "9999999999999"):
                    assert run(*said)[0] == FAILED
                answer = run(*said)
                assert in_words(answer), said
                refused += answer[0] != DONE
    assert refused > 250


@pytest.mark.parametrize("words", [["verify", ""], ["protect", "", "out", "--method", "blur"],
                                   ["report", "x", "--output="], ["audit", "guarantee", ""]])  # fmt: skip
def test_an_empty_argument_does_not_mean_this_folder(run: Run, words: list[str]) -> None:
    code, _, told = run(*words)
    assert code == FAILED
    assert "variable of your shell" in told


# -- a machine that refuses --------------------------------------------------------------------


def verbs_that_write(target: Path, video: Path, released_file: Path) -> Iterator[list[Any]]:
    shutil.copy(released_file, released_file.with_name("again.safetensors"))
    Path("train.yaml").write_text(
        json.dumps({"out": str(target), "method": "sgd", "data": {"clips": 4, "people": 2},
                    "training": {"steps": 1, "batch": 2}, "input": {"frames": 2}})
    )  # fmt: skip
    yield ["protect", video, target.with_suffix(".mkv"), "--method", "edges", "--force"]
    yield ["verify", "--make-key", target, "--force"]
    yield ["report", released_file, "-o", target, "--force"]
    yield ["stage", "make", target, "--clips", "1", "--frames", "1", "--actors", "1", "--rooms", "1",
           "--size", "16x16"]  # fmt: skip
    yield ["train", "train.yaml"]
    yield ["audit", "guarantee", released_file, "--trials", "1000", "--force"]
    yield ["ledger", "export", "-o", target, "--ledger", "book.db"]


REFUSED = [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENAMETOOLONG, errno.EDQUOT, errno.EIO]


@pytest.mark.parametrize("code", REFUSED, ids=errno.errorcode.get)
def test_whatever_the_disk_refuses_is_one_sentence(
    run: Run,
    book: list[str],
    video: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
) -> None:
    assert book
    made = released(tmp_path)
    for words in verbs_that_write(tmp_path / "out", video, made):
        with monkeypatch.context() as patch:
            for name in ("open", "mkdir", "replace", "link", "rename"):
                patch.setattr(os, name, refusing(code, getattr(os, name), tmp_path))
            answer = run(*words)
        assert answer[0] == FAILED, words
        assert in_words(answer), (words, answer)


def refusing(code: int, real: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """The system call, which fails for everything that would be written below ``folder``."""

    def call(path: Any, *more: Any, **named: Any) -> Any:
        writes = real.__name__ != "open" or (more and more[0] & (os.O_WRONLY | os.O_RDWR))
        if writes and str(path).startswith(str(folder)):
            raise OSError(code, os.strerror(code), str(path))
        return real(path, *more, **named)

    return call


def test_a_folder_a_long_name_or_a_file_in_the_way_is_said(
    run: Run, book: list[str], video: Path, tmp_path: Path
) -> None:
    assert book
    made = released(tmp_path)
    folder = tmp_path / "folder"
    for each in (folder, folder.with_suffix(".mkv")):
        (each / "full").mkdir(parents=True)
    for target in (folder, tmp_path / LONG, made / "below"):
        for words in verbs_that_write(target, video, made):
            answer = run(*words)
            assert in_words(answer), (words, answer)
            if words[0] in {"protect", "report", "ledger"}:
                assert answer[0] == FAILED, words
    assert (folder / "full").is_dir()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_said(run: Run, video: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    code, _, told = run("protect", video, closed / "out.mkv", "--method", "edges")
    assert code == FAILED
    assert "permission" in told


def test_only_paths_that_were_typed_are_shown() -> None:
    secret = OSError(errno.EACCES, "Permission denied", "/ward3/anna.mp4")
    assert "anna" not in refusal(secret, ["protect", "in", "out"])
    assert "/ward3/anna.mp4" in refusal(secret, ["protect", "/ward3/anna.mp4", "out"])
    assert "'/ward3'" in refusal(secret, ["protect", "/ward3", "out"])
    folder = f"{temporary_name('out.mkv')}0"  # where out.mkv is being written
    beside = refusal(OSError(errno.EROFS, "Read-only", folder), ["protect", "in.mkv", "out.mkv"])
    assert "at 'out.mkv'" in beside
    unknown = refusal(OSError(errno.ENOTTY, "x", "/ward3/anna.mp4"))
    assert "anna" not in unknown
    assert unknown.count("\n") == 0
    for code in errno.errorcode:
        assert refusal(OSError(code, "words", "name")).startswith("Expected ")
    assert refusal(OSError("no number")).startswith("Expected ")
    assert "memory" in refusal(MemoryError())


def test_a_bug_is_still_called_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Sentences are for what a user can do; nothing else may look like it."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("Anna Example")

    monkeypatch.setattr("sfumato.privacy.verify_output", broken)
    code, _, told = run("verify", released(tmp_path))
    assert code == FAILED
    assert "Unexpected ZeroDivisionError: this is a bug" in told
    assert "Anna" not in told


@pytest.mark.parametrize("kind", [ValueError, KeyError, TypeError, StopIteration, EOFError,
                                  zipfile.BadZipFile, RecursionError])  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_by_kind_only(kind: type[Exception]) -> None:
    @reading("a list of people", SfumatoError)
    def read() -> None:
        raise kind("Anna Example")

    with pytest.raises(SfumatoError, match=f"a list of people.*{kind.__name__}") as caught:
        read()
    assert "Anna" not in str(caught.value)


def test_reading_leaves_refusals_and_bugs_of_other_kinds_alone() -> None:
    for error in (
        OSError(errno.ENOSPC, "full"),
        MemoryError(),
        SfumatoError("mine"),
        RuntimeError(),
    ):
        with pytest.raises(type(error)) as caught, reading("a file"):
            raise error
        assert caught.value is error


def test_too_little_memory_is_said_and_not_called_a_bug(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    def greedy() -> None:
        torch.empty(2**45)

    monkeypatch.setattr(entry, "app", greedy)
    code, _, told = run("anything")
    assert code == FAILED
    assert "enough memory" in told


@pytest.mark.parametrize(
    "variables",
    [{"WORLD_SIZE": "x"}, {"WORLD_SIZE": "2"}, {"WORLD_SIZE": "2", "RANK": "x"}],
)
def test_an_odd_environment_of_several_processes_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    Path("train.yaml").write_text("out: made\nmethod: sgd\ntraining: {steps: 1, batch: 2}\n")
    code, _, told = run("train", "train.yaml")
    assert code == FAILED
    assert "WORLD_SIZE" in told
    assert not Path("made").exists()


@pytest.mark.parametrize("columns", ["0", "1", "x", "-5", "200"])
def test_words_are_printed_on_a_terminal_of_any_width(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "sfumato models pull NAME" in run("models")[1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("where", ["> /dev/full", "--json > /dev/full", ">&-", "2>&- >&-"])
def test_output_that_cannot_be_printed_ends_without_a_traceback(where: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m sfumato models {where}",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
    assert done.returncode == (FAILED if "full" in where else DONE)


def test_names_that_a_terminal_cannot_show_are_escaped() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "sfumato", "verify", "\udcff\u00e4.mp4"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode in {FAILED, USAGE}
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
