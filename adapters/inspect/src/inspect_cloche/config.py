"""The configuration of a task's sandboxes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ClocheConfig(BaseModel):
    """Fields of the sandboxes of a task: `SandboxEnvironmentSpec("cloche", ClocheConfig(template="my-tools"))`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str | None = None
    """Slug or id of the template. Default: that of the service."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of all processes."""
    network_policy: dict[str, Any] | None = None
    """Network policy, for example `{"mode": "deny-all"}`. Default: that of the service."""
    resources: dict[str, Any] | None = None
    """Limits of memory, processors, disk and processes. Default: those of the service."""
    lifetime_hours: float = Field(default=6, gt=0, le=24)
    """Hours after which the sandbox ends, also if the evaluation has been killed."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    def fields(self) -> dict[str, Any]:
        """Returns the fields for the creation of a sandbox."""
        return self.model_dump(include={"template", "env", "network_policy", "resources"}, exclude_none=True)
