import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { findFreePort } from '../../packages/shared/node-support/src/index.ts';

/** A first start prepares the host, and builds the templates that its cache lacks. */
const START_MS = 1_200_000;

export interface ReleasedService extends AsyncDisposable {
  /** Variables with which a client finds the service, with a key of its own. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Starts the service of an unpacked archive, as root, with its data in a folder. Its end destroys its sandboxes.
 *
 * @throws an error with what it printed if it does not serve
 */
export async function startReleasedService(archive: string, folder: string): Promise<ReleasedService> {
  const port = await findFreePort();
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    CLOCHE_DATA_DIR: join(folder, 'data'),
    CLOCHE_PORT: String(port),
    CLOCHE_POOL_SIZE: '1',
    ...(process.env.CLOCHE_CACHE_DIR && { CLOCHE_CACHE_DIR: process.env.CLOCHE_CACHE_DIR }),
  };
  const program = join(archive, 'bin/cloche');
  const cloche = (...args: string[]) =>
    execFileSync(program, args, { env, encoding: 'utf8', stdio: 'pipe', timeout: 120_000 }).trim();
  const child = spawn(program, ['start'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const stop = async () => {
    const ended = once(child, 'exit');
    if (child.exitCode === null && child.kill('SIGTERM')) await ended;
  };
  try {
    await untilServes(child);
    const key = cloche('admin', 'key', 'create', '--scopes', '*');
    return {
      env: { CLOCHE_URL: `http://127.0.0.1:${port}`, CLOCHE_API_KEY: key },
      async [Symbol.asyncDispose]() {
        try {
          cloche('admin', 'destroy-all');
        } finally {
          await stop();
        }
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Resolves when the service has printed its address. */
function untilServes(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = '';
    const fail = (why: string) => reject(new Error(`The service of the archive ${why}:\n${text}`));
    const timer = setTimeout(() => fail('does not serve'), START_MS);
    const read = (chunk: Buffer) => {
      text += chunk;
      if (!/cloche run/.test(text)) return;
      clearTimeout(timer);
      resolve();
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.on('error', (error) => fail(error.message));
    child.on('exit', (code) => {
      clearTimeout(timer);
      fail(`ended with ${code}`);
    });
  });
}
