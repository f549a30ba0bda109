import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { HostdConfig } from '../src/host/config.ts';
import { errorCode } from '../src/linux/libc.ts';
import { SHARED_NAMESPACE } from '../src/oci/runsc.ts';

/** Returns a description of each thing on the host that belongs to instances of the installation. */
export function instanceLeftovers({ installationId, hostdDir, run, runDir, ociRuntime }: HostdConfig): string[] {
  const folder = dirname(runDir);
  return [
    ...names('/sys/class/net', (name) => isInstanceLink(name, installationId), 'link'),
    ...readdirSync('/sys/fs/cgroup').flatMap((controller) =>
      names(join('/sys/fs/cgroup', controller), (name) => name === `cloche-${installationId}`, `cgroup ${controller}`),
    ),
    ...names('/sys/block', (name) => readText(`/sys/block/${name}/loop/backing_file`).includes(folder), 'disk'),
    ...names('/proc', (pid) => /^\d+$/.test(pid) && isOfInstallation(pid, installationId), 'process'),
    ...names('/run/cloche/slots', (slot) => isInstanceSlot(slot, installationId), 'slot'),
    ...names(run.instancesDir, () => true, 'socket folder'),
    ...names(join(hostdDir, 'instances'), () => true, 'instance folder'),
    ...names(join(hostdDir, 'disks'), () => true, 'image'),
    ...names(join(runDir, 'dials'), () => true, 'dial folder'),
    ...names(join(run.hostdDir, ociRuntime), (name) => name !== SHARED_NAMESPACE, 'container state'),
  ];
}

/** Returns the leftovers of instances, and those of hostd itself. */
export function hostLeftovers(config: HostdConfig): string[] {
  const { installationId } = config;
  const tables = execFileSync('nft', ['list', 'tables'], { encoding: 'utf8' }).split('\n');
  return [
    ...instanceLeftovers(config),
    ...names('/sys/class/net', (name) => name.slice(2) === installationId, 'gateway link'),
    ...tables.filter((table) => table.includes(installationId)),
    ...names('/run/cloche/slots', (slot) => readText(`/run/cloche/slots/${slot}`).includes(installationId), 'slot'),
    ...names(join(config.run.hostdDir, config.ociRuntime), () => true, 'container state'),
  ];
}

function isInstanceSlot(slot: string, installationId: string): boolean {
  const claim = readText(`/run/cloche/slots/${slot}`);
  return claim.includes(installationId) && !/"(gateway|probe-\w+)"/.test(claim);
}

/** Returns whether a link is that of an instance, and not one by which hostd measures firewalls at the moment. */
function isInstanceLink(name: string, installationId: string): boolean {
  if (!/^c[le]/.test(name) || !name.slice(2).startsWith(installationId)) return false;
  return !readText(`/run/cloche/slots/${name.slice(2 + installationId.length)}`).includes('"probe-');
}

/** Returns whether a process runs in a sandbox of the installation, by its control groups. */
function isOfInstallation(pid: string, installationId: string): boolean {
  return readText(`/proc/${pid}/cgroup`).includes(`/cloche-${installationId}/`);
}

function names(dir: string, matches: (name: string) => boolean, kind: string): string[] {
  if (!existsSync(dir)) return [];
  try {
    return readdirSync(dir)
      .filter(matches)
      .map((name) => `${kind} ${name}`);
  } catch (error) {
    if (errorCode(error) === 'ENOTDIR') return [];
    throw error;
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
