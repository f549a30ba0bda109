import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { CliError } from '../cli-error.ts';

const MAX_WORDS = 2_000;

/**
 * Streams the content of `folder` as a tar archive, created by the system's `tar`. Throws at the end if a file could
 * not be read.
 */
export async function* packLocal(folder: string): AsyncGenerator<Uint8Array, void> {
  const tar = spawn('tar', ['-C', folder, '-cf', '-', '.'], { stdio: ['ignore', 'pipe', 'pipe'] });
  tar.on('error', () => undefined);
  const outcome = outcomeOf(tar);
  // Awaited only after the last byte.
  outcome.catch(() => undefined);
  try {
    yield* tar.stdout as AsyncIterable<Buffer>;
    await outcome;
  } finally {
    tar.kill();
    await outcome.catch(() => undefined);
  }
}

async function outcomeOf(tar: ChildProcess): Promise<void> {
  let words = '';
  tar.stderr?.on('data', (chunk) => {
    words = (words + chunk).slice(-MAX_WORDS);
  });
  const [code] = (await once(tar, 'close').catch((error: Error) => {
    throw new CliError(`Copying directories requires the program tar, which cannot be started: ${error.message}.`);
  })) as [number | null];
  if (code !== 0) throw new CliError(`tar: ${words.trim() || 'it was killed'}`);
}
