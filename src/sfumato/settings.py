"""Settings that people type: a schema for each receiver, one sentence for what is wrong with a value.

A schema is built from the signature of what takes the settings, so that a bound is written once, beside
the parameter it belongs to (``Annotated[int, Field(ge=0, le=64)]``). Unknown names, NaN and infinity
are refused everywhere.
"""

from __future__ import annotations

import inspect
import os
import re
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticOmit, core_schema

from sfumato.errors import SfumatoError

_LONGEST = 20_000  # characters of one typed value
_DEEPEST = 20  # brackets in brackets of one typed value


class SettingsError(SfumatoError):
    """A setting that cannot be followed."""


class Settings(BaseModel):
    """The base of every schema: nothing unknown, nothing infinite, and true is no number."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        assert info.field_name is not None
        if isinstance(value, bool):
            kinds = _kinds(cls.model_fields[info.field_name].annotation)
            if bool not in kinds and Any not in kinds:
                raise ValueError("true and false are no numbers")
        return value


Made = TypeVar("Made", bound=Settings)


def _file_name(value: Any) -> Any:
    if not 0 < len(os.fspath(value)) <= _LONGEST or "\0" in os.fspath(value):
        raise ValueError("a text that no file name can be")
    return value


def plug_in(value: Any) -> Any:
    """An object that only Python code can pass: nothing that is typed becomes one."""
    if isinstance(value, (str, bytes, int, float, list, tuple, dict, set, type(None))):
        raise ValueError("a plain value in the place of an object")
    return value


# Kinds of settings that many signatures share.
Seed = Annotated[int, Field(ge=0, lt=2**64)]
# Far beyond any use, and near enough that a slip of the finger is refused at once.
Count = Annotated[int, Field(ge=1, le=10**9)]
Amount = Annotated[float, Field(gt=0, le=10**6)]
Seconds = Annotated[float, Field(gt=0, le=30 * 86400)]
Numbers = Annotated[
    str, Field(pattern=r"^[0-9.]{1,12}(,[0-9.]{1,12})*$", description="numbers such as 0.5,2,8")
]
Text = Annotated[str, Field(description="text"), AfterValidator(_file_name)]
FileName = Annotated[
    str | os.PathLike[str], Field(description="the path of a file"), AfterValidator(_file_name)
]
Named = Annotated[
    Annotated[str, Field(min_length=1, max_length=200)] | Annotated[Any, PlainValidator(plug_in)],
    Field(union_mode="left_to_right", description="a name"),
]


# -- values as they are typed ------------------------------------------------------------------


# It comes from a variable that is not set, and would switch something off where null is allowed.
NO_VALUE = "got nothing after the equals sign: write null where none is meant."


class NamedTwiceError(ValueError):
    """One name with two values."""


class _Loader(yaml.SafeLoader):
    """Plain values only. Tags can make anything fail, and aliases can make one line gigabytes.

    Numbers are read as people write them: YAML 1.1 takes 1e-6 for text, 010 for 8 and 12:30 for 750.
    """

    aliases = False
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None or (
            not self.aliases and getattr(event, "anchor", None) is not None
        ):
            raise yaml.YAMLError("tags and aliases are not read")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> Any:
        """YAML would take the last of two: whoever reads the first believes another epsilon."""
        node = super().compose_mapping_node(anchor)
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise NamedTwiceError(f"the name {shown(twice)} twice")
        return node


class _FileLoader(_Loader):
    aliases = True


def _set_up(loader: type[_Loader]) -> None:
    tag = "tag:yaml.org,2002:"
    for name, pattern in (
        ("bool", r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"),
        ("null", r"~|null|Null|NULL|"),
        ("merge", r"<<"),
        ("int", r"[-+]?[0-9]+"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan"),
    ):
        loader.add_implicit_resolver(f"{tag}{name}", re.compile(f"^(?:{pattern})$"), None)
    loader.add_constructor(f"{tag}int", lambda _, node: int(node.value))
    loader.add_constructor(
        f"{tag}float", lambda _, node: float(node.value.replace(".i", "i").replace(".n", "n"))
    )


_set_up(_Loader)
_set_up(_FileLoader)


def parse_value(text: str) -> Any:
    """What was typed, as YAML reads it; raises ValueError where it cannot."""
    if len(text) > _LONGEST or sum(map(text.count, "[{")) > _DEEPEST:
        raise ValueError("too long or too deep")
    return _load(text, _Loader)


def parse_file(text: str) -> Any:
    """The content of a YAML file; raises ValueError where it is none."""
    return _load(text, _FileLoader)


def _load(text: str, loader: type[yaml.SafeLoader]) -> Any:
    try:
        return yaml.load(text, loader)  # noqa: S506 - a safe loader, and stricter
    except NamedTwiceError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError("text that is not YAML") from None


def parse_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """``name=value`` as it was typed; a name may be written with hyphens."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SettingsError(f"Expected a setting as name=value, got {shown(pair)}.")
        name = name.replace("-", "_")
        if name in found:
            raise SettingsError(
                f"Expected every setting once, got {shown(name)} twice: say which value counts."
            )
        if not value.strip():
            raise SettingsError(f"Expected a value for the setting {shown(name)}, {NO_VALUE}")
        try:
            found[name] = parse_value(value)
        except ValueError as error:
            raise SettingsError(
                f"Expected a value for the setting {shown(name)}, got {error}, {shown(value)}: put "
                "text with special characters in quotes, name=\"'...'\"."
            ) from None
    return found


# -- schemas -----------------------------------------------------------------------------------


def schema_from(title: str, parameters: Mapping[str, tuple[Any, Any]]) -> type[Settings]:
    """A schema from names with their types and defaults (``inspect.Parameter.empty``: needed)."""
    fields = {
        name: (kind, ... if default is inspect.Parameter.empty else default)
        for name, (kind, default) in parameters.items()
    }
    made: type[Settings] = create_model(title, __base__=Settings, **fields)  # type: ignore[call-overload]
    return made


def parameters_of(call: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Type and default of everything that may be passed to a function or class by name."""
    function = call.__init__ if isinstance(call, type) else call  # type: ignore[misc]
    hints = get_type_hints(function, include_extras=True)
    return {
        name: (hints.get(name, Any), parameter.default)
        for name, parameter in inspect.signature(call).parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }


_SCHEMAS: dict[Callable[..., Any], type[Settings]] = {}


def schema_of(call: Callable[..., Any]) -> type[Settings]:
    """The schema of everything that may be passed to ``call`` by name."""
    if call not in _SCHEMAS:
        _SCHEMAS[call] = schema_from(call.__name__, parameters_of(call))
    return _SCHEMAS[call]


def validated(
    schema: type[Made],
    given: Mapping[str, Any],
    of: str,
    error: type[SfumatoError] = SettingsError,
) -> Made:
    """``given`` as ``schema`` has it, or one sentence about the first thing that is wrong."""
    try:
        return schema.model_validate(dict(given))
    except ValidationError as wrong:
        raise error(_sentence(wrong, schema, given, of)) from None


def checked(
    schema: type[Settings],
    given: Mapping[str, Any],
    of: str,
    error: type[SfumatoError] = SettingsError,
) -> dict[str, Any]:
    """The values that were given, each as its type has it; defaults are left to the receiver."""
    made = validated(schema, given, of, error)
    return {name: getattr(made, name) for name in given}


class OnlyInPython:
    """Marks a type in an annotation: values of it are passed by Python code, and nobody can type one."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.is_instance_schema(source)


class _TypedValues(GenerateJsonSchema):
    """Leaves out what only Python code can pass: an editor shows what can be typed."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Any:
        raise PydanticOmit


def typed_schema(schema: type[Settings]) -> dict[str, Any]:
    """JSON schema of what can be typed."""
    return schema.model_json_schema(schema_generator=_TypedValues)


def one_of_schemas(choice: str, schemas: Mapping[str, type[Settings]]) -> dict[str, Any]:
    """JSON schema of an object that names its ``choice`` and holds the settings of that one."""
    shapes = []
    for name, schema in schemas.items():
        shape = typed_schema(schema)
        required = [choice, "settings"] if shape.get("required") else [choice]
        shapes.append(
            {"properties": {choice: {"const": name}, "settings": shape}, "required": required}
        )
    return {
        "type": "object",
        "properties": {choice: {"enum": list(schemas)}, "settings": {"type": "object"}},
        "required": [choice],
        "oneOf": shapes,
    }


# -- words -------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value for a message: short, and on one line."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = 60
    short.maxlevel, short.maxlist, short.maxdict = 2, 4, 4
    return short.repr(value)


def _sentence(
    wrong: ValidationError, schema: type[BaseModel], given: Mapping[str, Any], of: str
) -> str:
    first = wrong.errors(include_url=False, include_input=False)[0]
    place, field, model, value = _place(first["loc"], schema, given)
    if field is None:
        known = ", ".join(sorted(model.model_fields)) or "none at all"
        return f"Expected settings of {of} out of {known}, got {shown(place)}: there is no such setting."
    if first["type"] == "missing":
        return f"Expected the setting {place!r} of {of}, {_words(field.annotation, field.metadata, field.description)}, got none: please give it."
    expected = _words(field.annotation, field.metadata, field.description)
    return f"Expected {place} of {of} as {expected}, got {shown(value)}{_advice(first['type'])}."


def _place(
    location: tuple[int | str, ...], schema: type[BaseModel], given: Any
) -> tuple[str, FieldInfo | None, type[BaseModel], Any]:
    """The name of the setting that an error is about, its field, the field's owner and its value."""
    names: list[str] = []
    field: FieldInfo | None = None
    for part in location:
        if field is not None:
            inner = [kind for kind in _kinds(field.annotation) if _is_schema(kind)]
            if not inner or not isinstance(given, Mapping):
                break
            schema = inner[0]
        field = schema.model_fields.get(str(part))
        names.append(str(part))
        given = given.get(part) if isinstance(given, Mapping) else None
        if field is None:
            break
    return ".".join(names), field, schema, given


def _is_schema(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _kinds(annotation: Any) -> list[Any]:
    """The plain types that an annotation is made of."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [kind for part in get_args(annotation) for kind in _kinds(part)]
    return [annotation]


def _words(annotation: Any, metadata: Iterable[Any] = (), description: str | None = None) -> str:
    """What a setting may be, in words."""
    if description is not None:
        return description
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0], (*_flat(arguments[1:]), *metadata), _described(arguments[1:]))
    if origin in (Union, types.UnionType):
        given = [part for part in arguments if part is not type(None)]
        return " or ".join(dict.fromkeys(_words(part, metadata) for part in given))
    if origin is Literal:
        return ("one of " if len(arguments) > 1 else "") + ", ".join(map(str, arguments))
    if annotation in (int, float):
        kind = "a whole number" if annotation is int else "a number"
        return f"{kind}{_range(metadata)}"
    plain = {
        bool: "true or false",
        str: "text",
        dict: "names and values",
        Path: "the path of a file",
        list: "a list",
        tuple: "a list",
    }
    if _is_schema(annotation) or origin in (dict, Mapping):
        return "names and values"
    return plain.get(origin or annotation, "an object of Python code")


def _flat(metadata: Iterable[Any]) -> list[Any]:
    return [
        each
        for item in metadata
        for each in (item.metadata if isinstance(item, FieldInfo) else [item])
    ]


def _described(metadata: Iterable[Any]) -> str | None:
    found = [item.description for item in metadata if isinstance(item, FieldInfo)]
    return next((words for words in found if words is not None), None)


def _range(metadata: Iterable[Any]) -> str:
    limits = {
        name: _number(getattr(each, name))
        for each in metadata
        for name in ("gt", "ge", "lt", "le")
        if getattr(each, name, None) is not None
    }
    if "ge" in limits and "le" in limits:
        return f" from {limits['ge']} to {limits['le']}"
    words = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
    said = [f"{words[name]} {limit}" for name, limit in limits.items()]
    return f" {' and '.join(said)}" if said else ""


def _number(limit: Any) -> str:
    return str(limit) if isinstance(limit, int) and abs(limit) < 10**9 else f"{limit:g}"


def _advice(kind: str) -> str:
    if kind.startswith(("greater", "less")):
        return ": choose one in that range"
    if kind in ("float_parsing", "int_parsing", "float_type", "int_type", "finite_number"):
        return ": write it as 3, 0.5 or 1e-6"
    return ""
