import { statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { machineMemory, startCommand } from '@cloche/layout';
import { nearestFolder } from '../starter/nearest-folder.mjs';
import { findUnneeded, listOldVersions, sizeOf } from './cache-retention.ts';
import { type Finding, missing, ok, warning } from './finding.ts';

const GIB = 1024 ** 3;
/** Bytes for both templates, the guest folder and some sandboxes' disks. */
const DISK_NEEDED = 4 * GIB;
const DISK_RECOMMENDED = 16 * GIB;
/** A server that is sold with 2 GB shows less, because its kernel reserves memory at boot. */
const MEMORY_RECOMMENDED = 1.7 * GIB;

export async function checkDisk(name: string, folder: string): Promise<Finding> {
  const { bavail, bsize } = await statfs(nearestFolder(folder));
  const free = bavail * bsize;
  const found = `${gib(free)} free for ${folder}`;
  if (free < DISK_NEEDED) return missing(name, found, `Free at least ${gib(DISK_NEEDED)}, or choose another folder.`);
  if (free < DISK_RECOMMENDED) return warning(name, found, `${gib(DISK_RECOMMENDED)} or more are recommended.`);
  return ok(name, found);
}

/** Reports what starting Cloche would remove from the cache. */
export async function checkOldVersions(cacheDir: string, retentionMs: number): Promise<Finding> {
  const versions = await listOldVersions(cacheDir);
  const unused = await findUnneeded(versions, { retentionMs });
  const [all, removable] = await Promise.all([versions, unused].map((some) => sizeOf(some.map(({ path }) => path))));
  const found = `${versions.length} guest folders and older templates, ${gib(all ?? 0)}`;
  if (unused.length === 0) return ok('cache', found);
  return warning('cache', found, `Starting Cloche removes ${unused.length} that nothing uses: ${gib(removable ?? 0)}.`);
}

export function checkMemory(bytes = machineMemory().totalBytes): Finding {
  const found = gib(bytes);
  return bytes < MEMORY_RECOMMENDED
    ? warning('memory', found, '2 GB or more are recommended, for several sandboxes.')
    : ok('memory', found);
}

/** Time for an answer of what uses the port. */
const ANSWER_MS = 2_000;

/** Checks whether a port is free. */
export async function checkPort(host: string, port: number): Promise<Finding> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', ({ code, message }: NodeJS.ErrnoException) => {
      const remedy = 'Another program uses it; set CLOCHE_PORT to a free one.';
      if (code === 'EADDRINUSE') resolve(warning('port', `${port} is in use`, remedy));
      else resolve(warning('port', `${host}:${port}: ${message}`, 'Set CLOCHE_HOST to an address of this machine.'));
    });
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(ok('port', `${port} is free`))));
  });
}

/** Checks whether a port is free or Cloche itself serves there. */
export async function checkServicePort(host: string, port: number): Promise<Finding> {
  const finding = await checkPort(host, port);
  const version = finding.status === 'ok' ? undefined : await versionOfCloche(host, port);
  return version === undefined ? finding : ok('port', `${port} is in use by Cloche ${version}`);
}

/** Returns the version of Cloche that answers on the port; undefined if another program does, or none. */
async function versionOfCloche(host: string, port: number): Promise<string | undefined> {
  const local = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  try {
    const response = await fetch(`http://${local.includes(':') ? `[${local}]` : local}:${port}/healthz`, {
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const { status, version } = (await response.json()) as { status?: unknown; version?: unknown };
    return status === 'ok' && typeof version === 'string' && /^[\w.+-]{1,64}$/.test(version) ? version : undefined;
  } catch {
    return undefined;
  }
}

export function checkNode(version = process.versions.node): Finding {
  const [major = 0] = version.split('.').map(Number);
  return major >= 24
    ? ok('node', version)
    : missing('node', version, `Use \`${startCommand()}\`, which brings its own Node.`);
}

function gib(bytes: number): string {
  return `${(bytes / GIB).toFixed(1)} GiB`;
}
