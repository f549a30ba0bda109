"""The kernel gateway of Cloche, as the processes of kernels use it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from cloche._core.options import ClientOptions
from cloche.kernelspec.wire import SUBPROTOCOL

_OPEN_SECONDS = 10
_REFUSALS = (401, 403, 404)


class GatewayError(Exception):
    """The gateway did not do what it was asked for."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_final(self) -> bool:
        """Whether the same request will fail again: the kernel has ended, or the key has."""
        return self.status in _REFUSALS


class Gateway:
    """Requests of one key to the gateway."""

    def __init__(self, options: ClientOptions) -> None:
        self._url = f"{options.url}/jupyter"
        self._headers = {"Authorization": f"token {options.api_key}"}

    async def kernel_specs(self) -> dict[str, Any]:
        """Returns the kernel specs by their names."""
        return (await self._request("GET", "/api/kernelspecs")).json()["kernelspecs"]

    async def logo(self, name: str) -> bytes:
        """Returns the logo of a kernel spec, which is SVG."""
        return (await self._request("GET", f"/kernelspecs/{quote(name)}/logo-svg.svg")).content

    async def start(self, name: str) -> str:
        """Starts a kernel, and returns its id."""
        return (await self._request("POST", "/api/kernels", {"name": name})).json()["id"]

    async def restart(self, kernel_id: str) -> None:
        """Restarts a kernel. Files of its sandbox stay."""
        await self._request("POST", f"/api/kernels/{quote(kernel_id)}/restart")

    async def shut_down(self, kernel_id: str) -> None:
        """Ends a kernel with its sandbox."""
        await self._request("DELETE", f"/api/kernels/{quote(kernel_id)}")

    async def open_channels(self, kernel_id: str, session: str) -> ClientConnection:
        """Opens the WebSocket of a kernel. A session that comes back gets what it missed."""
        url = f"{self._url.replace('http', 'ws', 1)}/api/kernels/{quote(kernel_id)}/channels?session_id={session}"
        try:
            return await connect(
                url,
                additional_headers=self._headers,
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                max_size=None,
                compression=None,
                open_timeout=_OPEN_SECONDS,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            raise GatewayError(f"The gateway refuses the connection with status {status}.", status) from error
        # Not an HTTP response, an address that does not resolve, a time limit, a certificate: all may pass.
        except Exception as error:
            raise GatewayError(f"{self._url} does not answer: {error}") from error

    async def _request(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            async with httpx.AsyncClient(headers=self._headers, timeout=60) as client:
                response = await client.request(method, self._url + path, json=body)
        except httpx.HTTPError as error:
            raise GatewayError(f"{self._url} does not answer: {error}") from error
        if response.is_success:
            return response
        raise GatewayError(f"{method} {self._url}{path}: {_message_of(response)}", response.status_code)


def _message_of(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"
