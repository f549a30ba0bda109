import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { OciMount } from './oci-mount.ts';

/**
 * Files of `/proc` that describe the host's devices, or the disks of other sandboxes. The files left visible describe
 * the sandbox, the kernel's version and configuration, and the total load of the host.
 */
const HIDDEN_IN_PROC = `acpi asound diskstats driver fs interrupts kallsyms kcore keys latency_stats mdstat modules
  partitions sched_debug schedstat scsi softirqs swaps timer_list timer_stats`;

/**
 * Entries of `/sys` that stay visible: links of the sandbox's own network, processors and memory, huge pages, control
 * groups. The rest is hidden: disks of other sandboxes, their file systems, drivers, firmware, modules, notes.
 */
const SHOWN_IN_SYS: Readonly<Record<string, readonly string[]>> = {
  '/sys': ['class', 'devices', 'fs', 'kernel'],
  '/sys/devices': ['system', 'virtual'],
  '/sys/devices/virtual': ['net'],
};

/**
 * Folder of huge pages, the only entry of `/sys/kernel` that a sandbox sees: `writeSysFolders` replaces `/sys/kernel`
 * with a folder of the sandbox's own.
 */
const HUGE_PAGES = '/sys/kernel/mm';

/** Returns the paths that the runtime covers with something empty. */
export function hiddenPaths(): string[] {
  const inProc = HIDDEN_IN_PROC.split(/\s+/).map((name) => join('/proc', name));
  const inSys = Object.entries(SHOWN_IN_SYS).flatMap(([folder, shown]) =>
    readdirSync(folder)
      .filter((name) => !shown.includes(name) && !isCounterOfProcessor(join(folder, name)))
      .map((name) => join(folder, name)),
  );
  return [...inProc, ...inSys];
}

/**
 * Returns whether the path describes processor events: dozens of folders whose content never changes, so they stay
 * visible.
 */
function isCounterOfProcessor(path: string): boolean {
  return existsSync(join(path, 'type'));
}

/** Creates the folders that replace some of `/sys`, and returns their mounts in order. */
export function writeSysFolders(diskDir: string): OciMount[] {
  const folder = join(diskDir, 'sys');
  for (const path of ['class', 'fs/cgroup', 'kernel/mm'])
    mkdirSync(join(folder, path), { recursive: true, mode: 0o755 });
  symlinkSync('../devices/virtual/net', join(folder, 'class/net'));
  return [
    ...['class', 'fs', 'kernel'].map((name) => readOnlyBind(join('/sys', name), join(folder, name))),
    // SECURITY: from the host's sysfs, which is the same in each sandbox except for network links
    // (surroundings.test.ts).
    ...(existsSync(HUGE_PAGES) ? [readOnlyBind(HUGE_PAGES, HUGE_PAGES)] : []),
  ];
}

function readOnlyBind(destination: string, source: string): OciMount {
  return { destination, type: 'bind', source, options: ['bind', 'ro', 'nosuid', 'nodev', 'noexec'] };
}
