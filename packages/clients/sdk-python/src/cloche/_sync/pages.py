"""Pages of lists."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from cloche._sync.runtime import Result

T = TypeVar("T")


class Page(list[T]):
    """
    The page of a list that was requested with `limit`, or the whole list: a `list` that says whether more follows.

    >>> page = cloche.templates.list(limit=1)
    >>> len(page), page.has_more == (page.next_cursor is not None)
    (1, True)
    """

    has_more: bool
    """Whether the list goes on after this page."""
    next_cursor: str | None
    """`cursor` of the next page."""

    def __init__(self, entries: Iterable[T], next_cursor: str | None, read: Callable[[str], Result[Any]]) -> None:
        super().__init__(entries)
        self.has_more = next_cursor is not None
        self.next_cursor = next_cursor
        self._read = read

    def __reduce__(self) -> Any:
        # Copies and pickles are plain lists, because a client cannot be pickled.
        return list, (list(self),)

    def auto_paging_iter(self) -> Generator[T, None]:
        """
        Yields the entries of this page and of those after it, which it requests one at a time.

        >>> "python-node" in [each.slug for each in (cloche.templates.list(limit=1)).auto_paging_iter()]
        True
        """
        page: Page[T] = self
        while True:
            for entry in page:
                yield entry
            if page.next_cursor is None:
                return
            page = page._read(page.next_cursor)
