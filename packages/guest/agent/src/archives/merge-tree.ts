import { TimeSlice } from '@cloche/node-support';
import { AgentError } from '../base/agent-error.ts';
import { shown } from '../files/file-error.ts';
import { type FilePath, joined } from '../files/file-path.ts';
import type { FileSystem } from '../files/file-system.ts';
import { allNamesIn } from '../files/list-files.ts';

/** Entries that are looked at or moved with one switch of rights. */
const AT_ONCE = 64;

interface Move {
  readonly source: FilePath;
  readonly target: FilePath;
  readonly isFolder: boolean;
  /** Whether the target exists. */
  readonly isThere: boolean;
}

/**
 * Moves the entries of `from` into `to`, on the same file system. Files and links replace files and links; folders are
 * merged, and those of `from` stay. Throws `conflict`, before it moves anything, if a folder would replace a file or a
 * file a folder. Moves nothing more once `signal` has aborted, and throws its reason.
 */
export async function mergeTree(from: FilePath, to: FilePath, system: FileSystem, signal: AbortSignal): Promise<void> {
  const timeSlice = new TimeSlice();
  const moves: Move[] = [];
  await planMoves(from, to, moves, system, timeSlice);
  for (let at = 0; at < moves.length; at += AT_ONCE) {
    await timeSlice.yieldIfOver();
    signal.throwIfAborted();
    system.run(() => {
      for (const { source, target, isThere } of moves.slice(at, at + AT_ONCE)) system.rename(source, target, isThere);
    });
  }
}

async function planMoves(
  from: FilePath,
  to: FilePath,
  moves: Move[],
  system: FileSystem,
  timeSlice: TimeSlice,
): Promise<void> {
  const names = await allNamesIn(from, system);
  for (let at = 0; at < names.length; at += AT_ONCE) {
    await timeSlice.yieldIfOver();
    const some = names.slice(at, at + AT_ONCE);
    const planned = system.run(() => some.map((name) => plannedMove(joined(from, name), joined(to, name), system)));
    for (const move of planned) {
      if (move.isFolder && move.isThere) await planMoves(move.source, move.target, moves, system, timeSlice);
      else moves.push(move);
    }
  }
}

function plannedMove(source: FilePath, target: FilePath, system: FileSystem): Move {
  const isFolder = system.lstat(source).isDirectory();
  // A link to a folder is no folder here: an archive must not unpack through a link.
  const found = system.findLink(target);
  if (found && found.isDirectory() !== isFolder) {
    const why = isFolder
      ? 'is not a directory, but the archive has a directory of that name'
      : 'is a directory, but the archive has a file of that name';
    throw new AgentError('conflict', `${shown(target)} ${why}.`);
  }
  return { source, target, isFolder, isThere: found !== undefined };
}
