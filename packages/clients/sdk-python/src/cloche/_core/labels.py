"""Filters by labels."""

from __future__ import annotations

from collections.abc import Mapping


def label_query(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the query parameters that ask for labels."""
    return {f"metadata.{key}": value for key, value in (metadata or {}).items()}
