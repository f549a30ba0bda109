/** Folders of this machine as tar archives, made and unpacked by the `tar` that every system brings. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { pipeline } from 'node:stream/promises';
import { CliError } from '../cli-error.ts';

const MAX_WORDS = 2_000;

/** What is in `folder`. Throws, instead of ending, when not all of it could be read. */
export async function* packLocal(folder: string): AsyncGenerator<Uint8Array, void> {
  const tar = startTar(['-C', folder, '-cf', '-', '.'], ['ignore', 'pipe', 'pipe']);
  const outcome = outcomeOf(tar);
  try {
    yield* tar.stdout as AsyncIterable<Buffer>;
    await outcome;
  } finally {
    tar.kill();
    await outcome.catch(() => undefined);
  }
}

/**
 * Unpacks into `folder`, which exists. The archive is a stranger's: `tar` itself refuses names and links that lead out, and
 * owners and special bits are not taken over.
 */
export async function unpackLocal(folder: string, archive: AsyncIterable<Uint8Array>): Promise<void> {
  const tar = startTar(
    ['-C', folder, '--no-same-owner', '--no-same-permissions', '-xf', '-'],
    ['pipe', 'ignore', 'pipe'],
  );
  const outcome = outcomeOf(tar);
  // What it says of itself tells more than that it does not listen any more.
  const fed = tar.stdin ? pipeline(archive, tar.stdin) : Promise.resolve();
  const [, , failure] = await Promise.all([
    fed.catch((error: unknown) => {
      // It reads no further than the end of the archive, or than what it cannot read.
      if (['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'].includes((error as NodeJS.ErrnoException).code ?? '')) return;
      tar.kill();
      throw error;
    }),
    outcome.catch(() => undefined),
    outcome.then(
      () => undefined,
      (error: unknown) => error,
    ),
  ]);
  if (failure) throw failure;
}

function startTar(args: readonly string[], stdio: ('ignore' | 'pipe')[]): ChildProcess {
  return spawn('tar', args, { stdio });
}

async function outcomeOf(tar: ChildProcess): Promise<void> {
  let words = '';
  tar.stderr?.on('data', (chunk) => {
    words = (words + chunk).slice(-MAX_WORDS);
  });
  const [code] = (await once(tar, 'close').catch((error: Error) => {
    throw new CliError(`Directories are copied by the program tar, which cannot be started here: ${error.message}.`);
  })) as [number | null];
  if (code !== 0) throw new CliError(`tar: ${words.trim() || 'it was ended'}`);
}
