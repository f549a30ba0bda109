import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Runs `work` while this process holds `lockFile`, exclusively on this host; waits while another process holds it. A
 * lock is released when its process ends for any reason.
 *
 * @param onWait called once when another process holds the lock.
 */
export async function withLock<Result>(
  lockFile: string,
  work: () => Promise<Result>,
  onWait: () => void = () => {},
): Promise<Result> {
  await mkdir(dirname(lockFile), { recursive: true });
  let lock = await tryLock(lockFile, 0);
  if (!lock) {
    onWait();
    lock = await takeLock(lockFile, []);
  }
  if (!lock) throw new Error(`Cannot lock ${lockFile}.`);
  try {
    return await work();
  } finally {
    await lock.release();
  }
}

export type Lock = { release(): Promise<void> };

/**
 * Acquires the lock, which is released when this process ends. Returns undefined when another process still holds it
 * after `waitMs`.
 */
export async function tryLock(lockFile: string, waitMs: number): Promise<Lock | undefined> {
  return takeLock(lockFile, waitMs > 0 ? ['--timeout', String(waitMs / 1000)] : ['--nonblock']);
}

/**
 * Acquires the lock in a child process that lives until its standard input ends; the kernel closes it when this process
 * dies.
 */
async function takeLock(lockFile: string, options: string[]): Promise<Lock | undefined> {
  const holder = spawn('flock', [...options, '--exclusive', lockFile, 'sh', '-c', 'echo held; exec cat >/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    // An interrupt at the terminal must not end the lock's process.
    detached: true,
  });
  // A holder that has ended is noticed by its exit.
  holder.stdin.on('error', () => undefined);
  const exited = once(holder, 'exit');
  const answered = once(holder.stdout, 'data').then(() => true);
  const held = await Promise.race([answered, exited.then(() => false)]);
  if (!held) return undefined;
  return {
    release: async () => {
      holder.stdin.end();
      await exited;
    },
  };
}
