"""What the standard tests leave open, with a real sandbox."""

from collections.abc import Iterator

import pytest
from cloche import Sandbox, SandboxDestroyedError
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from langchain_cloche import ClocheSandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.create() as sandbox:
        yield sandbox


def test_command_has_both_streams_in_order_and_its_exit_code(sandbox: Sandbox) -> None:
    backend = ClocheSandbox(sandbox=sandbox)
    response = backend.execute("echo one; echo two >&2; echo three; exit 7")
    assert (response.output, response.exit_code, response.truncated) == ("one\ntwo\nthree\n", 7, False)
    assert backend.id == sandbox.id


def test_command_that_takes_too_long_is_ended(sandbox: Sandbox) -> None:
    response = ClocheSandbox(sandbox=sandbox).execute("echo begun; sleep 600", timeout=1)
    assert response.exit_code == 124
    assert response.output.endswith("\nThe command was ended after 1 seconds.")


def test_destroyed_sandbox_raises_instead_of_answering_for_each_file(sandbox: Sandbox) -> None:
    backend = ClocheSandbox(sandbox=sandbox)
    sandbox.kill()
    with pytest.raises(SandboxDestroyedError):
        backend.download_files(["/workspace/a"])


def test_files_are_found_by_pattern_with_absolute_paths(sandbox: Sandbox) -> None:
    backend = ClocheSandbox(sandbox=sandbox)
    for path in ("found/a.txt", "found/10.txt", "found/deep/b.py"):
        backend.write(f"/workspace/{path}", "content")

    def matches(pattern: str) -> set[str]:
        return {match["path"] for match in backend.glob(pattern, path="/workspace/found").matches or []}

    assert matches("?.txt") == {"/workspace/found/a.txt"}
    assert matches("[!a]*.txt") == {"/workspace/found/10.txt"}
    assert matches("**/*.py") == {"/workspace/found/deep/b.py"}


def test_write_replaces_a_file(sandbox: Sandbox) -> None:
    backend = ClocheSandbox(sandbox=sandbox)
    for content in ("first", "second"):
        assert backend.write("/workspace/a.txt", content).error is None
    assert sandbox.files.read_text("a.txt") == "second"


class ScriptedModel(GenericFakeChatModel):
    """A chat model whose answers are given in advance."""

    def bind_tools(self, *_args: object, **_options: object) -> "ScriptedModel":
        return self


def test_agent_runs_commands_in_the_sandbox(sandbox: Sandbox) -> None:
    call = {"name": "execute", "args": {"command": "echo $((6 * 7)) | tee /tmp/answer"}, "id": "call-1"}
    model = ScriptedModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
    agent = create_deep_agent(model=model, backend=ClocheSandbox(sandbox=sandbox))
    messages = agent.invoke({"messages": [{"role": "user", "content": "What is six times seven?"}]})["messages"]
    assert any("42" in message.text for message in messages if message.type == "tool")
    assert sandbox.files.read_text("/tmp/answer") == "42\n"
