import { chmodSync, chownSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { guestUse } from '@cloche/layout';
import { tidyWhenIdle } from '@cloche/node-support';
import { AGENT_PROTOCOL_VERSION, HOSTD_PROTOCOL_VERSION } from '@cloche/protocol';
import type { Logger } from 'pino';
import { CacheUse } from '../base/cache-use.ts';
import { Captures } from '../capture/captures.ts';
import { VersionRemoval } from '../capture/version-removal.ts';
import { createApp } from '../http/app.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { Instances, PARALLEL_LAUNCHES } from '../instances/instances.ts';
import { MeasuredInstances } from '../instances/measured-instances.ts';
import { Launcher } from '../launch/launcher.ts';
import { LockWatch } from '../locks/lock-watch.ts';
import { Measurements } from '../metering/measurements.ts';
import type { SandboxNetwork } from '../network/sandbox-network.ts';
import { defaultPoolSize } from '../pool/default-pool-size.ts';
import { Demand } from '../pool/demand.ts';
import { poolMetrics } from '../pool/pool-metrics.ts';
import { PoolPlaces } from '../pool/pool-places.ts';
import { PooledInstances } from '../pool/pooled-instances.ts';
import { seedDemand } from '../pool/seed-demand.ts';
import { WarmPool } from '../pool/warm-pool.ts';
import { FairScheduler } from '../processor/fair-scheduler.ts';
import { CapturedVersions } from '../storage/captured-versions.ts';
import { LaunchableVersions } from '../storage/launchable-versions.ts';
import { Templates } from '../storage/templates.ts';
import { removeInstance } from '../teardown/remove-instance.ts';
import type { HostdConfig } from './config.ts';
import { closeHost, type Host, openHost } from './open-host.ts';

const SWEEP_INTERVAL_MS = 5000;
/** Time that a layer stays mounted after its last launch, because another one is likely. */
const LAYER_IDLE_MS = 10 * 60_000;
/** An hour: often enough that each cache entry in use is recorded once a day. */
const NOTE_INTERVAL_MS = 3_600_000;

export interface HostdOptions {
  config: HostdConfig;
  log: Logger;
  /** Command of the first process of each sandbox; the agent by default. */
  command?: readonly string[];
}

export interface Hostd {
  /**
   * Stops accepting requests and undoes the launches under way. Sandboxes keep running; if there are none, all of
   * hostd's resources are removed from the host.
   */
  close(): Promise<void>;
}

/** Starts hostd and resolves when it serves on its socket. Removes what an earlier hostd left half done first. */
export async function startHostd(options: HostdOptions): Promise<Hostd> {
  const { config, log } = options;
  const host = await openHost(config, log);
  const { records, processor: groups } = host;
  const liveKeys = () => records.keys().filter((key) => records.read(key)?.status === 'live');
  // Before any process is started, because processes inherit their time slice from this one.
  const scheduler = new FairScheduler({ groups, keys: liveKeys, log });
  const cacheUse = new CacheUse(config.usedDir, log);
  const built = new Templates(config.templatesDir, (name) => cacheUse.note(name));
  const captured = new CapturedVersions(join(config.hostdDir, 'versions'), host.layers);
  const templates = new LaunchableVersions(built, captured);
  const launcher = makeLauncher(host, options);
  const remove = (key: InstanceKey) => removeInstance(key, host);
  const demand = new Demand();
  const { waitingInstanceBytes } = host.runtime;
  // A configured size is a number of instances, so each instance then takes one place, whatever its memory.
  const places = new PoolPlaces(config.pool.size === undefined ? waitingInstanceBytes : Number.POSITIVE_INFINITY);
  const maker = new PooledInstances({ ...host, launcher, templates, places, removeInstance: remove });
  const size = config.pool.size ?? defaultPoolSize(waitingInstanceBytes);
  const pool = new WarmPool({ size, lanes: launchesAhead(), demand, maker, log });
  const readLive = (key: InstanceKey) => {
    const record = records.read(key);
    return record?.status === 'live' ? host.readings.read(key, record) : undefined;
  };
  const measurements = new Measurements({ keys: liveKeys, read: readLive, log });
  const instances = new Instances({ ...host, launcher, pool, templates, removeInstance: remove, log });
  const captures = new Captures({ ...host, instances, versions: templates, captured, removeInstance: remove, log });
  const seed = () => seedDemand(demand, templates, config.pool.resources);
  const emptyPool = async () => {
    await seed();
    await pool.refresh();
  };
  const removal = new VersionRemoval({ records, captured, emptyPool });
  await instances.sweep();
  instances.takeOver();
  host.egress.open(instances.gated());
  measurements.open();

  const { installationId, ociRuntime } = config;
  const protocols = { protocolVersion: HOSTD_PROTOCOL_VERSION, agentProtocolVersion: AGENT_PROTOCOL_VERSION };
  const identity = { ...protocols, installationId, ociRuntime };
  const health = () => ({ status: 'ready' as const, ...identity, pool: pool.state() });
  const metrics = async () => poolMetrics(pool.state()) + (await host.egress.metrics());
  const app = createApp({
    instances,
    measured: new MeasuredInstances({ ...host, measurements }),
    templates,
    captured,
    captures,
    removal,
    noteLanguage: (language) => maker.noteLanguage(language),
    noteBusyClaim: () => pool.noteBusyClaim(),
    health,
    metrics,
    log,
  });
  await listen(app, config);
  const tidying = tidyWhenIdle(app.server, config.idleTidyingMs);
  await seed();
  pool.open();
  const lockWatch = new LockWatch({ groups: host.cgroups, keys: liveKeys, log });
  const sweeping = new AbortController();
  const noteUses = async () => {
    cacheUse.note(guestUse(basename(config.guestDir)));
    const lives = records.keys().map((key) => records.read(key));
    const ids = lives.flatMap((record) => (record && 'templateVersionId' in record ? [record.templateVersionId] : []));
    // `find` records the use. A version built on the host stays in use while a captured version is based on it.
    for (const id of new Set([...ids, ...captured.bases()])) await templates.find(id);
    await removal.removeUnused(config.cacheRetentionMs);
    captured.removeUnusedLayers();
  };
  await noteUses();
  const noted = repeatedly(sweeping.signal, log, noteUses, NOTE_INTERVAL_MS);
  const swept = repeatedly(sweeping.signal, log, async () => {
    await repairNetwork(host.network, log);
    host.layers.closeIdle(LAYER_IDLE_MS);
    await instances.sweep();
    await seed();
    await pool.refresh();
  });

  return {
    close: async () => {
      sweeping.abort();
      instances.abortLaunches();
      captures.abort();
      // Kernels are closed together with the requests: a fork into a sandbox that has just ended would keep its request
      // open for five seconds, and so delay the next hostd.
      await Promise.all([app.close(), host.kernels.close()]);
      tidying.stop();
      scheduler.close();
      await Promise.all([swept, noted, lockWatch.close(), measurements.close()]);
      await Promise.all([pool.close(), instances.settled()]);
      await instances.sweep();
      host.runtime.close();
      await host.egress.close();
      if (instances.list().length === 0) await closeHost(host);
    },
  };
}

/**
 * Returns how many instances may be launched ahead at a time: one for each processor, at most the limit for requested
 * launches.
 */
function launchesAhead(): number {
  return Math.min(availableParallelism(), PARALLEL_LAUNCHES);
}

function makeLauncher(host: Host, { command, log }: HostdOptions): Launcher {
  return new Launcher(host, {
    ...(command && { command }),
    onStep: (step, durationMs) => log.trace({ step, durationMs }),
  });
}

async function listen(app: ReturnType<typeof createApp>, { run, service }: HostdConfig): Promise<void> {
  // A killed hostd leaves its socket. The lock ensures that no other hostd uses it now.
  rmSync(run.hostdSocket, { force: true });
  await app.listen({ path: run.hostdSocket });
  chownSync(run.hostdSocket, 0, service.gid);
  chmodSync(run.hostdSocket, 0o660);
}

async function repeatedly(
  signal: AbortSignal,
  log: Logger,
  act: () => Promise<void>,
  intervalMs = SWEEP_INTERVAL_MS,
): Promise<void> {
  while (!signal.aborted) {
    await delay(intervalMs, undefined, { signal, ref: false }).catch(() => {});
    if (!signal.aborted) await act().catch((err) => log.error({ operation: 'sweep', outcome: 'failed', err }));
  }
}

async function repairNetwork(network: SandboxNetwork, log: Logger): Promise<void> {
  try {
    if (await network.repair()) log.warn({ operation: 'repair', outcome: 'the rules were gone and are back' });
  } catch (err) {
    log.error({ operation: 'repair', outcome: 'failed', err });
  }
}
