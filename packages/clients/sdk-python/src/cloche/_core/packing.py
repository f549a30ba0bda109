"""Packs a directory as a tar, without what its `.gitignore` and `.clocheignore` files leave out."""

from __future__ import annotations

import gzip
import hashlib
import os
import posixpath
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

from pathspec import GitIgnoreSpec

from cloche._core.failures import error_of
from cloche._generated.operations import WORKSPACE_ARCHIVE_ENTRIES, WORKSPACE_ARCHIVE_TRANSFER_BYTES

_IGNORE_FILES = (".gitignore", ".clocheignore")
_MAX_IGNORE_FILE_BYTES = 1024 * 1024
_MAX_PROBLEMS = 10
# What is kept in memory before a temporary file is used.
_MEMORY_BYTES = 8 * 1024 * 1024
_REMEDY = "list what the command does not need in .clocheignore"


@dataclass(frozen=True)
class PackedArchive:
    """An archive in a temporary file, which is deleted when it is closed."""

    file: IO[bytes]
    format: Literal["tar", "tar.gz"]
    size_bytes: int
    sha256: str

    def close(self) -> None:
        """Deletes the file."""
        self.file.close()


@dataclass(frozen=True)
class _Rules:
    """The rules of the files of one kind, each with the folder that it is in. Later ones have precedence."""

    git: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    cloche: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    def within(self, top: bytes, folder: str) -> _Rules:
        """Returns these rules with those of a folder below."""
        git, cloche = (_read_rules(top, folder, name) for name in _IGNORE_FILES)
        return _Rules(self.git + git, self.cloche + cloche)

    def leave_out(self, path: str, is_directory: bool) -> bool:
        """Returns whether the path is left out. The folders above it are not."""
        for folder, spec in reversed(self.git + self.cloche):
            inner = path[len(folder) + 1 :] if folder else path
            verdict = spec.check_file(f"{inner}/" if is_directory else inner).include
            if verdict is not None:
                return verdict
        return False


def _read_rules(top: bytes, folder: str, name: str) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    """Returns the rules of a file, if there is one. A link is not followed."""
    path = os.path.join(top, os.fsencode(folder), os.fsencode(name))
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode):
            return ()
        if info.st_size > _MAX_IGNORE_FILE_BYTES:
            raise _failed(f"{os.fsdecode(path)} is larger than {_MAX_IGNORE_FILE_BYTES} bytes")
        with open(path, "rb") as file:
            text = os.fsdecode(file.read()).removeprefix("\ufeff")
    except FileNotFoundError:
        return ()
    return ((folder, GitIgnoreSpec.from_lines(text.splitlines())),)


def pack_directory(directory: str | os.PathLike[str], *, compress: bool) -> PackedArchive:
    """
    Packs a directory. The same files become the same bytes. `.git` is left out.

    Raises `PackingFailedError`, which names files that cannot be read and links that lead out.
    """
    root = _root_of(directory)
    entries = _find_entries(root)
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES))  # noqa: SIM115
    try:
        if compress:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=3, mtime=0) as zipped:
                _write(cast("IO[bytes]", zipped), root, entries)
        else:
            _write(file, root, entries)
        size = file.tell()
        if size > WORKSPACE_ARCHIVE_TRANSFER_BYTES:
            raise _failed(f"its archive is larger than {WORKSPACE_ARCHIVE_TRANSFER_BYTES} bytes; {_REMEDY}")
        file.seek(0)
        digest = hashlib.sha256()
        while chunk := file.read(1024 * 1024):
            digest.update(chunk)
        file.seek(0)
        return PackedArchive(file, "tar.gz" if compress else "tar", size, digest.hexdigest())
    except OSError as cause:
        file.close()
        raise _failed(f"{tempfile.gettempdir()} has no room for its archive ({cause.strerror}); set TMPDIR") from cause
    except BaseException:
        file.close()
        raise


def _root_of(directory: str | os.PathLike[str]) -> bytes:
    path = os.fspath(directory)
    if not os.path.isdir(path):
        raise _failed(f"{path} {'is not a directory' if os.path.exists(path) else 'does not exist'}")
    return os.fsencode(os.path.realpath(path))


def _find_entries(root: bytes) -> list[str]:
    """Returns what belongs in the archive, by name, a directory before its entries."""
    top, prefix, rules = _outer_rules(root)
    problems: list[str] = []
    entries = list(_entries_in(root, top, "", prefix, rules, problems))
    if problems:
        more = f"; and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > _MAX_PROBLEMS else ""
        raise _failed(f"{'; '.join(problems[:_MAX_PROBLEMS])}{more}; correct this, or list it in .clocheignore")
    if len(entries) > WORKSPACE_ARCHIVE_ENTRIES:
        raise _failed(f"it has more than {WORKSPACE_ARCHIVE_ENTRIES} entries; {_REMEDY}")
    return entries


def _outer_rules(root: bytes) -> tuple[bytes, str, _Rules]:
    """
    Returns the folder of the Git repository that `root` is in, the path of `root` in it, and the rules of the folders
    between. Without a repository, or for a directory that the repository ignores, there are none.
    """
    top = next((each for each in (root, *_parents(root)) if os.path.exists(os.path.join(each, b".git"))), root)
    prefix = "" if top == root else os.fsdecode(os.path.relpath(root, top))
    rules = _Rules()
    parts = prefix.split("/") if prefix else []
    for index in range(len(parts)):
        rules = rules.within(top, "/".join(parts[:index]))
        if rules.leave_out("/".join(parts[: index + 1]), True):
            return root, "", _Rules()
    return top, prefix, rules


def _parents(path: bytes) -> Iterator[bytes]:
    for parent in Path(os.fsdecode(path)).parents:
        yield os.fsencode(parent)


def _entries_in(root: bytes, top: bytes, folder: str, prefix: str, outer: _Rules, problems: list[str]) -> Iterator[str]:
    try:
        rules = outer.within(top, posixpath.join(prefix, folder) if folder else prefix)
        with os.scandir(os.path.join(root, os.fsencode(folder))) as listing:
            children = sorted(listing, key=lambda child: child.name)
    except OSError as cause:
        problems.append(_problem(folder or ".", cause))
        return
    for child in children:
        path = posixpath.join(folder, os.fsdecode(child.name))
        is_directory = child.is_dir(follow_symlinks=False)
        if child.name == b".git" or rules.leave_out(posixpath.join(prefix, path), is_directory):
            continue
        if is_directory:
            yield path
            yield from _entries_in(root, top, path, prefix, outer=rules, problems=problems)
        elif child.is_symlink():
            if _leads_out(path, os.fsdecode(os.readlink(child.path))):
                problems.append(f'"{path}" is a link that leads out of the directory')
            yield path
        elif child.is_file(follow_symlinks=False):
            if not os.access(child.path, os.R_OK):
                problems.append(f'"{path}" cannot be read')
            yield path


def _leads_out(path: str, target: str) -> bool:
    landed = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return target.startswith("/") or landed == ".." or landed.startswith("../")


def _write(file: IO[bytes], root: bytes, entries: list[str]) -> None:
    options: Any = {"fileobj": file, "mode": "w|", "format": tarfile.GNU_FORMAT}
    with tarfile.open(**options, errors="surrogateescape") as archive:
        for name in entries:
            path = os.path.join(root, os.fsencode(name))
            try:
                _add(archive, os.fsdecode(path), name)
            except FileNotFoundError:
                # It was removed since it was found.
                continue
            except OSError as cause:
                raise _failed(_problem(name, cause)) from cause


def _add(archive: tarfile.TarFile, path: str, name: str) -> None:
    info = os.lstat(path)
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = stat.S_IMODE(info.st_mode) & 0o777, int(info.st_mtime)
    if stat.S_ISDIR(info.st_mode):
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    elif stat.S_ISLNK(info.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(path)
        archive.addfile(entry)
    elif stat.S_ISREG(info.st_mode):
        # If a pipe has replaced the file, opening does not block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            # As large as it is now. What is appended later is left out.
            entry.size = os.fstat(file.fileno()).st_size
            archive.addfile(entry, file)


def _problem(path: str, cause: OSError) -> str:
    return f'"{path}" cannot be read ({cause.strerror or cause})'


def _failed(why: str) -> Exception:
    return error_of("packing_failed", f"The directory cannot be packed: {why}.")
