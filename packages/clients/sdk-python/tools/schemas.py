"""Prepares the schemas of the OpenAPI document for the generator of models: gives a name to everything inside them."""

import json
import re
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/"
# Keywords that become part of a type or of its documentation. The service checks the rest.
KEPT = ("type", "properties", "required", "items", "anyOf", "enum", "const", "description", "additionalProperties")
# Names of fields that Python reserves.
RESERVED = ("from", "as")


def pascal(name: str) -> str:
    """Spells a name such as `workspace_run` or `workspaceRun` as `WorkspaceRun`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name))


class Schemas:
    """Named schemas, each without schemas of objects inside it."""

    def __init__(self, components: dict[str, Schema]) -> None:
        self._components = components
        self._names: dict[str, str] = {}
        self.named: dict[str, Schema] = {}

    def add(self, name: str) -> None:
        """Adds a schema of the document, and those that it refers to."""
        if name in self.named:
            return
        schema = self._components[name]
        self._names[json.dumps(_plain(schema), sort_keys=True)] = name
        self.named[name] = {}
        self.named[name] = self._flat(schema, name, is_named=True)

    def _flat(self, schema: Schema, name: str, *, is_named: bool = False) -> Schema:
        if "$ref" in schema:
            self.add(schema["$ref"].removeprefix(REFERENCE))
            return {"$ref": schema["$ref"]}
        if not is_named and "properties" in schema and schema["properties"]:
            return {"$ref": REFERENCE + self._promote(schema, name)}
        plain = _plain(schema)
        if "properties" in plain:
            inner = {key: self._flat(value, name + pascal(key)) for key, value in plain["properties"].items()}
            plain["properties"] = {f"{key}_" if key in RESERVED else key: value for key, value in inner.items()}
            plain["required"] = [f"{key}_" if key in RESERVED else key for key in plain.get("required", [])]
        if isinstance(plain.get("additionalProperties"), dict):
            plain["additionalProperties"] = self._flat(plain["additionalProperties"], f"{name}Value")
        if "items" in plain:
            plain["items"] = self._flat(plain["items"], re.sub(r"ies$", "y", re.sub(r"(?<!s)s$", "", name)))
        if "anyOf" in plain:
            plain["anyOf"] = [self._flat(each, _variant(each, name)) for each in plain["anyOf"]]
        return plain

    def _promote(self, schema: Schema, name: str) -> str:
        """Names a schema. Schemas that are equal have one name."""
        key = json.dumps(_plain(schema), sort_keys=True)
        if key not in self._names:
            while name in self._components or name in self.named:
                name += "Details"
            self._names[key] = name
            self.named[name] = {}
            self.named[name] = self._flat(schema, name, is_named=True)
        return self._names[key]


def references(value: Any) -> Iterator[str]:
    """Yields the names of all schemas that a part of the document refers to."""
    if isinstance(value, dict):
        if "$ref" in value and value["$ref"].startswith(REFERENCE):
            yield value["$ref"].removeprefix(REFERENCE)
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def _plain(schema: Schema) -> Schema:
    """Returns the schema without what only the service checks."""
    plain = {key: schema[key] for key in KEPT if key in schema}
    for pattern in schema.get("patternProperties", {}).values():
        plain["additionalProperties"] = pattern
    if plain.get("additionalProperties") is False:
        del plain["additionalProperties"]
    if plain.get("type") == "object" and not plain.get("properties") and "additionalProperties" not in plain:
        plain["additionalProperties"] = True
    return plain


def _variant(schema: Schema, union: str) -> str:
    """Names an alternative of a union by the types that it stands for."""
    kind = schema.get("properties", {}).get("type", {})
    names = [kind["const"]] if "const" in kind else kind.get("enum", [])
    if not names:
        return f"{union}Object"
    # `ResourceEvent` with `sandbox.created`, … becomes `SandboxResourceEvent`.
    resources = {name.partition(".")[0] for name in names if "." in name}
    if len(resources) == 1:
        return pascal(resources.pop()) + union
    return f"{union.removesuffix('Event').removesuffix('Stream')}{pascal(names[0])}Event"
