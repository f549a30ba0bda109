import { addZramSwap, removeZramSwap, zramDevicesOf } from '@cloche/host-checks';
import { machineMemory } from '@cloche/layout';
import { SetupError } from '../progress.ts';

/**
 * Adds the installation's compressed swap, or removes what is left of it, as `CLOCHE_ZRAM` says. Idempotent: the device
 * belongs to the installation, and each start finds the one of the start before, however that ended.
 *
 * @throws {SetupError} if the host cannot have it
 */
export async function arrangeCompressedSwap(installationId: string, setting: string | undefined): Promise<void> {
  try {
    if (setting === 'on') await addZramSwap(installationId, machineMemory().totalBytes);
    else await removeZramSwap(installationId);
  } catch (cause) {
    const { message, stderr } = cause as Error & { stderr?: string };
    const problem = setting === 'on' ? 'CLOCHE_ZRAM=on, and zram cannot be used' : 'zram cannot be removed';
    const remedy =
      setting === 'on'
        ? 'Leave CLOCHE_ZRAM out, or start Cloche on a host whose kernel has zram, outside of a container.'
        : 'End sandboxes, or set CLOCHE_ZRAM=on: the memory does not hold what was swapped.';
    throw new SetupError(`${problem}: ${stderr?.trim() || message}.`, remedy, { cause });
  }
}

/**
 * Calls `end`, which ends hostd, and removes the compressed swap if no sandbox is left to use it.
 *
 * @param count number of live sandboxes; asked before the end, and only if there is something to remove
 */
export async function endWithCompressedSwap(
  installationId: string,
  count: () => Promise<number>,
  end: () => Promise<void>,
): Promise<void> {
  const isLast = zramDevicesOf(installationId).length > 0 && (await count().catch(() => undefined)) === 0;
  await end();
  if (isLast) await removeZramSwap(installationId);
}
