"""Schemas for editors come from the models that read the files; the shipped examples fit them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import DONE, Run

from sfumato import protect
from sfumato.learn import TrainConfig, make_job, make_tuning, read_config

EXAMPLES = sorted(
    path.name for path in Path(protect.__file__).parents[1].glob("cli/example_files/*.yaml")
)


def fits(value: Any, schema: dict[str, Any], whole: dict[str, Any]) -> bool:
    """The parts of JSON Schema that these schemas use, written out once more."""
    if "$ref" in schema:
        return fits(value, whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in schema:
        return any(fits(value, each, whole) for each in schema["anyOf"])
    if "oneOf" in schema and sum(fits(value, each, whole) for each in schema["oneOf"]) != 1:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool,
                             "integer": int, "number": (int, float), "null": type(None)}  # fmt: skip
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        if set(schema.get("required", ())) - set(value):
            return False
        if schema.get("additionalProperties") is False and set(value) - set(known):
            return False
        return all(fits(each, known[name], whole) for name, each in value.items() if name in known)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (
            value >= schema.get("minimum", value)
            and value <= schema.get("maximum", value)
            and value > schema.get("exclusiveMinimum", value - 1)
            and value < schema.get("exclusiveMaximum", value + 1)
        )
    return True


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_shipped_example_fits_the_schema_and_the_model(run: Run, name: str) -> None:
    code, text, _ = run("examples", name)
    assert code == DONE
    schema = json.loads(run("schema", "train")[1])
    value = yaml.safe_load(text)
    assert fits(value, schema, schema)
    Path(name).write_text(text)
    config = read_config(Path(name), [])
    job = make_job(config) if config.tune is None else make_tuning(config).jobs[0]
    assert job.plan.is_private
    assert not fits({**value, "colour": "red"}, schema, schema)
    assert not fits({**value, "training": {"steps": -1}}, schema, schema)


def test_there_are_examples_and_the_page_shows_the_first(run: Run) -> None:
    assert "first.yaml" in EXAMPLES
    listed = run("examples")[1]
    assert all(name in listed for name in EXAMPLES)
    page = (Path(__file__).parents[2] / "docs" / "train.md").read_text()
    shown = page[page.index("# first.yaml") :].partition("```")[0]
    assert yaml.safe_load(shown) == yaml.safe_load(run("examples", "first.yaml")[1])


def test_the_schema_of_a_training_file_knows_every_key(run: Run) -> None:
    schema = json.loads(run("schema", "train")[1])
    assert set(schema["properties"]) == set(TrainConfig.model_fields)


def test_the_schema_of_protection_knows_every_method_with_its_settings(run: Run) -> None:
    schema = json.loads(run("schema", "protect")[1])
    assert set(schema["properties"]["method"]["enum"]) >= set(protect.methods())
    good: dict[str, Any] = {
        "method": "dprp",
        "settings": {"epsilon": 8, "delta": 1e-5, "unit": "frame"},
    }
    assert fits(good, schema, schema)
    assert fits({"method": "blur"}, schema, schema)
    assert not fits({"method": "dprp"}, schema, schema)
    assert not fits({"method": "blur", "settings": {"epsilon": 8}}, schema, schema)
    assert not fits(
        {"method": "dprp", "settings": good["settings"] | {"epsilon": -1}}, schema, schema
    )
