import { chmodSync, chownSync, mkdirSync, renameSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { SANDBOX_CIDR } from '../addressing/address-plan.ts';
import { SLOTS_DIR, Slots } from '../addressing/slots.ts';
import { findHierarchies } from '../cgroups/cgroup-hierarchies.ts';
import { Cgroups, hideHybridHierarchy } from '../cgroups/cgroups.ts';
import { GroupUsage, WHOLE_GROUP } from '../cgroups/group-usage.ts';
import { InstanceRecords } from '../instance/instance-records.ts';
import type { LauncherDeps } from '../launch/launcher.ts';
import { holdFileLock } from '../linux/file-lock.ts';
import { assertOwnMountNamespace } from '../linux/mount-namespace.ts';
import { detachMount, mountFileSystem } from '../linux/mounts.ts';
import { FrozenInstances } from '../memory/frozen-instances.ts';
import { InstanceMeter } from '../metering/instance-meter.ts';
import { InstanceReadings } from '../metering/instance-readings.ts';
import { deniedDatagramAddresses } from '../network/datagram-gate.ts';
import { EgressClient } from '../network/egress-client.ts';
import { EgressGate } from '../network/egress-gate.ts';
import { DNS_PORT } from '../network/gateway-slot.ts';
import { SandboxNetwork } from '../network/sandbox-network.ts';
import { TrustBundles } from '../network/trust-bundle.ts';
import { openRuntime } from '../oci/open-runtime.ts';
import { ProcessorGroups } from '../processor/processor-groups.ts';
import { DiskImages } from '../storage/disk-image.ts';
import { DiskReservations } from '../storage/disk-reservations.ts';
import { Layers } from '../storage/layers.ts';
import { ParkedDisks } from '../storage/parked-disks.ts';
import type { RemovalDeps } from '../teardown/remove-instance.ts';
import { KernelForks } from '../zygote/kernel-forks.ts';
import { Zygotes, type ZygotesOptions } from '../zygote/zygotes.ts';
import type { HostdConfig } from './config.ts';

/** The parts that hostd's classes are composed of on this host. Each installation has one set. */
export type Host = LauncherDeps &
  RemovalDeps & {
    meter: InstanceMeter;
    readings: InstanceReadings;
    /** Reads what an instance occupies, its agent included. */
    instanceUsage: GroupUsage;
    frozen: FrozenInstances;
  };

/**
 * Creates the parts, or takes over those that an earlier hostd of the installation left for its sandboxes. Throws when
 * this process has no mount namespace of its own, or when another hostd serves the installation.
 */
export async function openHost(config: HostdConfig, log?: Logger): Promise<Host> {
  assertOwnMountNamespace();
  makeFolders(config);
  if (!holdFileLock(join(config.hostdDir, 'lock')))
    throw new Error(`another hostd already uses ${config.hostdDir}; stop it first`);
  hideHybridHierarchy();
  const { installationId, hostdDir, run, ranges } = config;
  const slots = new Slots(SLOTS_DIR, installationId);
  const records = new InstanceRecords(join(hostdDir, 'instances'));
  const living = datagramsOfLiving(records);
  const network = await SandboxNetwork.open({ installationId, ranges, slots, living });
  const forEgress = { gatewayAddress: network.gatewayAddress, dnsPort: DNS_PORT, sandboxCidr: SANDBOX_CIDR };
  const networkFile = join(run.egressDir, 'network.json');
  // Egress may wait for it, and must not read a part of it.
  writeFileSync(`${networkFile}.new`, JSON.stringify(forEgress), { mode: 0o644 });
  renameSync(`${networkFile}.new`, networkFile);
  const trust = new TrustBundles(hostdDir);
  const cgroups = new Cgroups(installationId);
  const hierarchies = findHierarchies();
  const processor = new ProcessorGroups(cgroups.parent, hierarchies);
  const meter = new InstanceMeter({ installationId, processor });
  const runtime = await openRuntime({
    name: config.ociRuntime,
    program: config.ociRuntimeProgram,
    stateDir: join(run.hostdDir, config.ociRuntime),
    cgroups,
    socketsDir: run.instancesDir,
    service: config.service,
    dialsDir: join(config.runDir, 'dials'),
    log,
  });
  const instanceUsage = new GroupUsage(cgroups.parent, hierarchies, WHOLE_GROUP);
  const mountsDir = makeMountsDir(config.runDir);
  const { claims, timeNamespace } = runtime;
  const zygotes =
    claims.pythonKernels === 'forked'
      ? openZygotes({ cgroups, guestDir: config.guestDir, mountsDir, timeNamespace, ...(log && { log }) })
      : undefined;
  return {
    records,
    slots,
    network,
    egress: new EgressGate({
      client: new EgressClient(config.egress.controlSocket),
      trust: (certificate) => trust.trust(certificate),
      ...(log && { log }),
    }),
    cgroups,
    processor,
    meter,
    readings: new InstanceReadings(meter, new GroupUsage(cgroups.parent, hierarchies, runtime.limitedGroup)),
    instanceUsage,
    frozen: new FrozenInstances({ cgroups, usage: instanceUsage, ...config.frozen, log }),
    diskImages: new DiskImages(join(hostdDir, 'disks'), records.keys()),
    parkedDisks: new ParkedDisks(join(hostdDir, 'parked')),
    layers: new Layers(join(hostdDir, 'layers'), mountsDir),
    diskReservations: new DiskReservations({ folder: hostdDir, records, ...config.disk }),
    runtime,
    kernels: new KernelForks(zygotes),
    mountsDir,
    socketsDir: run.instancesDir,
    service: config.service,
    guestDir: config.guestDir,
    trust,
  };
}

/**
 * Returns the denied addresses of each sandbox that may send datagrams, by slot. The sweep removes a sandbox that has
 * died since its record was written.
 */
function datagramsOfLiving(records: InstanceRecords): Map<number, string[]> {
  const living = new Map<number, string[]>();
  for (const key of records.keys()) {
    const record = records.read(key);
    const denied = record?.status === 'live' && record.network && deniedDatagramAddresses(record.network);
    if (denied) living.set(record.slot, denied);
  }
  return living;
}

/** Removes everything of the installation from the host. Call only while no sandbox runs. */
export async function closeHost(host: Host): Promise<void> {
  await host.network.close();
  host.runtime.removeShared?.();
  detachMount(host.mountsDir);
  rmdirSync(host.mountsDir);
}

/** Returns undefined where the host cannot filter a zygote's system calls. */
function openZygotes(options: ZygotesOptions): Zygotes | undefined {
  try {
    return new Zygotes(options);
  } catch (err) {
    options.log?.error({ operation: 'zygote', outcome: 'unavailable', err });
    return undefined;
  }
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

/**
 * Mounts an in-memory file system for the mount points. A sandbox's root, an unprivileged user on the host, must
 * traverse it while the runtime sets the sandbox up, so it allows traversal and nothing else.
 */
function makeMountsDir(runDir: string): string {
  const dir = join(runDir, 'mounts');
  mkdirSync(dir, { recursive: true, mode: 0o711 });
  mountFileSystem({ type: 'tmpfs', source: 'cloche', target: dir, options: 'mode=0711,size=4m' });
  return dir;
}
