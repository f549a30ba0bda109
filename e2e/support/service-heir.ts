/**
 * Ends what is left of a test's service whose process has ended without closing it: by a signal of the terminal to the
 * whole process group, or by SIGKILL. No handler in that process could do it: the runner of the tests ends it.
 *
 * Run as a program with the data folder and the folder for sockets, it removes the sandboxes and both folders.
 */
import { spawn } from 'node:child_process';
import { globSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** Attempts to start in the folders of the ended service, whose processes may take a moment to end. */
const ATTEMPTS = 8;
const FIRST_PAUSE_MS = 500;
/** A shell, because it takes little memory while it waits. It ends without a word if it gets a line. */
const WAIT = 'read -r line || exec "$@"';
const SELF = fileURLToPath(import.meta.url);

/** Appoints a process that ends the service if this one ends first. Dispose of the result when the service is closed. */
export function appointHeir(dataDir: string, runDir: string): Disposable {
  const heir = spawn('sh', ['-c', WAIT, 'heir', process.execPath, SELF, dataDir, runDir], {
    // A session of its own: signals of the terminal do not reach it.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  // Without the program the service is only not ended after an interruption.
  heir.on('error', () => undefined);
  heir.stdin.on('error', () => undefined);
  heir.unref();
  // The stream of a child is a socket, which would keep this process alive.
  (heir.stdin as unknown as { unref?: () => void }).unref?.();
  return { [Symbol.dispose]: () => void heir.stdin.end('closed\n') };
}

async function endService(dataDir: string, runDir: string): Promise<void> {
  const { startInstallation } = await import('@cloche/setup');
  const id = readFileSync(join(dataDir, 'installation-id'), 'utf8').trim();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    killSandboxes(id);
    try {
      // hostd removes dead instances when it starts, and everything of the installation when it stops without any.
      const env = { CLOCHE_POOL_SIZE: '0', ...runtime() };
      await (await startInstallation({ dataDir, runDir, env, supervise: false })).stop();
      break;
    } catch {
      await delay(FIRST_PAUSE_MS * attempt);
    }
  }
  for (const folder of [dataDir, runDir]) rmSync(folder, { recursive: true, force: true });
}

function killSandboxes(installationId: string): void {
  for (const file of globSync(`/sys/fs/cgroup/{,*/}cloche-${installationId}/**/cgroup.procs`)) {
    for (const pid of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
      try {
        process.kill(Number(pid), 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
  }
}

function runtime(): Record<string, string> {
  const { CLOCHE_OCI_RUNTIME } = process.env;
  return CLOCHE_OCI_RUNTIME === undefined ? {} : { CLOCHE_OCI_RUNTIME };
}

if (process.argv[1] === SELF) {
  const [, , dataDir = '', runDir = ''] = process.argv;
  await endService(dataDir, runDir);
}
