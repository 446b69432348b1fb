"""``sfumato account`` as a new user types it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from sfumato.cli.account import app
from sfumato.errors import SfumatoError
from sfumato.privacy import account_dpsgd

SCHEDULE = ["--delta", "1e-5", "--batch", "100", "--records", "10000", "--epochs", "5"]


def run(*arguments):
    found = CliRunner().invoke(app, list(arguments))
    if found.exception is not None:
        raise found.exception
    return found.output


def test_noise_for_a_promise():
    told = json.loads(run("--epsilon", "1", "--relation", "replace", *SCHEDULE, "--json"))
    noise = told["noise_multiplier"]
    assert told["steps"] == 500
    assert account_dpsgd(noise, 1e-5, 0.01, 500, "replace") <= 1
    assert told["guarantee"]["epsilon"] <= 1 <= told["rdp_epsilon"]
    assert 0.01 < told["true_positive_rate_at_1_percent"] < 0.1


def test_promise_of_a_noise_in_words():
    words = run("--noise-multiplier", "1.1", "--relation", "add-remove", *SCHEDULE, "--group", "3")
    for part in ("epsilon", "cross-check", "mu-GDP", "person(3)", "add-remove", "wrongly accuses"):
        assert part in words


def test_a_person_needs_more_noise():
    base = ["--epsilon", "2", "--relation", "zero-out", *SCHEDULE, "--json"]
    alone = json.loads(run(*base))
    person = json.loads(run(*base, "--group", "3"))
    assert person["noise_multiplier"] > alone["noise_multiplier"]
    assert person["guarantee"]["epsilon"] <= 2
    assert person["guarantee"]["unit"] == "person(3)"


def test_what_a_paper_claims_and_what_is_true():
    rows = json.loads(run("--as-published", "video-dprp", "--json"))["rows"]
    frame = [row for row in rows if row["unit"] == "frame"]
    assert [row["claimed_epsilon"] for row in frame] == [2, 5, 8]
    assert all(row["bound"] == "at least" and row["epsilon"] > 1e7 for row in frame)
    assert "no guarantee" in run("--as-published", "pass")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--epsilon"),
        (["--epsilon", "1", *SCHEDULE], "--relation"),
        (["--epsilon", "1", "--noise-multiplier", "1", *SCHEDULE], "either"),
        (
            ["--epsilon", "-1", "--relation", "replace", *SCHEDULE],
            "epsilon of sfumato account as a number from 1e-06",
        ),
        (["--epsilon", "1", "--relation", "replace"], "--delta"),
        (
            ["--epsilon", "1", "--relation", "add-remove", "--unit", "masked-tokens", *SCHEDULE],
            "zero-out",
        ),
        (["--as-published", "nothing"], "maskdp-ntu"),
    ],
)
def test_mistakes_get_one_sentence(arguments, sentence):
    with pytest.raises(SfumatoError, match=sentence):
        run(*arguments)


def test_next_to_no_noise_is_not_epsilon_zero():
    """R17: the command that printed 0."""
    told = json.loads(
        run(
            "--noise-multiplier", "0.02", "--delta", "1e-6", "--sampling-rate", "0.01",
            "--steps", "1", "--relation", "replace", "--json",
        )
    )  # fmt: skip
    assert told["guarantee"]["epsilon"] == pytest.approx(1430.4, rel=1e-3)


@pytest.mark.parametrize("unit", ["person(50)", "person", "clip", "masked-tokens"])
def test_a_group_of_records_states_nothing_larger_than_itself(unit):
    """R23: three records are not a person with fifty."""
    with pytest.raises(SfumatoError, match="counts the records of one person"):
        run("--noise-multiplier", "1.1", "--relation", "replace", *SCHEDULE, "--group", "3",
            "--unit", unit)  # fmt: skip
