"""The client of one service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloche._sync.artifacts import Artifacts
from cloche._sync.client import ApiClient
from cloche._sync.events import AuditEvents, Events
from cloche._sync.organization import ApiKeys, Projects, Quotas, Secrets, Usage
from cloche._sync.previews import AllPreviews
from cloche._sync.sandboxes import Sandboxes
from cloche._sync.templates import Templates
from cloche._sync.webhooks import Webhooks
from cloche._sync.workspace_runs import WorkspaceRuns

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._sync.client import ClientOptions


class Cloche(ApiClient):
    r"""
    An synchronous client of one Cloche service.

    >>> with Cloche() as cloche:  # reads CLOCHE_URL and CLOCHE_API_KEY
    ...     with cloche.sandboxes.create(ttl_ms=600_000) as sandbox:
    ...         run = sandbox.run("print(6 * 7)")
    >>> run.stdout
    '42\n'
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        """Takes the address and the key of the service. Raises `MissingApiKeyError`, `InvalidOptionsError`."""
        super().__init__(**options)
        self.sandboxes = Sandboxes(self)
        self.workspace_runs = WorkspaceRuns(self)
        self.artifacts = Artifacts(self)
        self.previews = AllPreviews(self)
        self.audit_events = AuditEvents(self)
        self.events = Events(self)
        self.webhooks = Webhooks(self)
        self.secrets = Secrets(self)
        self.api_keys = ApiKeys(self)
        self.templates = Templates(self)
        self.projects = Projects(self)
        self.quotas = Quotas(self)
        self.usage = Usage(self)
