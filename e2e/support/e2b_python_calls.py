"""Calls each public method of E2B's Python clients once, and checks its result."""

import inspect
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

from e2b import CommandExitException, PtySize
from e2b import Template as Builder
from e2b_python_git_calls import GIT_CALLS
from e2b_python_subject import Call, Subject, done

SIZE = PtySize(rows=24, cols=80)


def calling(call: Callable[[Subject], Any], check: Callable[[Any], object] = lambda _result: True) -> Call:
    """Makes a call of one expression, whose result `check` must find true."""

    async def run(subject: Subject) -> None:
        result = await done(call(subject))
        assert check(result), f"not as expected: {result!r}"

    return run


def pausing(pause: Callable[[Subject], Any]) -> Call:
    """Pauses the sandbox, looks at it, and wakes it again."""

    async def run(subject: Subject) -> None:
        await done(pause(subject))
        assert not await done(subject.box.is_running())
        assert (await done(subject.box.get_info())).state.value == "paused"
        await done(subject.box.connect())

    return run


async def create(s: Subject) -> None:
    box = await done(s.sandbox.create(timeout=60))
    assert await done(box.is_running())
    assert await done(box.kill())
    assert not await done(box.is_running())


async def list_sandboxes(s: Subject) -> None:
    assert s.box.sandbox_id in [each.sandbox_id for each in await done(s.sandbox.list().next_items())]


async def set_timeout(s: Subject) -> None:
    before = (await done(s.box.get_info())).end_at
    await done(s.box.set_timeout(900))
    assert (await done(s.box.get_info())).end_at > before


async def download_url(s: Subject) -> None:
    await done(s.box.files.write("/tmp/download", "signed"))
    with urllib.request.urlopen(await done(s.box.download_url("/tmp/download"))) as response:
        assert response.read() == b"signed"


async def upload_url(s: Subject) -> None:
    url, headers = await done(s.box.upload_url("/tmp/signed")), {"content-type": "application/octet-stream"}
    with urllib.request.urlopen(urllib.request.Request(url, b"signed", headers, method="POST")):
        assert await done(s.box.files.read("/tmp/signed")) == "signed"


async def rename(s: Subject) -> None:
    await done(s.box.files.write("/tmp/from", "x"))
    assert (await done(s.box.files.rename("/tmp/from", "/tmp/to"))).path == "/tmp/to"


async def remove(s: Subject) -> None:
    await done(s.box.files.write("/tmp/removed", "x"))
    await done(s.box.files.remove("/tmp/removed"))
    assert not await done(s.box.files.exists("/tmp/removed"))


async def watch_dir(s: Subject) -> None:
    await done(s.box.files.make_dir("/tmp/watched"))
    on_event = [lambda _event: None] if is_async(s) else []
    await done((await done(s.box.files.watch_dir("/tmp/watched", *on_event))).stop())


async def background(s: Subject, line: str) -> Any:
    return await done(s.box.commands.run(line, background=True, stdin=True))


async def list_commands(s: Subject) -> None:
    command = await background(s, "sleep 600")
    assert command.pid in [each.pid for each in await done(s.box.commands.list())]
    assert (await done(s.box.commands.connect(command.pid))).pid == command.pid
    assert await done(s.box.commands.kill(command.pid))
    assert not await done(s.box.commands.kill(command.pid))


async def send_stdin(s: Subject) -> None:
    command = await background(s, 'read -r line; echo "$line"')
    await done(s.box.commands.send_stdin(command.pid, "typed\n"))
    assert (await done(command.wait())).stdout == "typed\n"


def is_async(s: Subject) -> bool:
    return inspect.iscoroutinefunction(s.box.pty.create)


async def stream(s: Subject, owner: Any, pid: int, data: bytes) -> None:
    """Sends input as a stream. The sync client takes all of it, the async one opens the stream."""
    if not is_async(s):
        owner.stream_input(pid, iter([data]))
        return
    opened = await done(owner.stream_input(pid))
    await opened.send(data)
    await opened.close()


async def stream_input(s: Subject) -> None:
    command = await background(s, 'read -r line; echo "$line"')
    await stream(s, s.box.commands, command.pid, b"typed\n")
    assert (await done(command.wait())).stdout == "typed\n"


async def close_stdin(s: Subject) -> None:
    command = await background(s, "cat; echo end")
    await done(s.box.commands.close_stdin(command.pid))
    assert (await done(command.wait())).stdout == "end\n"


def handlers(s: Subject) -> dict[str, Any]:
    """Returns what only the async client is given: where the output of a terminal goes."""
    return {"on_data": lambda _data: None} if is_async(s) else {}


async def terminal(s: Subject) -> Any:
    return await done(s.box.pty.create(SIZE, **handlers(s)))


async def pty_create(s: Subject) -> None:
    opened = await terminal(s)
    assert (await done(s.box.pty.connect(opened.pid, **handlers(s)))).pid == opened.pid
    assert await done(s.box.pty.kill(opened.pid))


async def exits_with(opened: Any, code: int) -> None:
    try:
        await done(opened.wait())
    except CommandExitException as exited:
        assert exited.exit_code == code
    else:
        raise AssertionError("the shell ended with 0")


async def pty_resize(s: Subject) -> None:
    opened = await terminal(s)
    await done(s.box.pty.resize(opened.pid, PtySize(rows=22, cols=77)))
    await done(s.box.pty.send_stdin(opened.pid, b'[ "$(stty size)" = "22 77" ] && exit 4\n'))
    await exits_with(opened, 4)


async def pty_stream_input(s: Subject) -> None:
    opened = await terminal(s)
    await stream(s, s.box.pty, opened.pid, b"exit 5\n")
    await exits_with(opened, 5)


async def new_secret(s: Subject) -> Any:
    return await done(s.secret.create(f"{s.name}_{uuid.uuid4().hex}", "value", metadata={"hosts": "a.example"}))


async def list_secrets(s: Subject) -> None:
    secret = await new_secret(s)
    assert secret.secret_id in [each.secret_id for each in await done(s.secret.list().next_items())]
    assert (await done(s.secret.get_info(secret.secret_id))).name == secret.name
    assert (await done(s.secret.update(secret.name, "other"))).secret_id == secret.secret_id
    assert await done(s.secret.destroy(secret.secret_id))
    assert not await done(s.secret.exists(secret.secret_id))


def from_base() -> Any:
    return Builder().from_template("base")


async def build(s: Subject) -> None:
    await done(s.template.build(from_base().run_cmd("echo built > ~/built"), f"{s.name}-built"))
    assert await done(s.template.exists(f"{s.name}-built"))
    box = await done(s.sandbox.create(f"{s.name}-built", timeout=60))
    assert await done(box.files.read("built")) == "built\n"
    await done(box.kill())


async def get_build_status(s: Subject) -> None:
    built = await done(s.template.build_in_background(from_base(), f"{s.name}-background"))
    assert (await done(s.template.get_build_status(built))).build_id == built.build_id


async def restart_code_context(s: Subject) -> None:
    context = await done(s.box.create_code_context())
    assert context.id in [each.id for each in await done(s.box.list_code_contexts())]
    await done(s.box.run_code("x = 1", context=context))
    await done(s.box.restart_code_context(context))
    assert (await done(s.box.run_code("x", context=context))).error.name == "NameError"
    await done(s.box.remove_code_context(context))


CALLS: dict[str, Call] = {
    "Sandbox.create": create,
    "Sandbox.kill": create,
    "Sandbox.is_running": create,
    "Sandbox.connect": calling(lambda s: s.sandbox.connect(s.box.sandbox_id)),
    "Sandbox.list": list_sandboxes,
    "Sandbox.get_info": calling(lambda s: s.box.get_info(), lambda info: info.state.value == "running"),
    "Sandbox.get_metrics": calling(lambda s: s.box.get_metrics()),
    "Sandbox.get_host": calling(lambda s: s.box.get_host(3000), lambda host: host.startswith("3000-")),
    "Sandbox.set_timeout": set_timeout,
    "Sandbox.download_url": download_url,
    "Sandbox.upload_url": upload_url,
    "Sandbox.pause": pausing(lambda s: s.box.pause()),
    "Sandbox.beta_pause": pausing(lambda s: s.box.beta_pause()),
    "Sandbox.fork": calling(lambda s: s.box.fork()),
    "Sandbox.update_network": calling(lambda s: s.box.update_network({"deny_out": ["0.0.0.0/0"]})),
    "Sandbox.create_snapshot": calling(lambda s: s.box.create_snapshot()),
    "Sandbox.delete_snapshot": calling(lambda s: s.sandbox.delete_snapshot("none"), lambda deleted: not deleted),
    "Sandbox.list_snapshots": calling(lambda s: s.sandbox.list_snapshots().next_items()),
    "Sandbox.run_code": calling(lambda s: s.box.run_code("6 * 7"), lambda run: run.text == "42"),
    "Sandbox.create_code_context": restart_code_context,
    "Sandbox.list_code_contexts": restart_code_context,
    "Sandbox.restart_code_context": restart_code_context,
    "Sandbox.remove_code_context": restart_code_context,
    "files.exists": calling(lambda s: s.box.files.exists("/nothing"), lambda exists: not exists),
    "files.get_info": calling(lambda s: s.box.files.get_info("/etc/passwd"), lambda info: info.owner == "root"),
    "files.list": calling(lambda s: s.box.files.list("/"), lambda names: "tmp" in [each.name for each in names]),
    "files.make_dir": calling(lambda s: s.box.files.make_dir("/tmp/made")),
    "files.read": calling(lambda s: s.box.files.read("/etc/passwd")),
    "files.remove": remove,
    "files.rename": rename,
    "files.watch_dir": watch_dir,
    "files.write": calling(lambda s: s.box.files.write("/tmp/w", "x"), lambda info: info.path == "/tmp/w"),
    "files.write_files": calling(lambda s: s.box.files.write_files([{"path": "/tmp/w1", "data": "x"}])),
    "commands.run": calling(lambda s: s.box.commands.run("echo hi"), lambda result: result.stdout == "hi\n"),
    "commands.list": list_commands,
    "commands.connect": list_commands,
    "commands.kill": list_commands,
    "commands.send_stdin": send_stdin,
    "commands.stream_input": stream_input,
    "commands.close_stdin": close_stdin,
    "pty.create": pty_create,
    "pty.connect": pty_create,
    "pty.kill": pty_create,
    "pty.resize": pty_resize,
    "pty.send_stdin": pty_resize,
    "pty.stream_input": pty_stream_input,
    "Secret.create": new_secret,
    "Secret.list": list_secrets,
    "Secret.get_info": list_secrets,
    "Secret.update": list_secrets,
    "Secret.destroy": list_secrets,
    "Secret.exists": list_secrets,
    "Volume.create": calling(lambda s: s.volume.create("volume")),
    "Volume.connect": calling(lambda s: s.volume.connect("volume")),
    "Volume.get_info": calling(lambda s: s.volume.get_info("volume")),
    "Volume.list": calling(lambda s: s.volume.list()),
    "Volume.destroy": calling(lambda s: s.volume.destroy("volume")),
    "Template.exists": calling(lambda s: s.template.exists("base")),
    "Template.alias_exists": calling(lambda s: s.template.alias_exists("python-node")),
    "Template.build": build,
    "Template.build_in_background": get_build_status,
    "Template.get_build_status": get_build_status,
    "Template.assign_tags": calling(lambda s: s.template.assign_tags("base", "tag")),
    "Template.remove_tags": calling(lambda s: s.template.remove_tags("base", "tag")),
    "Template.get_tags": calling(lambda s: s.template.get_tags("base")),
    "Template.to_json": calling(lambda s: s.template.to_json(from_base()), lambda json: "base" in json),
    "Template.to_dockerfile": calling(
        lambda s: s.template.to_dockerfile(Builder().from_image("debian")), lambda text: "FROM debian" in text
    ),
} | GIT_CALLS
