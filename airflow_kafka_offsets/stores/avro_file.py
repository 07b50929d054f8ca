"""The first record of an Avro file, by the schema that the file itself has (Avro 1.12, object container files)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from airflow_kafka_offsets.json_columns import read_json

MAGIC = b"Obj\x01"


def first_record(data: bytes) -> Any:
    """:raises ValueError: it is no such file, has no record, or is compressed."""
    file = _AvroReader(data.removeprefix(MAGIC))
    try:
        header = file.value({"type": "map", "values": "bytes"})
        file.take(16)  # the marker between blocks
        codec = header.get("avro.codec", b"null").decode()
        if not data.startswith(MAGIC) or codec != "null" or file.long() < 1:
            raise ValueError(f"no uncompressed Avro file with a record ({codec})")
        file.long()  # the size of the block
        return file.value(read_json(header["avro.schema"].decode()))
    except (LookupError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise ValueError(f"no Avro file: {error!r}") from None


class _AvroReader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._named: dict[str, Any] = {}

    def take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise ValueError("an Avro file that ends too early")
        return self._data[start : self._at]

    def long(self) -> int:
        number, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number >> 1 ^ -(number & 1)
            shift += 7

    def value(self, schema: Any) -> Any:
        """:param schema: as its JSON has it; a name stands for a type that was defined before."""
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case list():
                return self.value(kind[self.long()])
            case dict():
                return self.value(kind)
            case "null":
                return None
            case "boolean":
                return self.take(1) == b"\x01"
            case "int" | "long":
                return self.long()
            case "float" | "double":
                size = {"float": 4, "double": 8}[kind]
                return struct.unpack(f"<{'f' if size == 4 else 'd'}", self.take(size))[0]
            case "bytes" | "string":
                found = self.take(self.long())
                return found.decode() if kind == "string" else found
            case "array":
                return [self.value(schema["items"]) for _ in self._items()]
            case "map":
                return {self.value("string"): self.value(schema["values"]) for _ in self._items()}
            case "record" | "enum" | "fixed":
                self._named[schema["name"].rpartition(".")[2]] = schema
        match kind:
            case "record":
                return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
            case "enum":
                return schema["symbols"][self.long()]
            case "fixed":
                return self.take(schema["size"])
        return self.value(self._named[kind.rpartition(".")[2]])

    def _items(self) -> Iterator[int]:
        while count := self.long():
            if count < 0:
                self.long()  # the size of the block
            if abs(count) > len(self._data):
                raise ValueError("an Avro file with more items than bytes")
            yield from range(abs(count))
