import { existsSync, readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { basename } from 'node:path';
import { cachePlaces, dataPlaces, runPlaces } from '@cloche/layout';
import { SERVICE_IDLE_MS } from '@cloche/node-support';
import {
  defaultResources,
  egressPlaces,
  type LaunchSpec,
  type OperatorRanges,
  readOperatorRanges,
} from '@cloche/protocol';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';

const DEFAULT_DATA_DIR = '/var/lib/cloche';
const DEFAULT_CACHE_DIR = '/var/cache/cloche';
const ABSOLUTE_PATH = { pattern: '^/' };
const WHOLE_NUMBER = { pattern: '^[0-9]{1,10}$' };
const MEBIBYTE = 1024 * 1024;
/** What an instance that waits costs, generously: in its control group it has some 16 MB; in gVisor some 140. */
const POOLED_INSTANCE_BYTES = 24 * MEBIBYTE;
const POOLED_IN_GVISOR_BYTES = 160 * MEBIBYTE;
const POOL_SHARE_OF_MEMORY = 1 / 16;
const LARGEST_DEFAULT_POOL = 64;

const Environment = Type.Object({
  CLOCHE_DATA_DIR: Type.Optional(Type.String(ABSOLUTE_PATH)),
  CLOCHE_RUN_DIR: Type.Optional(Type.String(ABSOLUTE_PATH)),
  CLOCHE_CACHE_DIR: Type.Optional(Type.String(ABSOLUTE_PATH)),
  CLOCHE_GUEST_DIR: Type.String(ABSOLUTE_PATH),
  CLOCHE_OCI_RUNTIME: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9._/-]+$' })),
  CLOCHE_SERVICE_UID: Type.String(WHOLE_NUMBER),
  CLOCHE_SERVICE_GID: Type.String(WHOLE_NUMBER),
  CLOCHE_POOL_SIZE: Type.Optional(Type.String({ pattern: '^[0-9]{1,4}$' })),
  CLOCHE_SANDBOX_DEFAULT_CPU: Type.Optional(Type.String({ pattern: '^[0-9]{1,3}([.][0-9]+)?$' })),
  CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: Type.Optional(Type.String(WHOLE_NUMBER)),
  CLOCHE_SANDBOX_DEFAULT_DISK_MB: Type.Optional(Type.String(WHOLE_NUMBER)),
  CLOCHE_SANDBOX_DEFAULT_PIDS: Type.Optional(Type.String(WHOLE_NUMBER)),
  CLOCHE_DISK_RESERVE_MB: Type.Optional(Type.String(WHOLE_NUMBER)),
  CLOCHE_DISK_OVERCOMMIT: Type.Optional(Type.String({ pattern: '^[1-9][0-9]{0,5}$' })),
  CLOCHE_EGRESS_ALLOW_CIDRS: Type.Optional(Type.String()),
  CLOCHE_EGRESS_DENY_CIDRS: Type.Optional(Type.String()),
  CLOCHE_IDLE_TIDYING_MS: Type.Optional(Type.String({ pattern: '^[1-9][0-9]{0,8}$' })),
  CLOCHE_LOG_LEVEL: Type.Optional(
    Type.Union(['trace', 'debug', 'info', 'warn', 'error', 'fatal'].map((l) => Type.Literal(l))),
  ),
});

/** All that hostd is told, read once at its start. */
export interface HostdConfig {
  installationId: string;
  hostdDir: string;
  runDir: string;
  run: ReturnType<typeof runPlaces>;
  egress: ReturnType<typeof egressPlaces>;
  templatesDir: string;
  /** Where the cache learns what is in use. */
  usedDir: string;
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
  /** Instances launched ahead: how many, and what each gets before anybody has asked for anything else. */
  pool: { size: number; resources: LaunchSpec['resources'] };
  /** So long after the last request, memory is given back. */
  idleTidyingMs: number;
  logLevel: string;
}

/** Throws what is missing or wrong, by its name. */
export function readConfig(env: NodeJS.ProcessEnv): HostdConfig {
  const known = Object.fromEntries(Object.keys(Environment.properties).map((name) => [name, env[name] || undefined]));
  const given = Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined));
  assertEnvironment(given);
  const dataDir = given.CLOCHE_DATA_DIR ?? DEFAULT_DATA_DIR;
  const cache = cachePlaces(given.CLOCHE_CACHE_DIR ?? DEFAULT_CACHE_DIR);
  const data = dataPlaces(dataDir);
  const installationId = readInstallationId(data.installationId);
  const runtime = readOciRuntime(given.CLOCHE_OCI_RUNTIME ?? 'crun', cache.runsc);
  const runDir = given.CLOCHE_RUN_DIR ?? `/run/cloche/${installationId}`;
  return Object.freeze({
    installationId,
    hostdDir: data.hostdDir,
    runDir,
    run: runPlaces(runDir),
    egress: egressPlaces(runDir, dataDir),
    templatesDir: cache.templatesDir,
    usedDir: cache.usedDir,
    guestDir: given.CLOCHE_GUEST_DIR,
    ...runtime,
    service: { uid: Number(given.CLOCHE_SERVICE_UID), gid: Number(given.CLOCHE_SERVICE_GID) },
    ranges: readOperatorRanges(given),
    disk: readDisk(given),
    pool: readPool(given, runtime.ociRuntime),
    idleTidyingMs: Number(given.CLOCHE_IDLE_TIDYING_MS ?? SERVICE_IDLE_MS),
    logLevel: given.CLOCHE_LOG_LEVEL ?? 'info',
  });
}

function assertEnvironment(given: unknown): asserts given is Static<typeof Environment> {
  const [first] = Value.Errors(Environment, given);
  if (first) throw new Error(`configuration: ${first.instancePath.slice(1) || 'environment'} ${first.message}`);
}

/** A name or a path; what goes by the name of runsc is the one that was built for Cloche, if one was. */
function readOciRuntime(given: string, builtRunsc: string): Pick<HostdConfig, 'ociRuntime' | 'ociRuntimeProgram'> {
  const program = given === 'runsc' && existsSync(builtRunsc) ? builtRunsc : given;
  return { ociRuntime: basename(program), ociRuntimeProgram: program };
}

/** Most sandboxes write little of what they may. */
const DEFAULT_OVERCOMMIT = 20;

function readDisk(given: Static<typeof Environment>): HostdConfig['disk'] {
  const { CLOCHE_DISK_RESERVE_MB: reserveMb, CLOCHE_DISK_OVERCOMMIT: overcommit } = given;
  return {
    reserveBytes: reserveMb === undefined ? undefined : Number(reserveMb) * MEBIBYTE,
    overcommit: Number(overcommit ?? DEFAULT_OVERCOMMIT),
  };
}

function readPool(given: Static<typeof Environment>, ociRuntime: string): HostdConfig['pool'] {
  const defaults = { ...defaultResources(totalmem()), CLOCHE_POOL_SIZE: defaultPoolSize(ociRuntime) };
  const number = (name: keyof typeof defaults) => Number(given[name] ?? defaults[name]);
  return {
    size: number('CLOCHE_POOL_SIZE'),
    resources: {
      cpu: number('CLOCHE_SANDBOX_DEFAULT_CPU'),
      memoryBytes: number('CLOCHE_SANDBOX_DEFAULT_MEMORY_MB') * MEBIBYTE,
      diskBytes: number('CLOCHE_SANDBOX_DEFAULT_DISK_MB') * MEBIBYTE,
      pids: number('CLOCHE_SANDBOX_DEFAULT_PIDS'),
    },
  };
}

function defaultPoolSize(ociRuntime: string): number {
  const instanceBytes = ociRuntime === 'runsc' ? POOLED_IN_GVISOR_BYTES : POOLED_INSTANCE_BYTES;
  return Math.min(LARGEST_DEFAULT_POOL, Math.floor((totalmem() * POOL_SHARE_OF_MEMORY) / instanceBytes));
}

function readInstallationId(file: string): string {
  const id = readFileSync(file, 'utf8').trim();
  if (!/^[a-z0-9]{8}$/.test(id)) throw new Error(`${file} holds no installation id of 8 characters of a-z and 0-9`);
  return id;
}
