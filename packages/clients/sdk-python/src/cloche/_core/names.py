"""Spells names of fields: in camel case as the service has them, in snake case as Python has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, cast

from cloche._generated.operations import MAPS

NULL = object()
"""A field of a body that is sent as `null`."""

_WORD = re.compile(r"(?<=[a-z0-9])([A-Z])")


def snake(name: str) -> str:
    """Spells `ttlMs` as `ttl_ms`."""
    return _WORD.sub(r"_\1", name).lower()


def camel(name: str) -> str:
    """Spells `ttl_ms` as `ttlMs`, and `from_` as `from`. A name with a dot has a key of the caller's own."""
    if "." in name:
        return name
    first, *others = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in others)


def snake_keys(value: Any) -> Any:
    """Spells the names of fields in snake case, also of inner fields."""
    if isinstance(value, dict):
        return {snake(key): snake_keys(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [snake_keys(each) for each in cast("list[Any]", value)]
    return value


def to_wire(value: Any) -> Any:
    """Returns a body as JSON has it. Fields that are `None` are left out; keys of metadata and the like stay."""
    if value is NULL:
        return None
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return {camel(key): _field(key, each) for key, each in fields.items() if each is not None}
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, (list, tuple)):
        return [to_wire(each) for each in cast("list[Any]", value)]
    return value


def _field(key: str, value: Any) -> Any:
    is_map = key in MAPS and isinstance(value, Mapping)
    return dict(cast("Mapping[str, Any]", value)) if is_map else to_wire(value)


def time_text(time: datetime | str) -> str:
    """Returns a time in ISO 8601. A time without a zone is local time."""
    if isinstance(time, str):
        return time
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
