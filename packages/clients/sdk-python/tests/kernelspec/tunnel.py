"""A port of this machine that leads to a service, and that a test can cut."""

import asyncio
import threading


class Tunnel:
    """Leads to the service at a URL."""

    def __init__(self, url):
        host, port = url.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self._loop = asyncio.new_event_loop()
        self._open = set()
        self._is_cut = False
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._carry, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self):
        """Ends all connections, and refuses further ones."""

        async def cut():
            self._is_cut = True
            for writer in self._open:
                writer.transport.abort()

        self._call(cut())

    def mend(self):
        """Lets connections through again."""
        self._is_cut = False

    def close(self):
        """Closes everything."""
        self.cut()
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _call(self, act):
        return asyncio.run_coroutine_threadsafe(act, self._loop).result()

    async def _carry(self, reader, writer):
        if self._is_cut:
            writer.transport.abort()
            return
        to_service = await asyncio.open_connection(*self._target)
        self._open |= {writer, to_service[1]}
        await asyncio.gather(copy(reader, to_service[1]), copy(to_service[0], writer), return_exceptions=True)
        self._open -= {writer, to_service[1]}


async def copy(reader, writer):
    """Copies until one side has closed."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
