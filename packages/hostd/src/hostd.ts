import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { PROTOCOL_VERSION } from '@cloche/protocol';
import type { Logger } from 'pino';
import { Cgroups, hideHybridHierarchy } from './cgroups.ts';
import type { HostdConfig } from './config.ts';
import type { HostParts } from './host-parts.ts';
import { createApp } from './http/app.ts';
import { InstanceRecords } from './instances/instance-records.ts';
import { Instances } from './instances/instances.ts';
import { holdFileLock } from './kernel/file-lock.ts';
import { assertOwnMountNamespace } from './kernel/mount-namespace.ts';
import { detachMount, mountFileSystem } from './kernel/mounts.ts';
import { DiskImages } from './launch/disk-image.ts';
import { Launcher } from './launch/launcher.ts';
import { OciRuntime } from './launch/oci-runtime.ts';
import { CA_BUNDLE_PATH } from './launch/root-file-system.ts';
import { SANDBOX_CIDR } from './network/address-plan.ts';
import { DNS_PORT, SandboxNetwork } from './network/sandbox-network.ts';
import { Slots } from './slots.ts';
import { Templates } from './templates.ts';

/** Shared by every installation of the host. */
const SLOTS_DIR = '/run/cloche/slots';
const SWEEP_INTERVAL_MS = 5000;
/** Longest that a shutdown waits for answers under way. */
const CLOSE_TIMEOUT_MS = 20_000;

export interface HostdOptions {
  config: HostdConfig;
  log: Logger;
  /** What runs as the first process of each sandbox; the agent unless given. */
  command?: readonly string[];
}

export interface Hostd {
  /** Takes no more requests. Sandboxes live on; if there are none, nothing of hostd stays on the host. */
  close(): Promise<void>;
}

/** Brings hostd up to where it serves on its socket; what an earlier one left half done is undone by then. */
export async function startHostd(options: HostdOptions): Promise<Hostd> {
  const { config, log } = options;
  assertOwnMountNamespace();
  makeFolders(config);
  if (!holdFileLock(join(config.hostdDir, 'lock'))) throw new Error(`another hostd serves ${config.hostdDir}`);
  hideHybridHierarchy();
  const host = await openHost(config);
  const templates = new Templates(config.templatesDir);
  const instances = new Instances({ host, launcher: makeLauncher(host, options), templates, log });
  await instances.sweep();

  const { installationId, ociRuntime } = config;
  const health = { status: 'ready' as const, protocolVersion: PROTOCOL_VERSION, installationId, ociRuntime };
  const app = createApp({ instances, templates, health, log });
  await listen(app, config);
  const sweeping = new AbortController();
  const swept = sweepRepeatedly(instances, sweeping.signal);

  return {
    close: async () => {
      await Promise.race([app.close(), delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
      sweeping.abort();
      await swept;
      await instances.sweep();
      if (instances.list().length > 0) return;
      await host.network.close();
      detachMount(host.mountsDir);
      rmdirSync(host.mountsDir);
    },
  };
}

function makeLauncher(host: HostParts, { command, log }: HostdOptions): Launcher {
  return new Launcher({
    host,
    timeNamespace: existsSync('/proc/self/ns/time'),
    ...(command && { command }),
    onStep: (step, durationMs) => log.trace({ step, durationMs }),
  });
}

function makeFolders({ hostdDir, run, service }: HostdConfig): void {
  mkdirSync(hostdDir, { recursive: true, mode: 0o700 });
  for (const dir of [run.hostdDir, run.instancesDir]) {
    mkdirSync(dir, { recursive: true });
    chownSync(dir, 0, service.gid);
    chmodSync(dir, 0o750);
  }
  mkdirSync(run.egressDir, { recursive: true, mode: 0o755 });
}

async function openHost(config: HostdConfig): Promise<HostParts> {
  const { installationId, hostdDir, run, allowCidrs } = config;
  const slots = new Slots(SLOTS_DIR, installationId);
  const network = await SandboxNetwork.open({ installationId, allowCidrs, slots });
  const forEgress = { gatewayAddress: network.gatewayAddress, dnsPort: DNS_PORT, sandboxCidr: SANDBOX_CIDR };
  writeFileSync(join(run.egressDir, 'network.json'), JSON.stringify(forEgress), { mode: 0o644 });
  return {
    records: new InstanceRecords(join(hostdDir, 'instances')),
    slots,
    network,
    cgroups: new Cgroups(installationId),
    diskImages: new DiskImages(hostdDir),
    runtime: new OciRuntime({ program: config.ociRuntime, stateDir: join(run.hostdDir, config.ociRuntime) }),
    mountsDir: makeMountsDir(config.runDir),
    socketsDir: run.instancesDir,
    service: config.service,
    guestDir: config.guestDir,
    caBundle: copyCaBundle(hostdDir),
  };
}

/**
 * A file system in memory for the mount points. The root of a sandbox, who is nobody on the host, has to pass through
 * it while the runtime sets the sandbox up, so it is open to be passed through, and only to that.
 */
function makeMountsDir(runDir: string): string {
  const dir = join(runDir, 'mounts');
  mkdirSync(dir, { recursive: true, mode: 0o711 });
  mountFileSystem({ type: 'tmpfs', source: 'cloche', target: dir, options: 'mode=0711,size=4m' });
  return dir;
}

/** A copy that everybody may read: the host's own file may be replaced, or be under a folder that is closed. */
function copyCaBundle(hostdDir: string): string | undefined {
  const copy = join(hostdDir, 'ca-certificates.crt');
  rmSync(copy, { force: true });
  if (!existsSync(CA_BUNDLE_PATH)) return undefined;
  copyFileSync(CA_BUNDLE_PATH, copy);
  chmodSync(copy, 0o644);
  return copy;
}

async function listen(app: ReturnType<typeof createApp>, { run, service }: HostdConfig): Promise<void> {
  // Of one that was killed; two at a time are kept apart by the lock.
  rmSync(run.hostdSocket, { force: true });
  await app.listen({ path: run.hostdSocket });
  chownSync(run.hostdSocket, 0, service.gid);
  chmodSync(run.hostdSocket, 0o660);
}

async function sweepRepeatedly(instances: Instances, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await delay(SWEEP_INTERVAL_MS, undefined, { signal, ref: false }).catch(() => {});
    if (!signal.aborted) await instances.sweep();
  }
}
