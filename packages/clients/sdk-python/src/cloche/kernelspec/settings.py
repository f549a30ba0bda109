"""Where the service is, and the key: from the environment, or from the file that `cloche login` writes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

from cloche._core.options import ClientOptions, resolve_options


def read_settings() -> ClientOptions:
    """Returns the address and the key, which are never stored in a kernel spec."""
    stored = _stored()
    given = {
        "url": os.environ.get("CLOCHE_URL") or stored.get("url"),
        "api_key": os.environ.get("CLOCHE_API_KEY") or stored.get("apiKey"),
    }
    return resolve_options(given)


def _stored() -> dict[str, Any]:
    """Returns nothing if the file is missing or unusable, because the environment suffices."""
    try:
        content = json.loads((Path.home() / ".config/cloche/config.json").read_text())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}
