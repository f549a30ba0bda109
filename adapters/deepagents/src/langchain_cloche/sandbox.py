"""The backend of deepagents that uses one sandbox."""

from __future__ import annotations

from cloche import (
    ClocheError,
    ConflictError,
    DiskFullError,
    InvalidRequestError,
    NotFoundError,
    PayloadTooLargeError,
    PermissionDeniedError,
    Sandbox,
)
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

_DEFAULT_TIMEOUT_S = 30 * 60
# The service ends a command after an hour at the latest.
_LONGEST_TIMEOUT_S = 60 * 60
# Exit code of `timeout` of the GNU coreutils.
_TIMED_OUT = 124

# What may be wrong with one file of several, in the words of deepagents. Every other error concerns them all.
_FILE_ERRORS: dict[type[ClocheError], str | None] = {
    NotFoundError: "file_not_found",
    PermissionDeniedError: "permission_denied",
    ConflictError: "is_directory",
    InvalidRequestError: "invalid_path",
    PayloadTooLargeError: None,
    DiskFullError: None,
}


class ClocheSandbox(BaseSandbox):
    r"""
    Runs commands and keeps files in a sandbox, which the caller creates and destroys.

    >>> backend = ClocheSandbox(sandbox=sandbox)
    >>> backend.execute("echo $((6 * 7))").output
    '42\n'
    """

    def __init__(self, *, sandbox: Sandbox, timeout: int = _DEFAULT_TIMEOUT_S) -> None:
        """
        Uses an existing sandbox.

        `timeout`: seconds that a command may take if `execute` gets no limit of its own.
        """
        self._sandbox = sandbox
        self._timeout = timeout

    @property
    def id(self) -> str:
        """Id of the sandbox."""
        return self._sandbox.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """
        Runs a shell command as the sandbox's user in `/workspace`, with both output streams as one.

        `timeout`: seconds; 0 means as long as the service allows, an hour. A command that takes longer is ended with
        all its processes and has the exit code 124.
        """
        seconds = self._timeout if timeout is None else timeout or _LONGEST_TIMEOUT_S
        # One stream keeps the order in which the command has written.
        ended = self._sandbox.commands.run(f"exec 2>&1\n{command}", timeout_ms=seconds * 1000)
        output = ended.stdout or ""
        if ended.status == "timed_out":
            return ExecuteResponse(f"{output}\nThe command was ended after {seconds} seconds.", _TIMED_OUT)
        if ended.status == "failed":
            return ExecuteResponse(f"{output}{ended.stderr or ended.failure_reason}", ended.exit_code)
        return ExecuteResponse(output, ended.exit_code, truncated=ended.truncated is not None)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Creates or replaces files. Creates missing directories. Each file has a response of its own."""
        return [FileUploadResponse(path, self._upload(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads whole files. Each file has a response of its own."""
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self._sandbox.files.write(path, content)
        except tuple(_FILE_ERRORS) as error:
            return _named(error)
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path, error="invalid_path")
        try:
            return FileDownloadResponse(path, self._sandbox.files.read(path))
        except tuple(_FILE_ERRORS) as error:
            return FileDownloadResponse(path, error=_named(error))


def _named(error: ClocheError) -> str:
    return _FILE_ERRORS[type(error)] or str(error)
