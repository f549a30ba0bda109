import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Runs `work` while no other process of this host holds `lockFile`; waits for as long as one does. The lock goes with
 * the process that holds it, however that ends.
 *
 * @param onWait called once when another process holds the lock.
 */
export async function withLock<Result>(
  lockFile: string,
  work: () => Promise<Result>,
  onWait: () => void = () => {},
): Promise<Result> {
  await mkdir(dirname(lockFile), { recursive: true });
  let lock = await tryLock(lockFile);
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

/** Undefined when another process holds it. It goes with us, however we end. */
export async function tryLock(lockFile: string): Promise<Lock | undefined> {
  return takeLock(lockFile, ['--nonblock']);
}

/** The lock is held by a child that lives until its standard input ends, which the kernel sees to when we die. */
async function takeLock(lockFile: string, options: string[]): Promise<Lock | undefined> {
  const holder = spawn('flock', [...options, '--exclusive', lockFile, 'sh', '-c', 'echo held; exec cat >/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    // An interrupt at the terminal is ours to answer, not the lock's.
    detached: true,
  });
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
