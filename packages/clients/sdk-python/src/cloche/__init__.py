"""
The Python client of Cloche, which runs untrusted code in isolated sandboxes.

>>> with Sandbox.create(ttl_ms=600_000) as sandbox:  # reads CLOCHE_URL and CLOCHE_API_KEY
...     sandbox.run("6 * 7").text
'42'

`Cloche` and `Sandbox` are synchronous, `AsyncCloche` and `AsyncSandbox` asynchronous. Models are in `cloche.models`,
types of request bodies in `cloche.bodies`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cloche._core.errors import (
    AccessError,
    ClocheError,
    DeadlineExceededError,
    InvalidOptionsError,
    LimitError,
    MissingApiKeyError,
    PackingFailedError,
    RequestError,
    ServiceError,
    StateError,
    StreamInterruptedError,
    TransportError,
    UnexpectedResponseError,
    UnreachableError,
)
from cloche._core.rich import RunFailedError
from cloche._generated import errors as _errors
from cloche._generated.errors import *  # noqa: F403
from cloche._generated.version import VERSION as __version__

if TYPE_CHECKING:
    from cloche import bodies, models
    from cloche._async.client import AsyncApiClient
    from cloche._async.cloche import AsyncCloche
    from cloche._async.commands import AsyncCommand
    from cloche._async.contexts import AsyncContext
    from cloche._async.pages import AsyncPage
    from cloche._async.pty import AsyncPty
    from cloche._async.sandbox import AsyncSandbox
    from cloche._async.workspace_runs import AsyncWorkspaceRun
    from cloche._core.preview_link import preview_link
    from cloche._core.webhook_messages import WebhookVerificationError, sign_webhook, verify_webhook
    from cloche._sync.client import ApiClient
    from cloche._sync.cloche import Cloche
    from cloche._sync.commands import Command
    from cloche._sync.contexts import Context
    from cloche._sync.pages import Page
    from cloche._sync.pty import Pty
    from cloche._sync.sandbox import Sandbox
    from cloche._sync.workspace_runs import WorkspaceRun

__all__ = [
    "AccessError",
    "ApiClient",
    "AsyncApiClient",
    "AsyncCloche",
    "AsyncCommand",
    "AsyncContext",
    "AsyncPage",
    "AsyncPty",
    "AsyncSandbox",
    "AsyncWorkspaceRun",
    "Cloche",
    "ClocheError",
    "Command",
    "Context",
    "DeadlineExceededError",
    "InvalidOptionsError",
    "LimitError",
    "MissingApiKeyError",
    "PackingFailedError",
    "Page",
    "Pty",
    "RequestError",
    "RunFailedError",
    "Sandbox",
    "ServiceError",
    "StateError",
    "StreamInterruptedError",
    "TransportError",
    "UnexpectedResponseError",
    "UnreachableError",
    "WebhookVerificationError",
    "WorkspaceRun",
    "__version__",
    "bodies",
    "models",
    "preview_link",
    "sign_webhook",
    "verify_webhook",
]
# A class for each code of the error catalogue.
__all__ += _errors.__all__

# Names that are imported when they are first used, each with its module, so that a program loads only its own client.
_LATER = {
    **dict.fromkeys(("AsyncApiClient",), "cloche._async.client"),
    **dict.fromkeys(("ApiClient",), "cloche._sync.client"),
    **dict.fromkeys(("preview_link",), "cloche._core.preview_link"),
    **dict.fromkeys(("WebhookVerificationError", "sign_webhook", "verify_webhook"), "cloche._core.webhook_messages"),
    **{
        f"{prefix}{name}": f"cloche.{package}.{module}"
        for prefix, package in (("", "_sync"), ("Async", "_async"))
        for name, module in {
            "Cloche": "cloche",
            "Command": "commands",
            "Context": "contexts",
            "Page": "pages",
            "Pty": "pty",
            "Sandbox": "sandbox",
            "WorkspaceRun": "workspace_runs",
        }.items()
    },
}


def __getattr__(name: str) -> Any:
    if name in ("bodies", "models"):
        return importlib.import_module(f"cloche.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
