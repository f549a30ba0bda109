"""What belongs to an organization: projects, API keys, secrets, quotas and usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cloche._core.model import decode, part
from cloche._generated.models import ApiKey, Organization, Project, QuotaUse, Secret, UsageRow
from cloche._sync.client import ApiClient
from cloche._sync.pages import Page

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._core.options import CallOptions, PageOptions
    from cloche._generated.bodies import ProjectQuotas


class Projects:
    """The projects that the key can see."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def create(
        self,
        name: str,
        *,
        metadata: Mapping[str, str] | None = None,
        quotas: ProjectQuotas | None = None,
        **call: Unpack[CallOptions],
    ) -> Project:
        """
        Creates a project. `name`: unique in the organization, whatever its case. `quotas`: one that is left out has no
        limit of the project.

        Raises `ConflictError` if the name is taken, `ForbiddenError` for a key that is bound to projects.
        """
        body = {"name": name, "metadata": metadata, "quotas": quotas}
        return self._client.one(Project, "project", "createProject", body=body, **call)

    def list(self, *, include: Literal["deleted"] | None = None, **call: Unpack[PageOptions]) -> Page[Project]:
        """Lists projects, newest first; with `include="deleted"` also deleted ones."""
        return self._client.page(Project, "listProjects", query={"include": include}, **call)

    def get(self, project_id: str, **call: Unpack[CallOptions]) -> Project:
        """Returns a project, also a deleted one. Raises `NotFoundError`."""
        return self._client.one(Project, "project", "getProject", params={"projectId": project_id}, **call)

    def update(
        self,
        project_id: str,
        *,
        name: str | None = None,
        metadata: Mapping[str, str] | None = None,
        quotas: ProjectQuotas | None = None,
        **call: Unpack[CallOptions],
    ) -> Project:
        """Sets the given fields; `metadata` and `quotas` are replaced whole. Raises `ConflictError`."""
        params, body = {"projectId": project_id}, {"name": name, "metadata": metadata, "quotas": quotas}
        return self._client.one(Project, "project", "updateProject", params=params, body=body, **call)

    def delete(self, project_id: str, **call: Unpack[CallOptions]) -> Project:
        """
        Deletes a project; its artifacts stay readable. Idempotent.

        Raises `ConflictError` for the default project, and while sandboxes live in it.
        """
        return self._client.one(Project, "project", "deleteProject", params={"projectId": project_id}, **call)


class ApiKeyWithSecret(NamedTuple):
    """A key and its secret, which cannot be shown again."""

    api_key: ApiKey
    secret: str


class CurrentApiKey(NamedTuple):
    """The calling key, its organization, and the project that it uses by default."""

    api_key: ApiKey
    organization: Organization
    project: Project


class ApiKeys:
    """The API keys of the organization, as far as the calling key may see them."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        project_ids: Sequence[str] | None = None,
        expires_at: datetime | str | None = None,
        **call: Unpack[CallOptions],
    ) -> ApiKeyWithSecret:
        """
        Creates a key. Only this response has its secret.

        `scopes`: permissions such as `code:run`, `*` for all; the calling key must have each. `project_ids`: the only
        projects that the key may use, default every project. `expires_at`: default never.

        >>> key = cloche.api_keys.create("ci", scopes=["sandbox:create", "code:run"])
        >>> key.secret.startswith("clk_")
        True
        """
        body: dict[str, Any] = {"name": name, "scopes": list(scopes), "expires_at": expires_at}
        body["project_ids"] = None if project_ids is None else list(project_ids)
        return _key_of(self._client.call("createApiKey", body=body, **call))

    def list(self, *, include_revoked: bool = False, **call: Unpack[PageOptions]) -> Page[ApiKey]:
        """Lists keys, newest first; with `include_revoked` also those that were revoked or have expired."""
        query = {"include": "revoked" if include_revoked else None}
        return self._client.page(ApiKey, "listApiKeys", query=query, **call)

    def get(self, api_key_id: str, **call: Unpack[CallOptions]) -> ApiKey:
        """Returns a key. Raises `NotFoundError`."""
        return self._client.one(ApiKey, "apiKey", "getApiKey", params={"apiKeyId": api_key_id}, **call)

    def current(self, **call: Unpack[CallOptions]) -> CurrentApiKey:
        """Returns the calling key. Needs no scope."""
        answer = self._client.call("getCurrentApiKey", **call)
        key = decode(ApiKey, part(answer, "apiKey"))
        return CurrentApiKey(
            key, decode(Organization, part(answer, "organization")), decode(Project, part(answer, "project"))
        )

    def rotate(self, api_key_id: str, *, grace_ms: int | None = None, **call: Unpack[CallOptions]) -> ApiKeyWithSecret:
        """
        Creates a successor with the same name, scopes, projects and expiry. The old key works for `grace_ms`
        milliseconds more, by default a day.
        """
        params, body = {"apiKeyId": api_key_id}, {"grace_ms": grace_ms}
        return _key_of(self._client.call("rotateApiKey", params=params, body=body, **call))

    def revoke(self, api_key_id: str, **call: Unpack[CallOptions]) -> ApiKey:
        """Revokes a key and ends what is open for it. Idempotent."""
        return self._client.one(ApiKey, "apiKey", "revokeApiKey", params={"apiKeyId": api_key_id}, **call)


def _key_of(answer: Any) -> ApiKeyWithSecret:
    return ApiKeyWithSecret(decode(ApiKey, part(answer, "apiKey")), decode(str, part(answer, "secret")))


class Secrets:
    """The secrets that the key can see, without their values."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def create(
        self, name: str, *, value: str, hosts: Sequence[str], project_id: str | None = None, **call: Unpack[CallOptions]
    ) -> Secret:
        """
        Creates a secret. Sandboxes that are created with it send its value to its hosts, and never have it themselves.

        `hosts`: such as `api.example.com` or `*.example.com`. `project_id`: default the default project.

        >>> secret = cloche.secrets.create("payments", value="s3cret", hosts=["api.example.com"])
        >>> sandbox = cloche.sandboxes.create(secrets={"PAYMENTS_API_KEY": secret.id})
        >>> _ = sandbox.kill()
        """
        body = {"name": name, "value": value, "hosts": list(hosts), "project_id": project_id}
        return self._client.one(Secret, "secret", "createSecret", body=body, **call)

    def list(self, *, project_id: str | None = None, **call: Unpack[PageOptions]) -> Page[Secret]:
        """Lists the secrets that are not deleted, newest first."""
        return self._client.page(Secret, "listSecrets", query={"project_id": project_id}, **call)

    def get(self, secret_id: str, **call: Unpack[CallOptions]) -> Secret:
        """Returns a secret. Raises `NotFoundError`."""
        return self._client.one(Secret, "secret", "getSecret", params={"secretId": secret_id}, **call)

    def update(
        self,
        secret_id: str,
        *,
        value: str | None = None,
        hosts: Sequence[str] | None = None,
        **call: Unpack[CallOptions],
    ) -> Secret:
        """Sets the given fields. They are in force for requests that sandboxes begin afterwards."""
        body = {"value": value, "hosts": None if hosts is None else list(hosts)}
        return self._client.one(Secret, "secret", "updateSecret", params={"secretId": secret_id}, body=body, **call)

    def delete(self, secret_id: str, **call: Unpack[CallOptions]) -> Secret:
        """Deletes a secret and its value. Idempotent."""
        return self._client.one(Secret, "secret", "deleteSecret", params={"secretId": secret_id}, **call)


class Quotas:
    """The quotas of the organization and of its projects."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def list(self, *, project_id: str | None = None, **call: Unpack[CallOptions]) -> list[QuotaUse]:
        """
        Lists every quota with its limit (`None`: no limit) and its use: of a project, or of the organization, or of the
        projects that the key is bound to.
        """
        return self._client.many(QuotaUse, "listQuotas", query={"project_id": project_id}, **call)


class Usage:
    """The usage of the projects."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def list(
        self,
        *,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        group_by: Literal["day", "hour"] | None = None,
        project_id: str | None = None,
        **call: Unpack[CallOptions],
    ) -> list[UsageRow]:
        """
        Lists what projects used: one row for each project and each day or hour (UTC) in which it used something, oldest
        first. For the usage of one sandbox, see `sandbox.usage`.

        `from_`: default the beginning of the month (UTC). `to`: default now. Both are widened to whole days or hours.
        """
        query = {"from_": from_, "to": to, "group_by": group_by, "project_id": project_id}
        return self._client.many(UsageRow, "listUsage", query=query, **call)
