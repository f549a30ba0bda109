import { existsSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { cachePaths, dataPaths, machineMemory, runPaths } from '@cloche/layout';
import { egressPaths, isGvisor, type LaunchSpec } from '@cloche/protocol';
import {
  hostDefaults,
  type OperatorRanges,
  readOperatorRanges,
  readSettings,
  type SettingValues,
} from '@cloche/settings';

const MEBIBYTE = 1024 * 1024;
/** Of the machine's memory. */
const PAUSED_SHARE = 0.7;
const KEPT_SHARE = 0.05;
const MOST_KEPT_BYTES = 1024 * MEBIBYTE;

type Settings = SettingValues<'hostd'> & ReturnType<typeof hostDefaults>;

/** All settings of hostd, read once at its start. */
export interface HostdConfig {
  installationId: string;
  hostdDir: string;
  runDir: string;
  run: ReturnType<typeof runPaths>;
  egress: ReturnType<typeof egressPaths>;
  templatesDir: string;
  /** Folder with a file for each cache entry in use. */
  usedDir: string;
  /** Time that a snapshot is kept after its last use. */
  cacheRetentionMs: number;
  guestDir: string;
  /** crun, runc or runsc. */
  ociRuntime: string;
  ociRuntimeProgram: string;
  service: { uid: number; gid: number };
  ranges: OperatorRanges;
  /**
   * Bytes of the disks' volume that stay free (undefined: a share of the volume), and how many times the remaining free
   * space may be promised.
   */
  disk: { reserveBytes: number | undefined; overcommit: number };
  /**
   * Instances launched ahead: how many (undefined: as many as the host's memory allows), and the resources of each
   * before any other size was requested.
   */
  pool: { size: number | undefined; resources: LaunchSpec['resources'] };
  /** Frozen instances: time until their memory is reclaimed, and the most of the machine's memory that they may hold. */
  frozen: { reclaimMs: number; limitBytes: number };
  /** Memory that launches and thaws leave, and how many times it may be promised (undefined: any number). */
  memory: { keepBytes: number; overcommit: number | undefined };
  /** Idle time after the last request before hostd returns memory to the system. */
  idleTidyingMs: number;
  logLevel: string;
}

/** Reads the configuration. Throws the name of each setting that is missing or invalid. */
export function readConfig(env: NodeJS.ProcessEnv): HostdConfig {
  const settings = checkedSettings(env);
  const dataDir = settings.CLOCHE_DATA_DIR;
  const cache = cachePaths(settings.CLOCHE_CACHE_DIR);
  const data = dataPaths(dataDir);
  const installationId = readInstallationId(data.installationId);
  const runDir = settings.CLOCHE_RUN_DIR ?? `/run/cloche/${installationId}`;
  return Object.freeze({
    installationId,
    hostdDir: data.hostdDir,
    runDir,
    run: runPaths(runDir),
    egress: egressPaths(runDir, dataDir),
    templatesDir: cache.templatesDir,
    usedDir: cache.usedDir,
    cacheRetentionMs: settings.CLOCHE_CACHE_RETENTION_MS,
    guestDir: settings.CLOCHE_GUEST_DIR,
    ...readOciRuntime(settings.CLOCHE_OCI_RUNTIME, cache.runsc),
    service: { uid: settings.CLOCHE_SERVICE_UID, gid: settings.CLOCHE_SERVICE_GID },
    ranges: readOperatorRanges(settings),
    disk: readDisk(settings),
    pool: readPool(settings),
    ...readMemory(settings),
    idleTidyingMs: settings.CLOCHE_IDLE_TIDYING_MS,
    logLevel: settings.CLOCHE_LOG_LEVEL,
  });
}

function checkedSettings(env: NodeJS.ProcessEnv): Settings {
  const { values, problems } = readSettings('hostd', env, hostDefaults(machineMemory().totalBytes));
  if (problems.length > 0) throw new Error(`configuration: ${problems.join('; ')}`);
  return values;
}

/** Resolves a runtime's name or path. One that is built for Cloche is used, if it exists. */
function readOciRuntime(given: string, builtRunsc: string): Pick<HostdConfig, 'ociRuntime' | 'ociRuntimeProgram'> {
  const program = isGvisor(given) && existsSync(builtRunsc) ? builtRunsc : given;
  return { ociRuntime: basename(program), ociRuntimeProgram: program };
}

function readDisk(settings: Settings): HostdConfig['disk'] {
  const { CLOCHE_DISK_RESERVE_MB: reserveMb, CLOCHE_DISK_OVERCOMMIT: overcommit } = settings;
  return { reserveBytes: reserveMb === undefined ? undefined : reserveMb * MEBIBYTE, overcommit };
}

function readMemory(settings: Settings): Pick<HostdConfig, 'frozen' | 'memory'> {
  const { totalBytes } = machineMemory();
  const { CLOCHE_PAUSED_MEMORY_MB: pausedMb, CLOCHE_MEMORY_KEEP_MB: keepMb } = settings;
  return {
    frozen: {
      reclaimMs: settings.CLOCHE_FROZEN_RECLAIM_MS,
      limitBytes: pausedMb === undefined ? totalBytes * PAUSED_SHARE : pausedMb * MEBIBYTE,
    },
    memory: {
      keepBytes: keepMb === undefined ? Math.min(totalBytes * KEPT_SHARE, MOST_KEPT_BYTES) : keepMb * MEBIBYTE,
      overcommit: settings.CLOCHE_MEMORY_OVERCOMMIT,
    },
  };
}

function readPool(settings: Settings): HostdConfig['pool'] {
  return {
    size: settings.CLOCHE_POOL_SIZE,
    resources: {
      cpu: settings.CLOCHE_SANDBOX_DEFAULT_CPU,
      memoryBytes: settings.CLOCHE_SANDBOX_DEFAULT_MEMORY_MB * MEBIBYTE,
      diskBytes: settings.CLOCHE_SANDBOX_DEFAULT_DISK_MB * MEBIBYTE,
      pids: settings.CLOCHE_SANDBOX_DEFAULT_PIDS,
    },
  };
}

function readInstallationId(file: string): string {
  const id = readFileSync(file, 'utf8').trim();
  if (!/^[a-z0-9]{8}$/.test(id))
    throw new Error(`${file} does not contain an installation id: 8 characters of a-z and 0-9`);
  return id;
}
