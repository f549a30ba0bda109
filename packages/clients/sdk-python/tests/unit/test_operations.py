"""Every operation of the contract has a method. A server answers with the least that the document allows."""

import json
import re
import unittest
from collections.abc import Callable
from typing import Any

import httpx

from cloche import Cloche, InvalidOptionsError
from cloche._core.model import decode, known_types
from cloche._generated import models
from cloche._generated.operations import OPERATIONS

# Aliases that callers of new programs need not know. `cloche.call` reaches them.
DEPRECATED = {"extendSandbox", "runCommand", "startCommand"}
# What every union and model of a response can be made from.
TEXT = "x"


def example(kind: Any) -> Any:
    """Returns JSON with only the required fields of a model."""
    import types
    from typing import Literal, Union, get_args, get_origin, get_type_hints

    from cloche._core.names import camel

    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return example(arguments[0])
    if origin is list:
        return [example(arguments[0])]
    if origin is dict:
        return {}
    if origin is Literal:
        return arguments[0]
    if isinstance(kind, type) and issubclass(kind, models.Sandbox.__mro__[1]):
        hints = {name: hint for name, hint in get_type_hints(kind).items() if not name.startswith("__")}
        return {camel(name): example(hint) for name, hint in hints.items() if not hasattr(kind, name)}
    return {int: 1, float: 1, str: TEXT, bool: True}.get(kind)


SINGLE = {
    "sandbox": models.Sandbox,
    "context": models.CodeContext,
    "run": models.CodeRun,
    "command": models.Command,
    "file": models.FileEntry,
    "artifact": models.Artifact,
    "preview": models.Preview,
    "template": models.Template,
    "build": models.TemplateBuild,
    "apiKey": models.ApiKey,
    "organization": models.Organization,
    "project": models.Project,
    "secret": models.Secret,
    "webhook": models.Webhook,
    "delivery": models.WebhookDelivery,
    "workspaceRun": models.WorkspaceRun,
    "transfer": models.ArchiveTransfer,
    "download": models.ArtifactDownloadUrl,
    "metrics": models.SandboxMetrics,
    "usage": models.SandboxUsage,
    "image": models.ImageSettings,
}
EVENTS = {
    "streamCode": ("complete", models.CodeRunCompleteEvent),
    "streamCommand": ("exit", models.CommandExitEvent),
    "watchFiles": ("complete", models.FileCompleteEvent),
    "streamTemplateBuildLogs": ("complete", models.TemplateBuildCompleteEvent),
    "streamEvents": ("sandbox.created", models.SandboxResourceEvent),
    "streamWorkspaceRunEvents": ("exit", models.WorkspaceRunExitEvent),
}
BODY: dict[str, Any] = {name: example(kind) for name, kind in SINGLE.items()}
BODY |= {"data": [], "hasMore": False, "nextSeq": 1, "created": True}


class Recorder:
    """Answers every request, and keeps which operations it has seen."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        operation = next(each for each in OPERATIONS.values() if self._matches(each, request))
        self.seen.add(operation.id)
        if operation.kind == "events":
            kind, model = EVENTS[operation.id]
            data = json.dumps(example(model) | {"type": kind})
            return httpx.Response(
                200, text=f"event: {kind}\ndata: {data}\n\n", headers={"content-type": "text/event-stream"}
            )
        if operation.kind == "bytes":
            return httpx.Response(200, content=b"bytes")
        body = BODY
        if operation.id in ("createSecret", "getSecret", "updateSecret", "deleteSecret"):
            body = {"secret": BODY["secret"]}
        elif "Key" in operation.id or "Webhook" in operation.id:
            body = BODY | {"secret": "whsec_x"}
        return httpx.Response(200, json=body)

    @staticmethod
    def _matches(operation: Any, request: httpx.Request) -> bool:
        pattern = re.sub(r"\{\w+\}", "[^/]+", operation.path)
        # `current` is no id of a key.
        fixed = next((e for e in OPERATIONS.values() if (e.path, e.method) == (request.url.path, request.method)), None)
        matches = request.method == operation.method and re.fullmatch(pattern, request.url.path) is not None
        return matches and (fixed is None or fixed.id == operation.id)


def calls(client: Cloche) -> list[Callable[[], Any]]:
    """Returns a call for each operation but those of terminals."""
    sandbox = client.sandboxes.get("sbx_1")
    context, command = sandbox.contexts.get("cctx_1"), sandbox.commands.get("cmd_1")
    run, files, templates = client.workspace_runs.get("wrun_1"), sandbox.files, client.templates

    def read(stream: Any) -> None:
        with stream as opened:
            opened.read()

    return [
        lambda: client.sandboxes.create(env={"A": "b"}),
        lambda: client.sandboxes.list(status="ready"),
        lambda: (client.sandboxes.get_or_create("web"), client.sandboxes.get_by_name("web")),
        lambda: client.sandboxes.metrics(),
        lambda: (
            sandbox.set_ttl(1),
            sandbox.update(name="", pause={"after_idle_ms": None, "wake": "traffic"}),
            sandbox.pause(),
            sandbox.resume(),
            sandbox.kill(),
            sandbox.metrics(),
            sandbox.usage(),
        ),
        lambda: (sandbox.run("1"), list(sandbox.stream("1"))),
        lambda: (sandbox.contexts.create(), sandbox.contexts.list()),
        lambda: (context.interrupt(), context.restart(), context.delete()),
        lambda: (sandbox.commands.run("ls"), sandbox.commands.list()),
        lambda: (
            command.kill(),
            command.resize(80, 24),
            command.send_stdin("a"),
            command.list_logs(),
            list(command.events()),
        ),
        lambda: (files.write("a", b""), files.list(), files.stat("a"), files.make_directory("d"), files.read("a")),
        lambda: (files.move("a", "b"), files.copy("a", "b"), files.remove("a"), files.unpack("d", b"")),
        lambda: (read(files.archive("d")), list(files.watch("d"))),
        lambda: (sandbox.artifacts.export("a"), client.artifacts.list(), client.artifacts.get("art_1")),
        lambda: (read(client.artifacts.download("art_1")), client.artifacts.download_url("art_1")),
        lambda: client.artifacts.delete("art_1"),
        lambda: (sandbox.previews.open(80), sandbox.previews.list(), sandbox.previews.close("prv_1")),
        lambda: (client.previews.list(), client.previews.get("prv_1")),
        lambda: (templates.create(slug="a", from_="b"), templates.list(), templates.get("a"), templates.versions("a")),
        lambda: (templates.update("a", description="b"), templates.build("a", from_="b"), templates.builds("a")),
        lambda: (templates.get_build("a", "b"), templates.build_logs("a", "b"), list(templates.follow_build("a", "b"))),
        lambda: (templates.cancel_build("a", "b"), templates.delete("a"), templates.inspect_image(image="a")),
        lambda: (client.api_keys.create("a", scopes=["*"]), client.api_keys.list(), client.api_keys.get("key_1")),
        lambda: (client.api_keys.current(), client.api_keys.rotate("key_1"), client.api_keys.revoke("key_1")),
        lambda: (client.projects.create("a"), client.projects.list(), client.projects.get("prj_1")),
        lambda: (client.projects.update("prj_1", name="b"), client.projects.delete("prj_1")),
        lambda: (client.quotas.list(), client.usage.list(group_by="hour")),
        lambda: (
            client.secrets.create("a", value="b", hosts=["c"]),
            client.secrets.list(),
            client.secrets.get("sec_1"),
        ),
        lambda: (client.secrets.update("sec_1", value="c"), client.secrets.delete("sec_1")),
        lambda: (client.events.list(), next(client.events.stream()), client.events.last_seq()),
        lambda: (client.audit_events.list(), list(client.audit_events.all())),
        lambda: (client.webhooks.create("https://a", events=["*"]), client.webhooks.list(), client.webhooks.get("w")),
        lambda: (client.webhooks.update("w", enabled=True), client.webhooks.delete("w"), client.webhooks.test("w")),
        lambda: (
            client.webhooks.rotate_secret("w"),
            client.webhooks.list_deliveries("w"),
            client.webhooks.resend("w", "d"),
        ),
        lambda: (client.workspace_runs.create(command="ls"), client.workspace_runs.list(), run.cancel()),
        lambda: (run.upload_archive(b"", format="tar"), run.start(), run.list_events(), list(run.events())),
    ]


class Operations(unittest.TestCase):
    def test_have_a_method_each_and_their_least_response_becomes_a_model(self):
        recorder = Recorder()
        with Cloche(url="http://cloche.test", api_key="k", transport=httpx.MockTransport(recorder)) as client:
            for call in calls(client):
                call()
            # Its upload is part of a call of a run.
            client.call("createArchiveTransfer", params={"workspaceRunId": "w"}, body={"size_bytes": 1})
            client.call("finalizeArchive", params={"workspaceRunId": "w"})
        sockets = {each.id for each in OPERATIONS.values() if each.kind == "socket"}
        self.assertEqual(sockets, {"openPty"})
        self.assertEqual(set(OPERATIONS) - recorder.seen, DEPRECATED | sockets)

    def test_are_not_called_with_an_id_that_names_another_resource(self):
        with Cloche(url="http://cloche.test", api_key="k", transport=httpx.MockTransport(Recorder())) as client:
            for wrong in ("", ".", ".."):
                with self.assertRaises(InvalidOptionsError):
                    client.sandboxes.get(wrong)

    def test_with_streams_know_every_type_of_event(self):
        self.assertEqual(known_types(models.CodeRunEvent), {"stdout", "stderr", "output", "error", "complete"})
        self.assertIn("quota.exceeded", known_types(models.ResourceEvent))

    def test_have_models_of_every_kind_of_event(self):
        for union in (models.CodeRunEvent, models.CommandEvent, models.FileEvent, models.TemplateBuildEvent):
            for member in union.__args__:
                self.assertEqual(decode(member, example(member)).type, example(member)["type"])
