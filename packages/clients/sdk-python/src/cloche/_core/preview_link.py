"""URLs of previews for browsers."""

from __future__ import annotations

from cloche._generated.models import Preview


def preview_link(preview: Preview) -> str:
    """Returns the URL that opens a preview in a browser. That of a private one includes its token."""
    return f"{preview.url}/" + ("" if preview.access_token is None else f"?cloche_token={preview.access_token}")
