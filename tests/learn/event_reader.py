"""A reader of TensorBoard's event files that shares nothing with the writer but its checksum."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sfumato.learn._tensorboard import masked


def _event_class() -> Any:
    """``tensorflow.Event``, as far as scalars need it, in protobuf's own implementation."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t", syntax="proto3")

    def message(name: str, fields: list[tuple[str, int, int, str | None, bool]]) -> None:
        made = file.message_type.add(name=name)
        for label, number, kind, of, repeated in fields:
            made.field.add(
                name=label, number=number, type=kind, type_name=of,
                label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
            )  # fmt: skip

    message("Value", [("tag", 1, field.TYPE_STRING, None, False),
                      ("simple_value", 2, field.TYPE_FLOAT, None, False)])  # fmt: skip
    message("Summary", [("value", 1, field.TYPE_MESSAGE, ".t.Value", True)])
    message("Event", [("wall_time", 1, field.TYPE_DOUBLE, None, False),
                      ("step", 2, field.TYPE_INT64, None, False),
                      ("file_version", 3, field.TYPE_STRING, None, False),
                      ("summary", 5, field.TYPE_MESSAGE, ".t.Summary", False)])  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Event"))


def read_events(path: Path) -> list[Any]:
    """Every event of a file, with both checksums verified."""
    data, events, kind = path.read_bytes(), [], _event_class()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        body, (check,) = (
            data[12 : 12 + length],
            struct.unpack("<I", data[12 + length : 16 + length]),
        )
        assert check == masked(body)
        events.append(kind.FromString(body))
        data = data[16 + length :]
    return events
