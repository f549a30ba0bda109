import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { machineMemory } from '@cloche/layout';
import { addZramSwap, hasZram, removeZramSwap, zramOwners } from '../src/zram-swap.ts';

const OWNER = /^test-(\d+)$/;
/** Of the machine's memory: space for the few sandboxes of a test. */
const SIZE_SHARE = 1 / 16;

/** Why a test cannot have compressed swap here; false if it can. */
export const lacksZram: string | false = lack();

function lack(): string | false {
  if (process.getuid?.() !== 0) return 'this takes root';
  return !hasZram() && 'this kernel has no zram';
}

/**
 * Has the machine swap to compressed memory until the result is disposed of. Removes what killed tests have left.
 */
export async function zramForTest(): Promise<AsyncDisposable> {
  for (const owner of zramOwners()) if (isLeft(owner)) await removeZramSwap(owner);
  const owner = `test-${process.pid}`;
  const guard = guardZram(owner);
  await addZramSwap(owner, machineMemory().totalBytes * SIZE_SHARE);
  return guard;
}

/** Removes the owner's devices when the result is disposed of, or by another process when this one has been killed. */
export function guardZram(owner: string): AsyncDisposable {
  const guard = spawn(process.execPath, [fileURLToPath(import.meta.url), owner], {
    stdio: ['pipe', 'inherit', 'inherit'],
    detached: true,
  });
  const exited = once(guard, 'exit');
  return {
    async [Symbol.asyncDispose]() {
      await removeZramSwap(owner);
      guard.stdin?.end();
      await exited;
    },
  };
}

/** Whether the test that made the device has ended. */
function isLeft(owner: string): boolean {
  const pid = OWNER.exec(owner)?.[1];
  if (pid === undefined) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch {
    return true;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // Its standard input ends with the test, whatever ends that.
  process.stdin.resume();
  await once(process.stdin, 'end');
  await removeZramSwap(process.argv[2] ?? '');
}
