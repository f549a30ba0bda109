"""
The base of all models, and the conversion of responses into models.

Standard dataclasses would compile code for each class, which takes 80 ms at each import.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from cloche._core.errors import UnexpectedResponseError
from cloche._core.names import camel

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_options: Any) -> Callable[[Any], Any]:
        """Returns the class as it is; only type checkers read the options."""
        return lambda kind: kind


T = TypeVar("T")
Converter = Callable[[Any, str], Any]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Model:
    """An immutable object of the service. A field that the response lacks is `None`."""

    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be set: models do not change")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: models do not change")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields that the response had as plain dictionaries and lists, for example for `json.dumps`."""
        return {name: _plain(value) for name, value in self.__dict__.items()}

    def replaced(self, **fields: Any) -> Self:
        """Returns a copy with other values of some fields."""
        return type(self)(**{**self.__dict__, **fields})


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value


def decode(kind: type[T], value: Any) -> T:
    """
    Converts JSON of the service into a model. Fields that the model does not have are dropped, and values of
    enumerations are not checked, because the service may be newer than this package.
    """
    try:
        return cast(T, _converter(kind)(value, kind.__name__))
    except RecursionError as cause:
        raise _unexpected(kind.__name__, "an object of a sane depth") from cause


def decode_any(kind: Any, value: Any) -> Any:
    """Converts JSON into one of the models of a union."""
    return _converter(kind)(value, "event")


def part(answer: Any, name: str) -> Any:
    """Returns a field of a response; `None` if there is none."""
    return cast("dict[str, Any]", answer).get(name) if isinstance(answer, dict) else None


def _unexpected(path: str, wanted: str) -> UnexpectedResponseError:
    return UnexpectedResponseError(
        "unexpected_response", f"The response is not one of Cloche's: {path} is not {wanted}."
    )


@cache
def _converter(kind: Any) -> Converter:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(tuple(each for each in arguments if each is not types.NoneType))
    if origin is list:
        return _list(_converter(arguments[0]))
    if origin is dict:
        return _mapping
    if origin is Literal:
        return _scalar(type(arguments[0]))
    if _is_model(kind):
        return _model(kind)
    return _as_is if kind is Any else _scalar(kind)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Model)


def _as_is(value: Any, path: str) -> Any:
    return value


def _mapping(value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _unexpected(path, "an object")
    return cast("dict[str, Any]", value)


def _scalar(kind: Any) -> Converter:
    accepted = (int, float) if kind is float else kind

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise _unexpected(path, f"of type {kind.__name__}")
        return value

    return convert


def _list(item: Converter) -> Converter:
    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _unexpected(path, "a list")
        return [item(each, f"{path}[{index}]") for index, each in enumerate(cast("list[Any]", value))]

    return convert


def _model(kind: type[Model]) -> Converter:
    hints = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar}
    # The names of the fields in a response, and whether each must be there.
    fields = [(camel(name), name, _converter(hint), not hasattr(kind, name)) for name, hint in hints.items()]
    nullable = {name for name, hint in hints.items() if types.NoneType in get_args(hint)}

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _unexpected(path, "an object")
        given = cast("dict[str, Any]", value)
        found: dict[str, Any] = {}
        for key, name, converter, is_required in fields:
            each = given.get(key)
            if each is not None:
                found[name] = converter(each, f"{path}.{name}")
            elif is_required and key in given and name in nullable:
                found[name] = None
            elif is_required:
                raise _unexpected(path, f'an object with "{key}"')
        return kind(**found)

    return convert


def _union(kinds: tuple[Any, ...]) -> Converter:
    if len(kinds) == 1:
        return _converter(kinds[0])
    tagged: dict[Any, Converter] = {}
    plain: list[Converter] = []
    for kind in kinds:
        tags = get_args(get_type_hints(kind).get("type")) if _is_model(kind) else ()
        for tag in tags:
            tagged[tag] = _converter(kind)
        if not tags:
            plain.append(_converter(kind))

    def convert(value: Any, path: str) -> Any:
        tag: Any = cast("Mapping[str, Any]", value).get("type") if isinstance(value, dict) else None
        if isinstance(tag, str) and tag in tagged:
            return tagged[tag](value, path)
        for converter in plain:
            try:
                return converter(value, path)
            except UnexpectedResponseError:  # noqa: PERF203
                continue
        raise _unexpected(path, "of a known type")

    return convert


def known_types(kind: Any) -> frozenset[str]:
    """Returns the types of events in a union."""
    members = get_args(kind) or (kind,)
    return frozenset(tag for member in members for tag in get_args(get_type_hints(member)["type"]))
