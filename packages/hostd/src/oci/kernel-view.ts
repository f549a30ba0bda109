import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { OciMount } from './oci-config.ts';

/**
 * Files of `/proc` that tell of the host's devices, or of the disks of other sandboxes. What is left tells of the sandbox,
 * of the kernel's version and configuration, and of the load of the host in all.
 */
const HIDDEN_IN_PROC = `acpi asound diskstats driver fs interrupts kallsyms kcore keys latency_stats mdstat modules
  partitions sched_debug schedstat scsi softirqs swaps timer_list timer_stats`;

/**
 * What is left of folders of `/sys`: links of the sandbox's own network, processors and memory, huge pages, control
 * groups. The rest is hidden: disks of other sandboxes, their file systems, drivers, firmware, modules, notes.
 */
const SHOWN_IN_SYS: Readonly<Record<string, readonly string[]>> = {
  '/sys': ['class', 'devices', 'fs', 'kernel'],
  '/sys/devices': ['system', 'virtual'],
  '/sys/devices/virtual': ['net'],
};

/** Every other name in these folders is hidden at once, by a folder of the sandbox's own in their place. */
const HUGE_PAGES = '/sys/kernel/mm';

/** Paths that the runtime covers with something empty: those of them that this kernel has. */
export function hiddenPaths(): string[] {
  const inProc = HIDDEN_IN_PROC.split(/\s+/).map((name) => join('/proc', name));
  const inSys = Object.entries(SHOWN_IN_SYS).flatMap(([folder, shown]) =>
    readdirSync(folder)
      .filter((name) => !shown.includes(name) && !isCounterOfProcessor(join(folder, name)))
      .map((name) => join(folder, name)),
  );
  return [...inProc, ...inSys];
}

/** Dozens of folders that list the events of a processor, and nothing that changes. */
function isCounterOfProcessor(path: string): boolean {
  return existsSync(join(path, 'type'));
}

/** Makes the folders that take the place of some of `/sys`, and returns how to mount them, in this order. */
export function writeSysFolders(diskDir: string): OciMount[] {
  const folder = join(diskDir, 'sys');
  for (const path of ['class', 'fs/cgroup', 'kernel/mm'])
    mkdirSync(join(folder, path), { recursive: true, mode: 0o755 });
  symlinkSync('../devices/virtual/net', join(folder, 'class/net'));
  return [
    ...['class', 'fs', 'kernel'].map((name) => readOnlyBind(join('/sys', name), join(folder, name))),
    // SECURITY: of the host's sysfs, which is the same in each sandbox but for network links (surroundings.test.ts).
    ...(existsSync(HUGE_PAGES) ? [readOnlyBind(HUGE_PAGES, HUGE_PAGES)] : []),
  ];
}

function readOnlyBind(destination: string, source: string): OciMount {
  return { destination, type: 'bind', source, options: ['bind', 'ro', 'nosuid', 'nodev', 'noexec'] };
}
