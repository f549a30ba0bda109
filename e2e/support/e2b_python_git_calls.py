"""Calls each git method of E2B's Python clients once. The remote repositories are folders in the sandbox."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from e2b_python_subject import Call, Subject, done

#: Repositories by the name of their client.
FIRST: dict[str, str] = {}


async def repository(subject: Subject) -> str:
    """Copies the first repository of a client, and its remote one, for one call."""
    first = FIRST.get(subject.name) or await make_repository(subject)
    FIRST[subject.name], path = first, f"/tmp/{uuid.uuid4()}"
    copies = f"cp -r {first} {path} && cp -r {first}.git {path}.git"
    await done(subject.box.commands.run(f"{copies} && git -C {path} remote set-url origin file://{path}.git"))
    return path


async def make_repository(subject: Subject) -> str:
    """Makes a repository with one commit, whose remote is a folder."""
    git, path = subject.box.git, f"/tmp/{uuid.uuid4()}"
    await done(git.init(f"{path}.git", bare=True))
    await done(git.init(path, initial_branch="main"))
    await done(git.configure_user("Ada", "ada@example.com", scope="local", path=path))
    await done(subject.box.files.write(f"{path}/file", "first"))
    await done(git.add(path))
    await done(git.commit(path, "First"))
    await done(git.remote_add(path, "origin", f"file://{path}.git"))
    return path


def in_repository(call: Callable[[Any, str, Subject], Awaitable[None]]) -> Call:
    """Gives a call a repository of its own."""

    async def run(subject: Subject) -> None:
        await call(subject.box.git, await repository(subject), subject)

    return run


async def init(git: Any, path: str, _subject: Subject) -> None:
    assert (await done(git.status(path))).is_clean


async def add(git: Any, path: str, subject: Subject) -> None:
    await done(subject.box.files.write(f"{path}/other", "x"))
    await done(git.add(path, files=["other"]))
    assert (await done(git.status(path))).has_staged


async def commit(_git: Any, path: str, subject: Subject) -> None:
    assert "First" in (await done(subject.box.commands.run(f"git -C {path} log --oneline"))).stdout


async def status(git: Any, path: str, _subject: Subject) -> None:
    assert (await done(git.status(path))).current_branch == "main"


async def branches(git: Any, path: str, _subject: Subject) -> None:
    assert (await done(git.branches(path))).branches == ["main"]


async def create_branch(git: Any, path: str, _subject: Subject) -> None:
    await done(git.create_branch(path, "topic"))
    assert (await done(git.branches(path))).current_branch == "topic"


async def checkout_branch(git: Any, path: str, subject: Subject) -> None:
    await create_branch(git, path, subject)
    await done(git.checkout_branch(path, "main"))
    assert (await done(git.branches(path))).current_branch == "main"


async def delete_branch(git: Any, path: str, subject: Subject) -> None:
    await checkout_branch(git, path, subject)
    await done(git.delete_branch(path, "topic"))
    assert (await done(git.branches(path))).branches == ["main"]


async def remote_add(git: Any, path: str, _subject: Subject) -> None:
    await done(git.remote_add(path, "other", "file:///tmp/other.git"))
    assert await done(git.remote_get(path, "other")) == "file:///tmp/other.git"


async def push(git: Any, path: str, subject: Subject) -> None:
    await done(git.push(path, remote="origin", branch="main"))
    assert "First" in (await done(subject.box.commands.run(f"git -C {path}.git log main --oneline"))).stdout


async def pull(git: Any, path: str, subject: Subject) -> None:
    await push(git, path, subject)
    assert (await done(git.pull(path, remote="origin", branch="main"))).exit_code == 0


async def clone(git: Any, path: str, subject: Subject) -> None:
    await push(git, path, subject)
    await done(git.clone(f"file://{path}.git", path=f"{path}-clone", branch="main"))
    assert await done(subject.box.files.read(f"{path}-clone/file")) == "first"


async def reset(git: Any, path: str, subject: Subject) -> None:
    await done(subject.box.files.write(f"{path}/file", "second"))
    await done(git.reset(path, mode="hard"))
    assert await done(subject.box.files.read(f"{path}/file")) == "first"


async def restore(git: Any, path: str, subject: Subject) -> None:
    await done(subject.box.files.write(f"{path}/file", "second"))
    await done(git.restore(path, paths=["file"]))
    assert await done(subject.box.files.read(f"{path}/file")) == "first"


async def set_config(git: Any, path: str, _subject: Subject) -> None:
    await done(git.set_config("core.editor", "true", scope="local", path=path))
    assert await done(git.get_config("core.editor", scope="local", path=path)) == "true"


async def get_config(git: Any, path: str, _subject: Subject) -> None:
    assert await done(git.get_config("user.name", scope="local", path=path)) == "Ada"


async def configure_user(git: Any, path: str, _subject: Subject) -> None:
    assert await done(git.get_config("user.email", scope="local", path=path)) == "ada@example.com"


async def dangerously_authenticate(git: Any, _path: str, subject: Subject) -> None:
    await done(git.dangerously_authenticate(username="ada", password="secret", host="git.example.com"))
    assert "git.example.com" in (await done(subject.box.commands.run("cat ~/.git-credentials"))).stdout


GIT_CALLS: dict[str, Call] = {
    f"git.{call.__name__}": in_repository(call)
    for call in [
        init,
        add,
        commit,
        status,
        branches,
        create_branch,
        checkout_branch,
        delete_branch,
        remote_add,
        push,
        pull,
        clone,
        reset,
        restore,
        set_config,
        get_config,
        configure_user,
        dangerously_authenticate,
    ]
} | {"git.remote_get": in_repository(remote_add)}
