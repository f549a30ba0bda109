import { join } from 'node:path';
import { machineProcessors } from '@cloche/layout';
import type { Logger } from 'pino';
import { CacheUse } from '../base/cache-use.ts';
import { Captures } from '../capture/captures.ts';
import { VersionRemoval } from '../capture/version-removal.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { Freezing } from '../instances/freezing.ts';
import { Instances, PARALLEL_LAUNCHES } from '../instances/instances.ts';
import { MeasuredInstances } from '../instances/measured-instances.ts';
import { TakeParked } from '../instances/take-parked.ts';
import { TakePooled } from '../instances/take-pooled.ts';
import { Launcher } from '../launch/launcher.ts';
import { MemoryRoom } from '../memory/memory-room.ts';
import { Measurements } from '../metering/measurements.ts';
import { NetworkWatch } from '../network/network-watch.ts';
import { Parking } from '../parking/parking.ts';
import { defaultPoolSize } from '../pool/default-pool-size.ts';
import { Demand } from '../pool/demand.ts';
import { DemandFile } from '../pool/demand-file.ts';
import { PoolCapacity } from '../pool/pool-capacity.ts';
import { PooledInstances } from '../pool/pooled-instances.ts';
import { seedDemand } from '../pool/seed-demand.ts';
import { WarmPool } from '../pool/warm-pool.ts';
import { CapturedVersions } from '../storage/captured-versions.ts';
import { LaunchableVersions } from '../storage/launchable-versions.ts';
import { Templates } from '../storage/templates.ts';
import { removeInstance } from '../teardown/remove-instance.ts';
import type { HostdConfig } from './config.ts';
import type { Host } from './open-host.ts';

export interface HostdOptions {
  config: HostdConfig;
  log: Logger;
  /** Command of the first process of each sandbox; the agent by default. */
  command?: readonly string[];
  /** Called after each step of a launch, and of the end of an instance whose disk is kept. */
  onStep?: (step: string) => void;
}

/** Actions of hostd on the parts of its host. */
export interface HostdServices {
  instances: Instances;
  freezing: Freezing;
  measured: MeasuredInstances;
  measurements: Measurements;
  pool: WarmPool;
  maker: PooledInstances;
  /** Built and captured versions. */
  templates: LaunchableVersions;
  captured: CapturedVersions;
  captures: Captures;
  parking: Parking;
  removal: VersionRemoval;
  cacheUse: CacheUse;
  networkWatch: NetworkWatch;
  /** Notes the demand that is expected without a request. */
  seedDemand: () => Promise<void>;
  demandFile: DemandFile;
}

/** Composes hostd on a host. Starts nothing. */
export function composeHostd(host: Host, options: HostdOptions): HostdServices {
  const { config, log } = options;
  const { records } = host;
  const cacheUse = new CacheUse(config.usedDir, log);
  const built = new Templates(config.templatesDir, (name) => cacheUse.note(name));
  const captured = new CapturedVersions(join(config.hostdDir, 'versions'), host.layers);
  const templates = new LaunchableVersions(built, captured);
  const launcher = makeLauncher(host, options);
  const remove = (key: InstanceKey) => removeInstance(key, host);
  const demand = new Demand();
  const { pool, maker } = composePool(host, { options, templates, launcher, demand, removeInstance: remove });
  const measurements = new Measurements({
    keys: () => liveKeys(host),
    read: (key) => {
      const record = records.read(key);
      return record?.status === 'live' ? host.readings.read(key, record) : undefined;
    },
    log,
  });
  const claims = new TakePooled({ ...host, pool, removeInstance: remove, log });
  const room = composeRoom(host, config, pool);
  const parked = new TakeParked({ ...host, removeInstance: remove });
  const waiting = { pool, claims, parked };
  const instances = new Instances({ ...host, ...waiting, launcher, templates, room, removeInstance: remove, log });
  const parking = new Parking({ ...host, instances, removeInstance: remove, log, onStep: options.onStep });
  const captures = new Captures({ ...host, instances, versions: templates, captured, removeInstance: remove, log });
  const seed = () => seedDemand(demand, templates, config.pool.resources);
  const emptyPool = async () => {
    await seed();
    await pool.refresh();
  };
  const removal = new VersionRemoval({ ...host, captured, emptyPool });
  const measured = new MeasuredInstances({ ...host, measurements });
  return {
    instances,
    freezing: new Freezing({ ...host, instances, room }),
    measured,
    measurements,
    pool,
    maker,
    templates,
    captured,
    captures,
    parking,
    removal,
    cacheUse,
    networkWatch: new NetworkWatch({ network: host.network, log }),
    seedDemand: seed,
    demandFile: new DemandFile(join(config.hostdDir, 'demand.json'), demand),
  };
}

/** Returns the instances that sandboxes have. */
export function liveKeys({ records }: Pick<Host, 'records'>): InstanceKey[] {
  return records.keys().filter((key) => records.read(key)?.status === 'live');
}

/** Composes the check of memory for launches and wakes, which ends pooled instances and then reclaims frozen ones. */
function composeRoom(host: Host, config: HostdConfig, pool: WarmPool): MemoryRoom {
  const { records, frozen } = host;
  return new MemoryRoom({
    ...config.memory,
    promisedBytes: () =>
      records.keys().reduce((sum, key) => {
        const record = records.read(key);
        return record?.status === 'live' && !frozen.has(key) ? sum + (record.memoryBytes ?? 0) : sum;
      }, 0),
    makeRoom: async (isEnough) => {
      await pool.giveUp();
      if (!isEnough()) await frozen.hurry(isEnough);
    },
  });
}

interface PoolParts {
  options: HostdOptions;
  templates: LaunchableVersions;
  launcher: Launcher;
  demand: Demand;
  removeInstance: (key: InstanceKey) => Promise<void>;
}

function composePool(host: Host, { options, demand, ...parts }: PoolParts): { pool: WarmPool; maker: PooledInstances } {
  const { config, log } = options;
  const { waitingInstanceBytes } = host.runtime;
  // A configured size is a number of instances, so each instance then takes one place, whatever its memory.
  const places = new PoolCapacity(config.pool.size === undefined ? waitingInstanceBytes : Number.POSITIVE_INFINITY);
  const maker = new PooledInstances({ ...host, ...parts, places });
  const size = config.pool.size ?? defaultPoolSize(waitingInstanceBytes);
  return { pool: new WarmPool({ size, parallelLaunches: launchesAhead(), demand, maker, log }), maker };
}

/**
 * Returns how many instances may be launched ahead at a time: one for each processor, at most the limit for requested
 * launches.
 */
function launchesAhead(): number {
  return Math.min(machineProcessors(), PARALLEL_LAUNCHES);
}

function makeLauncher(host: Host, { command, log, onStep }: HostdOptions): Launcher {
  return new Launcher(host, {
    ...(command && { command }),
    onStep: (step, durationMs) => {
      log.trace({ step, durationMs });
      onStep?.(step);
    },
  });
}
