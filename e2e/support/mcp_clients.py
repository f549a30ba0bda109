"""Uses the Python client of the Model Context Protocol, over HTTP in two revisions and on standard input and output."""

import asyncio
import base64
import json
import os
import unittest
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

URL = os.environ["CLOCHE_URL"]
KEY = os.environ["CLOCHE_API_KEY"]
CLOCHE = json.loads(os.environ["CLOCHE_COMMAND"])
PLOT = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Polls until the condition holds."""
    async with asyncio.timeout(120):
        while not await condition():
            await asyncio.sleep(0.02)


class Host:
    """A host whose client is connected."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def sleeps(self, sandbox_id: str) -> bool:
        found = await self.call("command_run", sandboxId=sandbox_id, command="pgrep -x sleep")
        return found["command"]["exitCode"] == 0

    async def rests(self, sandbox_id: str) -> bool:
        return not await self.sleeps(sandbox_id)

    @asynccontextmanager
    async def sandbox(self) -> AsyncGenerator[str, None]:
        sandbox_id = (await self.call("sandbox_create"))["sandbox"]["id"]
        try:
            yield sandbox_id
        finally:
            await self.call("sandbox_kill", sandboxId=sandbox_id)


class Tools:
    """What a host does with the tools, however it reaches them."""

    revision = "2026-07-28"

    async def test_calls_tools(self) -> None:
        """Calls tools, whose results keep to their schemas."""
        async with self.host() as host, host.sandbox() as sandbox_id:
            self.assertEqual(host.client.protocol_version, self.revision)
            tools = {tool.name for tool in (await host.client.list_tools()).tools}
            self.assertLessEqual({"run_code", "command_run", "file_read", "artifact_export"}, tools)
            await host.call("file_write", sandboxId=sandbox_id, path="a.txt", text="ünï")
            self.assertEqual((await host.call("file_read", sandboxId=sandbox_id, path="a.txt"))["text"], "ünï")
            run = await host.call("run_code", sandboxId=sandbox_id, code="len(open('a.txt').read())")
            self.assertEqual(run["result"], "3")
            refused = await host.client.call_tool("file_read", {"sandboxId": sandbox_id, "path": "none"})
            self.assertTrue(refused.is_error)
            self.assertRegex(refused.content[0].text, "^not_found: ")

    async def test_gets_images(self) -> None:
        """Gets a plot as an image."""
        async with self.host() as host, host.sandbox() as sandbox_id:
            result = await host.client.call_tool("run_code", {"sandboxId": sandbox_id, "code": PLOT})
            [image] = [each for each in result.content if each.type == "image"]
            self.assertEqual((image.mime_type, base64.b64decode(image.data)[1:4]), ("image/png", b"PNG"))

    async def test_gets_progress(self) -> None:
        """Gets the last line of output as progress while a command runs."""
        seen = asyncio.Event()

        async def on_progress(_progress: float, _total: float | None, message: str | None) -> None:
            if message == "begun":
                seen.set()

        async with self.host() as host, host.sandbox() as sandbox_id:
            # The command ends when the file exists, and the file is made when progress has come.
            command = "echo begun; until [ -e go ]; do sleep 0.05; done; echo done"
            arguments = {"sandboxId": sandbox_id, "command": command}
            running = asyncio.create_task(host.client.call_tool("command_run", arguments, None, on_progress))
            async with asyncio.timeout(120):
                await seen.wait()
            await host.call("file_write", sandboxId=sandbox_id, path="go", text="")
            self.assertEqual((await running).structured_content["command"]["stdout"], "begun\ndone\n")

    async def test_cancels(self) -> None:
        """Cancels a command, whose processes then end in the sandbox."""
        async with self.host() as host, host.sandbox() as sandbox_id:
            async with self.host_to_cancel(host) as other:
                arguments = {"sandboxId": sandbox_id, "command": "sleep 600; true", "timeoutMs": 600_000}
                running = asyncio.create_task(other.client.call_tool("command_run", arguments))
                await eventually(lambda: host.sleeps(sandbox_id))
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
            await eventually(lambda: host.rests(sandbox_id))

    @asynccontextmanager
    async def host_to_cancel(self, host: Host) -> AsyncGenerator[Host, None]:
        """Yields the host that cancels its call."""
        yield host


class Http(Tools, unittest.IsolatedAsyncioTestCase):
    """Streamable HTTP in the newest revision."""

    mode = "auto"

    @asynccontextmanager
    async def host(self) -> AsyncGenerator[Host, None]:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=120) as http:
            transport = streamable_http_client(f"{URL}/mcp", http_client=http)
            async with Client(transport, mode=self.mode) as client:
                yield Host(client)


class Sessions:
    """What a host does with the sandbox of its session."""

    async def test_keeps_a_sandbox(self) -> None:
        """Uses one sandbox for all calls that name none, which ends with the session."""
        async with self.host() as host:
            first = await host.call("run_code", code="x = 20; open('a.txt', 'w').write('written')")
            second = await host.call("run_code", code="x * 2 + 2")
            self.assertEqual((second["sandboxId"], second["result"]), (first["sandboxId"], "42"))
            uri = f"cloche://sandbox/{first['sandboxId']}/workspace/a.txt"
            self.assertIn(uri, [str(each.uri) for each in (await host.client.list_resources()).resources])
            self.assertEqual((await host.client.read_resource(uri)).contents[0].text, "written")
        async with self.host() as other:
            found = await other.call("sandbox_get", sandboxId=first["sandboxId"])
            self.assertEqual(found["sandbox"]["status"], "destroyed")


class OlderHttp(Sessions, Http):
    """Streamable HTTP in the revision before it."""

    mode = "legacy"
    revision = "2025-11-25"

    @asynccontextmanager
    async def host_to_cancel(self, host: Host) -> AsyncGenerator[Host, None]:
        """Yields a host of its own, whose end cancels the call."""
        async with self.host() as other:
            yield other


class Stdio(Sessions, Tools, unittest.IsolatedAsyncioTestCase):
    """Standard input and output of `cloche mcp`."""

    @asynccontextmanager
    async def host(self) -> AsyncGenerator[Host, None]:
        env = {"CLOCHE_URL": URL, "CLOCHE_API_KEY": KEY}
        async with Client(StdioServerParameters(command=CLOCHE[0], args=[*CLOCHE[1:], "mcp"], env=env)) as client:
            yield Host(client)


if __name__ == "__main__":
    unittest.main()
