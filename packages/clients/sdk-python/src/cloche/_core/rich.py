"""What notebooks show of runs and their outputs."""

from __future__ import annotations

import base64
import binascii
import html
import json
from typing import TYPE_CHECKING, Any

from cloche._core.model import Model

if TYPE_CHECKING:
    from cloche._generated.models import CodeExecutionError, CodeOutput

_BASE64 = frozenset({"png", "jpeg", "gif", "pdf"})
# Images that notebooks embed as base64. They show the others as text.
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif"})


class RichOutput(Model):
    """An output that notebooks show in its own form."""

    if TYPE_CHECKING:
        format: Any
        mime_type: Any
        value: Any

    @property
    def is_binary(self) -> bool:
        """Whether `value` is base64."""
        return self.format in _BASE64

    def data(self) -> bytes:
        """
        Returns the content. Empty if it is stored as an artifact.

        >>> run = sandbox.run("6 * 7")
        >>> run.outputs[0].data()
        b'42'
        """
        value: str = self.value or ""
        try:
            return base64.b64decode(value, validate=True) if self.is_binary else value.encode()
        except binascii.Error:
            return b""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle_of([self])  # pyright: ignore[reportArgumentType]


class RichRun(Model):
    """A result that notebooks show as the cell would: output, the value in its richest form, the error."""

    if TYPE_CHECKING:
        stdout: Any
        stderr: Any
        outputs: Any
        error: Any

    @property
    def text(self) -> str | None:
        """
        The value of the last expression as text; `None` if it has none.

        >>> sandbox.run("'a' * 3").text
        "'aaa'"
        """
        texts = [each.value for each in self.outputs if each.role == "result" and each.format == "text"]
        return texts[-1] if texts else None

    def raise_for_error(self) -> None:
        """Raises `RunFailedError` if the code failed or timed out."""
        if self.error is not None:
            raise RunFailedError(self.error)

    def _repr_html_(self) -> str:
        parts = [_pre(self.stdout), _pre(self.stderr, "background: #fdd; color: #000")]
        last: dict[int, list[CodeOutput]] = {}
        for output in self.outputs:
            last.setdefault(output.bundle, []).append(output)
        parts += [_html_of(forms) for forms in last.values()]
        if self.error is not None:
            text = "\n".join(self.error.traceback or []) or f"{self.error.name}: {self.error.message}"
            parts.append(_pre(text, "background: #fdd; color: #000"))
        return "".join(parts)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundles = {output.bundle for output in self.outputs}
        forms = bundle_of(self.outputs) if len(bundles) == 1 else {}
        error = "" if self.error is None else f"{self.error.name}: {self.error.message}\n"
        forms["text/plain"] = self.stdout + self.stderr + forms.get("text/plain", "") + error
        if self.stdout or self.stderr or error or len(bundles) != 1 or not _is_rich(forms):
            forms["text/html"] = self._repr_html_()
        return forms


class RunFailedError(Exception):
    """The code of a run failed. `error` has its name, message and traceback."""

    error: CodeExecutionError

    def __init__(self, error: CodeExecutionError) -> None:
        super().__init__(f"{error.name}: {error.message}")
        self.error = error


def bundle_of(outputs: list[CodeOutput]) -> dict[str, Any]:
    """Returns the forms of one value by their media types, as notebooks take them."""
    bundle: dict[str, Any] = {}
    for output in outputs:
        if output.value is None or output.format in ("chart", "data"):
            continue
        bundle[output.mime_type] = output.value
        if output.mime_type == "application/json":
            try:
                bundle[output.mime_type] = json.loads(output.value)
            except (ValueError, RecursionError):
                bundle[output.mime_type] = output.value
    return bundle


def _is_rich(forms: dict[str, Any]) -> bool:
    return any(kind != "text/plain" for kind in forms)


def _html_of(forms: list[CodeOutput]) -> str:
    """Returns the richest form of a value."""
    by_type = {form.mime_type: form.value for form in forms if form.value is not None}
    for kind in ("text/html", "image/svg+xml"):
        if kind in by_type:
            return by_type[kind]
    for kind in _IMAGES & by_type.keys():
        return f'<img src="data:{kind};base64,{html.escape(by_type[kind])}">'
    text = by_type.get("text/latex") or by_type.get("text/markdown") or by_type.get("text/plain")
    stored = [f"{form.mime_type}: artifact {form.artifact_id}" for form in forms if form.artifact_id is not None]
    return _pre("\n".join([*([text] if text else []), *stored]))


def _pre(text: str, style: str = "") -> str:
    return f'<pre style="{style}">{html.escape(text)}</pre>' if text else ""
