"""Templates that sandboxes can be created from, and their builds."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, NamedTuple

from cloche._async.client import AsyncApiClient
from cloche._async.pages import AsyncPage
from cloche._async.streams import stream_resumed
from cloche._core.event_reading import EventReader
from cloche._core.model import decode, part
from cloche._core.options import call_options
from cloche._generated.models import (
    ImageSettings,
    Template,
    TemplateBuild,
    TemplateBuildEvent,
    TemplateBuildLogPage,
    TemplateVersion,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cloche._core.options import CallOptions, PageOptions
    from cloche._generated.bodies import CreateTemplate, RegistryImage, TemplateRecipe, UpdateTemplate

    class CreateTemplateOptions(CreateTemplate, CallOptions):
        """Fields of the new template, and options of the call."""

    class UpdateTemplateOptions(UpdateTemplate, CallOptions):
        """Fields to set, and options of the call."""

    class InspectImageOptions(RegistryImage, CallOptions):
        """An image, and options of the call."""

    class BuildOptions(TemplateRecipe, CallOptions):
        """The recipe, and options of the call."""


_WAIT_MS = 30_000


class TemplateWithBuild(NamedTuple):
    """A template and its build, which has begun."""

    template: Template
    build: TemplateBuild


class AsyncTemplates:
    """The curated templates and those of the organization. `template` is a slug or a `tpl_` id."""

    def __init__(self, client: AsyncApiClient) -> None:
        self._client = client

    async def list(self, **call: Unpack[PageOptions]) -> AsyncPage[Template]:
        """
        Lists templates.

        >>> [template.slug for template in await cloche.templates.list() if template.slug == "python-node"]
        ['python-node']
        """
        return await self._client.page(Template, "listTemplates", **call)

    async def get(self, template: str, **call: Unpack[CallOptions]) -> Template:
        """Returns a template. Raises `NotFoundError`."""
        return await self._client.one(Template, "template", "getTemplate", params={"template": template}, **call)

    async def versions(self, template: str, **call: Unpack[PageOptions]) -> AsyncPage[TemplateVersion]:
        """Lists all versions, newest first."""
        params = {"template": template}
        return await self._client.page(TemplateVersion, "listTemplateVersions", params=params, **call)

    async def create(self, **options: Unpack[CreateTemplateOptions]) -> TemplateWithBuild:
        """
        Creates a template, which can be used when its first build has succeeded: see `wait_for_build`.

        `from_`: what it is made from. `packages`: such as `{"pip": ["jinja2"]}`.

        Raises `ConflictError` if the slug is taken, `QuotaExceededError`.
        """
        body: dict[str, Any] = dict(options)
        call = call_options(body)
        answer = await self._client.call("createTemplate", body=body, **call)
        return TemplateWithBuild(
            decode(Template, part(answer, "template")), decode(TemplateBuild, part(answer, "build"))
        )

    async def update(self, template: str, **options: Unpack[UpdateTemplateOptions]) -> Template:
        """Sets the given fields; `default_version_id` goes back to an earlier version."""
        body: dict[str, Any] = dict(options)
        call = call_options(body)
        params = {"template": template}
        return await self._client.one(Template, "template", "updateTemplate", params=params, body=body, **call)

    async def delete(self, template: str, **call: Unpack[CallOptions]) -> Template:
        """Deletes a template. Raises `ConflictError` while others are made from it."""
        return await self._client.one(Template, "template", "deleteTemplate", params={"template": template}, **call)

    async def build(self, template: str, **options: Unpack[BuildOptions]) -> TemplateBuild:
        """Builds a version of a template from a recipe."""
        body: dict[str, Any] = dict(options)
        call = call_options(body)
        params = {"template": template}
        return await self._client.one(TemplateBuild, "build", "createTemplateBuild", params=params, body=body, **call)

    async def inspect_image(self, **options: Unpack[InspectImageOptions]) -> ImageSettings:
        """Reads the settings of an image from its registry, which takes a sandbox for a few seconds."""
        body: dict[str, Any] = dict(options)
        call = call_options(body)
        return await self._client.one(ImageSettings, "image", "inspectImage", body=body, **call)

    async def builds(self, template: str, **call: Unpack[PageOptions]) -> AsyncPage[TemplateBuild]:
        """Lists the builds of a template, newest first."""
        return await self._client.page(TemplateBuild, "listTemplateBuilds", params={"template": template}, **call)

    async def get_build(
        self, template: str, build_id: str, *, wait_ms: int | None = None, **call: Unpack[CallOptions]
    ) -> TemplateBuild:
        """Returns a build. `wait_ms`: milliseconds to wait for its end, at most a minute, default none."""
        params, query = {"template": template, "buildId": build_id}, {"wait_ms": wait_ms}
        return await self._client.one(TemplateBuild, "build", "getTemplateBuild", params=params, query=query, **call)

    async def wait_for_build(self, build: TemplateBuild, **call: Unpack[CallOptions]) -> TemplateBuild:
        """Waits until a build has ended, however long that takes, and returns it: see its `status` and `error`."""
        while build.finished_at is None:
            build = await self.get_build(build.template_id, build.id, wait_ms=_WAIT_MS, **call)
        return build

    async def build_logs(
        self,
        template: str,
        build_id: str,
        *,
        after_seq: int | None = None,
        limit: int | None = None,
        **call: Unpack[CallOptions],
    ) -> TemplateBuildLogPage:
        """Returns a page of the log, oldest first. Continue with `next_seq` as `after_seq` while `has_more`."""
        params, query = {"template": template, "buildId": build_id}, {"after_seq": after_seq, "limit": limit}
        return await self._client.whole(
            TemplateBuildLogPage, "listTemplateBuildLogs", params=params, query=query, **call
        )

    def follow_build(
        self, template: str, build_id: str, *, after_seq: int = 0, **call: Unpack[CallOptions]
    ) -> AsyncGenerator[TemplateBuildEvent, None]:
        """
        Yields the log so far and the log to come, in order, then `complete` with the ended build. Reconnects where it
        stopped. Leaving the loop does not affect the build.
        """
        return stream_resumed(
            self._client,
            "streamTemplateBuildLogs",
            lambda: EventReader[TemplateBuildEvent](TemplateBuildEvent),
            lambda event: event.data.seq if event.type == "log" else None,
            lambda event: event.type == "complete",
            after_seq=after_seq,
            params={"template": template, "buildId": build_id},
            **call,
        )

    async def cancel_build(self, template: str, build_id: str, **call: Unpack[CallOptions]) -> TemplateBuild:
        """Ends a build and its sandbox. A build that has ended is returned unchanged."""
        params = {"template": template, "buildId": build_id}
        return await self._client.one(TemplateBuild, "build", "cancelTemplateBuild", params=params, **call)
