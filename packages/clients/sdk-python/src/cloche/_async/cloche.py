"""The client of one service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloche._async.artifacts import AsyncArtifacts
from cloche._async.client import AsyncApiClient
from cloche._async.events import AsyncAuditEvents, AsyncEvents
from cloche._async.organization import AsyncApiKeys, AsyncProjects, AsyncQuotas, AsyncSecrets, AsyncUsage
from cloche._async.previews import AsyncAllPreviews
from cloche._async.sandboxes import AsyncSandboxes
from cloche._async.templates import AsyncTemplates
from cloche._async.webhooks import AsyncWebhooks
from cloche._async.workspace_runs import AsyncWorkspaceRuns

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._async.client import ClientOptions


class AsyncCloche(AsyncApiClient):
    r"""
    An asynchronous client of one Cloche service.

    >>> async with AsyncCloche() as cloche:  # reads CLOCHE_URL and CLOCHE_API_KEY
    ...     async with cloche.sandboxes.create(ttl_ms=600_000) as sandbox:
    ...         run = await sandbox.run("print(6 * 7)")
    >>> run.stdout
    '42\n'
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        """Takes the address and the key of the service. Raises `MissingApiKeyError`, `InvalidOptionsError`."""
        super().__init__(**options)
        self.sandboxes = AsyncSandboxes(self)
        self.workspace_runs = AsyncWorkspaceRuns(self)
        self.artifacts = AsyncArtifacts(self)
        self.previews = AsyncAllPreviews(self)
        self.audit_events = AsyncAuditEvents(self)
        self.events = AsyncEvents(self)
        self.webhooks = AsyncWebhooks(self)
        self.secrets = AsyncSecrets(self)
        self.api_keys = AsyncApiKeys(self)
        self.templates = AsyncTemplates(self)
        self.projects = AsyncProjects(self)
        self.quotas = AsyncQuotas(self)
        self.usage = AsyncUsage(self)
