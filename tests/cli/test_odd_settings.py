"""Odd values for every setting of every method, typed as people type them: one sentence, never a bug."""

from __future__ import annotations

import inspect
import json
import os
import shutil
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from command import DONE, FAILED, Run, caller, in_words

from benchmarks import TABLES
from benchmarks.__main__ import app as tables
from sfumato import protect
from sfumato.attributes import AttributesError
from sfumato.cli.main import run as run_command
from sfumato.learn import TrainConfig
from sfumato.protect import _command
from sfumato.settings import (
    Settings,
    SettingsError,
    checked,
    parse_file,
    parse_pairs,
    parse_value,
    schema_of,
    shown,
)

ODD = [
    "", "x", ".nan", ".inf", "-1", "0", "1e-6", "1e400", "9999999999999", "9" * 5000, "true", "[1, 2]",
    "{a: 1}", "[", "&a [*a]", "!!int", "12:30", "äöü🙂", "x" * 5000, "/", '"a\\0b"', "2.5", "[" * 500,
    "null", "[]", "\x07\x1b[31m",
]  # fmt: skip
# of training files there are ninety settings: those values that go deepest
FEW = ["", "x", ".nan", "-1", "9999999999999", "[1, 2]", "{a: 1}", "!!int", "0"]
NEEDED = {
    "external": ["--set", "command=tool {input} {output}"],
    "randomized-response": ["--epsilon", "2"],
}


@pytest.fixture
def quick_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dry runs of small pictures, and none of detectors: only what settings do is tried here."""
    measured = _command.estimate

    def estimate(method: protect.Method, shape: protect.Shape) -> tuple[float, int]:
        if hasattr(method, "region") or method.name in {"avatar", "skeleton"}:
            raise protect.ProtectError("Not measured.")
        return measured(method, shape)

    monkeypatch.setattr(_command, "estimate", estimate)
    monkeypatch.setattr(_command, "NOMINAL", protect.Shape(height=24, width=32, frames=8))


def order(name: str, *settings: str) -> list[str]:
    accepted = protect.get(name).accepted_settings()
    ending = "wav" if protect.get(name).medium == "sound" else "mp4"
    words = [
        "protect",
        f"in.{ending}",
        f"out.{ending}",
        "--method",
        name,
        "--dry-run",
        *NEEDED.get(name, []),
    ]
    if "unit" in accepted:
        words += ["--unit", "pixels(4, frames=1)"]
    if accepted.get("epsilon") and accepted["epsilon"].default is inspect.Parameter.empty:
        words += ["--epsilon", "2"]
    return words + [word for setting in settings for word in ("--set", setting)]


@pytest.mark.usefixtures("quick_estimate")
@pytest.mark.parametrize("name", sorted(protect.methods()))
def test_no_odd_setting_of_a_method_ends_in_a_bug(run: Run, name: str) -> None:
    assert run(*order(name))[0] == DONE
    tried = {
        (setting, value): run(*order(name, f"{setting}={value}"))
        for setting in protect.get(name).accepted_settings()
        for value in ODD
    }
    wrong = {key: answer for key, answer in tried.items() if not in_words(answer)}
    assert not wrong
    refused = sum(answer[0] == FAILED for answer in tried.values())
    assert len(tried) >= len(ODD)
    # a schema that lets everything pass would pass this test as well
    assert refused > len(tried) / 2


def test_more_odd_settings_are_tried_than_were_found_wrong() -> None:
    count = sum(len(each.accepted_settings()) for each in protect.methods().values())
    assert count * len(ODD) > 731


@pytest.mark.usefixtures("quick_estimate")
@pytest.mark.parametrize("value", ODD)
def test_chains_and_limits_to_a_region_refuse_in_words(run: Run, value: str) -> None:
    for setting in ("blur.strength", "edges.blur", "region", "every", "nothing", "a.b.c", ".", "+"):
        assert in_words(run(*order("edges", "low=3"), "--set", f"{setting}={value}")), setting
        chain = ["protect", "a", "b", "--dry-run", "--method", "blur+edges"]
        assert in_words(run(*chain, "--set", f"{setting}={value}")), setting
    for option in (
        "--region",
        "--detector",
        "--on-miss",
        "--unit",
        "--method",
        "--seed",
        "--codec",
    ):
        assert in_words(run(*order("snow"), option, value)), option


@pytest.mark.parametrize(
    "setting", ["self", "cls", "init", "given", "positional", "__class__", "name"]
)
@pytest.mark.parametrize("name", ["edges", "dprp", "blur", "edges+snow"])
def test_words_of_python_are_no_settings(run: Run, name: str, setting: str) -> None:
    words = ["protect", "a", "b", "--dry-run", "--method", name, "--set", f"{setting}=1"]
    code, said, refused = run(*words, "--epsilon", "2") if name == "dprp" else run(*words)
    assert in_words((code, said, refused))
    assert code == FAILED
    assert "setting" in said + refused


@pytest.mark.parametrize("method", ["pass", "pass-ldp"])
def test_no_odd_setting_of_pass_ends_in_a_bug(run: Run, method: str) -> None:
    base = ["protect", "in", "out", "--method", method, "--private", "a", "--useful", "b",
            "--donors-are", "public", "--dry-run"]  # fmt: skip
    base += ["--epsilon", "2"] if method == "pass-ldp" else []
    assert run(*base)[0] == DONE
    for setting in (
        *protect.get_dataset_method(method).settings_schema().model_fields,
        "tau",
        "epsilon",
        "colour",
    ):
        for value in ODD:
            assert in_words(run(*base, "--set", f"{setting}={value}")), (setting, value)


# values that the schema takes, as far as they go
TAKEN = {
    "lambda_": ("0", "1e6"), "mu": ("0", "1", "1e6"), "dimension": ("1", "4096"), "batch": ("1", "1e9"),
    "steps": ("1", "null"), "learning_rate": ("1e-30", "1000"), "remember": ("sample", "person", "never"),
    "encoder": ("whitened-mlp", "erased-mlp", "mlp", "window-cnn", "feature-head"),
    "draws_per_person": ("1", "1e4"), "tau": ("1e-6", "1e6"), "epsilon": ("1e-6", "1e6"),
    "published": ("audio", "null"),
}  # fmt: skip


def listed(folder: Path, people: str, *, shape: tuple[int, ...] = (12, 3)) -> Path:
    """Windows of three sensors with their people, as ``--method pass`` reads them."""
    generator = np.random.default_rng(len(people))
    folder.mkdir()
    lines = ["path,label,owner,split,attribute:sex"]
    for number, person in enumerate(people * 4):
        np.save(folder / f"{number}.npy", generator.normal(size=shape).astype(np.float32))
        sex = "f" if person in "aceg" else "m"
        split = "test" if number >= 3 * len(people) else "train"
        lines.append(f"{number}.npy,{'ab'[number % 3 == 0]},{person},{split},{sex}")
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("method", ["pass", "pass-ldp"])
def test_no_setting_that_pass_takes_ends_in_a_bug_when_it_runs(
    run: Run, tmp_path: Path, method: str
) -> None:
    theirs, others = listed(tmp_path / "theirs", "abcd"), listed(tmp_path / "others", "efgh")
    base = ["protect", theirs, "out", "--method", method, "--private", "sex", "--useful", "label",
            "--donors-are", "public", "--fit-on", others, "--donors-from", others]  # fmt: skip
    usual = {"steps": "2", "dimension": "12"} | (
        {"epsilon": "2", "draws_per_person": "4"} if method == "pass-ldp" else {}
    )
    there = sorted(os.listdir(tmp_path))
    done = 0
    for setting in protect.get_dataset_method(method).settings_schema().model_fields:
        for value in TAKEN[setting]:
            typed = usual | {setting: value}
            words = [word for pair in typed.items() for word in ("--set", "=".join(pair))]
            answer = run(*base, *words)
            assert in_words(answer), (setting, value, answer)
            done += answer[0] == DONE
            if answer[0] == FAILED:
                assert sorted(os.listdir(tmp_path)) == there, (setting, value)
            for made in tmp_path.glob("out*"):
                shutil.rmtree(made) if made.is_dir() else made.unlink()
    assert done > 12  # a run that always fails would pass as well


def test_no_slip_of_the_finger_keeps_pass_busy_for_days(run: Run) -> None:
    base = ["protect", "in", "out", "--method", "pass", "--private", "a", "--useful", "b",
            "--donors-are", "public", "--dry-run"]  # fmt: skip
    for setting in ("steps=999999999", "steps=100001", "dimension=65536"):
        code, _, told = run(*base, "--set", setting)
        assert code == FAILED, setting
        assert setting.split("=")[0] in told
    assert run(*base, "--set", "steps=100000", "--set", "dimension=4096")[0] == DONE


@pytest.mark.usefixtures("quick_estimate")
def test_a_value_that_is_not_there_switches_nothing_off(run: Run) -> None:
    """An empty one is a variable that is not set; the check of the output is switched off by a word."""
    for value in ("", " ", "''", "[]"):
        code, _, told = run(*order("blur", f"check={value}"))
        assert code == FAILED, value
        assert "check" in told
    for value in ("none", "off", "false", "null"):
        code, said, _ = run(*order("blur", f"check={value}"))
        assert code == DONE, value
        assert "No second detector checked the output" in said
    code, said, _ = run(*order("blur", "check=centerface"))
    assert code == DONE
    assert "No second detector" not in said
    assert run(*order("avatar", "poses="))[0] == FAILED
    Path("a.yaml").write_text("out: runs/a\ndata: {kind: synthetic, clips: 24}\n")
    code, _, told = run("train", "a.yaml", "privacy.epsilon=", "--dry-run")
    assert code == FAILED
    assert "'privacy.epsilon'" in told
    assert "nothing after the equals sign" in told


def test_the_numbers_that_yaml_takes_for_text_are_numbers(run: Run) -> None:
    words = ["protect", "a", "b", "--dry-run", "--json", "--unit", "pixels(4, frames=1)"]
    delta = run(*words, "--method", "dprp", "--epsilon", "2", "--set", "delta=1e-6")
    assert json.loads(delta[1])["settings"]["delta"] == 1e-6
    share = run(*words, "--method", "snow", "--set", "p=1e-3")
    assert json.loads(share[1])["settings"]["p"] == 1e-3


@pytest.mark.parametrize("name", sorted(protect.methods()))
def test_every_number_that_can_be_typed_has_two_ends(name: str) -> None:
    """So that no setting runs for hours or takes all memory because of a slip of the finger."""
    assert unbounded(protect.get(name).settings_schema()) == []


def test_numbers_of_trainings_tables_and_pass_have_two_ends_too() -> None:
    schemas = [
        TrainConfig,
        *(kind.settings_schema() for kind in protect.dataset_methods().values()),
    ]
    schemas += [schema_of(table.load().run) for table in TABLES.values()]
    # what the operator's own model is called with is the operator's affair; choices are checked one by one
    assert [place for schema in schemas for place in unbounded(schema)] == [
        "model.args",
        "tune.choices",
    ]


def unbounded(schema: type[Settings]) -> list[str]:
    """Names of numbers without a smallest and a largest value, and of values of any kind."""
    found = []
    for name, field in schema.model_fields.items():
        stack = [(field.annotation, list(field.metadata))]
        while stack:
            kind, metadata = stack.pop()
            arguments = get_args(kind)
            if hasattr(kind, "__metadata__"):
                inner = [
                    each
                    for item in arguments[1:]
                    for each in (getattr(item, "metadata", None) or [item])
                ]
                stack.append((arguments[0], metadata + inner))
            elif isinstance(kind, type) and issubclass(kind, Settings):
                found += [f"{name}.{each}" for each in unbounded(kind)]
            elif kind in (int, float):
                ends = {end for end in ("ge", "gt", "le", "lt") for each in metadata
                        if getattr(each, end, None) is not None}  # fmt: skip
                if not ends & {"ge", "gt"} or not ends & {"le", "lt"}:
                    found.append(name)
            elif kind is Any and not metadata:
                found.append(name)
            elif getattr(kind, "__origin__", None) is not None or arguments:
                stack += [(part, []) for part in arguments if not isinstance(part, str | bool)]
    # the values inside refine are checked by a schema of their own
    return [each for each in found if each != "refine"]


def test_values_beyond_their_ends_are_refused_before_any_work(run: Run) -> None:
    for setting in ("smooth=9999999999999", "block=9999999999999", "kept_size=1e12", "k=1e300"):
        code, _, told = run(*order("dprp", setting))
        assert code == FAILED
        assert setting.split("=")[0] in told
    code, _, told = run(*order("dprp", "smooth=61"))
    assert "smooth of the method dprp as a whole number from 0 to 60, got 61" in told


def test_the_constructor_checks_what_is_passed_in_python_too() -> None:
    method = protect.get("dprp")
    with pytest.raises(protect.ProtectError, match="smooth of the method dprp"):
        method(epsilon=1, delta=1e-5, unit="frame", smooth=10**9)
    with pytest.raises(protect.ProtectError, match="epsilon"):
        method(epsilon=float("nan"), delta=1e-5, unit="frame")
    with pytest.raises(protect.ProtectError, match="epsilon"):
        method(epsilon=True, delta=1e-5, unit="frame")
    with pytest.raises(protect.ProtectError, match="'delta' of the method dprp"):
        method(epsilon=1, unit="frame")
    with pytest.raises(protect.ProtectError, match="no such setting"):
        protect.get("blur")(colour="red")


def test_a_refinement_is_checked_by_its_own_schema() -> None:
    avatar = protect.get("avatar")
    whole = {"base": "b", "motion": "m", "depth": "d"}
    avatar(refine=whole)
    for name, value in (("steps", 10**9), ("strength", 2), ("colour", 1), ("base", 3), (1, 2)):
        with pytest.raises(protect.ProtectError, match="refine"):
            avatar(refine={**whole, name: value})
    with pytest.raises(protect.ProtectError, match="refine"):
        avatar(refine=[1])


def test_no_odd_change_of_a_training_file_ends_in_a_bug(run: Run) -> None:
    whole = {"out": "made", "privacy": {"epsilon": 1}, "training": {"steps": 2, "batch": 2},
             "data": {"clips": 8, "people": 4}, "input": {"frames": 2, "height": 8, "width": 8}}  # fmt: skip
    Path("train.yaml").write_text(json.dumps(whole))
    assert run("train", "train.yaml", "--dry-run")[0] == DONE
    for key in keys(TrainConfig):
        for value in FEW:
            answer = run("train", "train.yaml", f"{key}={value}", "--dry-run")
            assert in_words(answer), (key, value, answer)


def keys(schema: type[Settings], before: str = "") -> list[str]:
    found = []
    for name, field in schema.model_fields.items():
        found.append(before + name)
        kinds = [field.annotation, *get_args(field.annotation)]
        for inner in kinds:
            if isinstance(inner, type) and issubclass(inner, Settings):
                found += keys(inner, f"{before}{name}.")
    return found


@pytest.fixture
def table_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``python -m benchmarks WORDS`` in this process."""
    return caller(monkeypatch, capsys, lambda: run_command(tables))


@pytest.mark.parametrize("table", sorted(TABLES))
def test_odd_options_of_a_table_are_refused_before_it_runs(table_run: Run, table: str) -> None:
    for option in schema_of(TABLES[table].load().run).model_fields:
        for value in ("[1, 2]", "{a: 1}", "[", ".nan", "!!int", "&a [*a]"):
            code, _, told = table_run(table, f"{option}={value}")
            assert (code, told.count("\n")) == (FAILED, 1), (option, value)
            assert "bug" not in told
    assert in_words(table_run(table, "colour=red"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6), ("1E3", 1000.0), ("-3", -3), ("010", 10), ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"), ("32x24", "32x24"), ("yes", True), ("~", None), ("", None),
        ("[1, 0.5]", [1, 0.5]), ("{a: b}", {"a": "b"}), (".inf", float("inf")), ("'1'", "1"),
    ],
)  # fmt: skip
def test_values_are_read_as_people_write_them(text: str, value: Any) -> None:
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    ["[", "&a [*a]", "!!python/object:os.system x", "!x y", "- " * 5000, "9" * 5000, "[" * 99],
)
def test_values_that_could_do_harm_are_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"YAML|too long or too deep"):
        parse_value(text)


def test_a_training_file_may_name_a_part_twice_but_no_objects() -> None:
    assert parse_file("a: &x {b: 1}\nc: {<<: *x, d: 2}") == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}
    with pytest.raises(ValueError, match="YAML"):
        parse_file("a: !!python/name:os.system")


@pytest.mark.parametrize(
    "text", ["{epsilon: 1, epsilon: 8}", "privacy:\n  epsilon: 1\n  epsilon: 8", "a: 1\na: 1"]
)
def test_a_name_with_two_values_is_refused_and_not_the_last_one_taken(text: str) -> None:
    with pytest.raises(ValueError, match=r"the name '(epsilon|a)' twice"):
        parse_file(text)


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", "8", "--set", "epsilon=2"),
        ("--unit", "frame", "--set", "unit=clip", "--set", "epsilon=1"),
        ("--set", "epsilon=8", "--set", "epsilon=2"),
        ("--set", "kept-size=8", "--set", "kept_size=2", "--epsilon", "1"),
    ],
)
def test_a_setting_that_is_said_twice_is_refused(run: Run, words: tuple[str, ...]) -> None:
    answer = run("protect", "in.mp4", "out.mp4", "--method", "dprp", *words, "--dry-run")
    assert in_words(answer)
    assert answer[0] == FAILED
    assert "once, got" in answer[2]


def test_a_change_of_a_training_file_that_is_said_twice_is_refused(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(
        "out: runs/a\ndata: {kind: synthetic, clips: 24}\ntraining: {steps: 4, batch: 8}\n"
    )
    twice = ("privacy.epsilon=2", "privacy.epsilon=8")
    answer = run("train", "a.yaml", *twice, "--dry-run")
    assert in_words(answer)
    assert "'privacy.epsilon' twice" in answer[2]
    assert run("train", "a.yaml", twice[0], "--dry-run")[0] == DONE
    (tmp_path / "b.yaml").write_text("out: runs/b\nprivacy: {epsilon: 2, epsilon: 8}\n")
    assert "the name 'epsilon' twice" in run("train", "b.yaml", "--dry-run")[2]


def test_pairs_say_which_name_cannot_be_read() -> None:
    assert parse_pairs(["kept-size=3", "p=0.5"]) == {"kept_size": 3, "p": 0.5}
    with pytest.raises(SettingsError, match="'p'"):
        parse_pairs(["p=["])
    with pytest.raises(SettingsError, match="name=value"):
        parse_pairs(["p"])


def test_messages_stay_short_whatever_was_typed() -> None:
    for value in ("x" * 10**6, 10**4000, [[[[0] * 99] * 99] * 99], {"a": "b" * 10**6}):
        assert len(shown(value)) < 250
    with pytest.raises(AttributesError) as caught:
        checked(
            protect.get_dataset_method("pass").settings_schema(),
            {"tau": "x" * 10**6},
            "pass",
            AttributesError,
        )
    assert len(str(caught.value)) < 300
