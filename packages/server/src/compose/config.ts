/** The settings of the server, read once from the environment. Nobody else looks there. */
import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { dataPlaces } from '@cloche/layout';
import { SERVICE_IDLE_MS } from '@cloche/node-support';
import { defaultResources } from '@cloche/protocol';
import { type Static, type TSchema, Type } from 'typebox';
import { Errors } from 'typebox/value';
import { parseApiKey } from '../api-keys/api-key-format.ts';
import type { ArtifactSettings } from '../artifacts/artifact-settings.ts';
import type { SandboxSettings } from '../sandboxes/record/sandbox-settings.ts';

const PREFIX = 'CLOCHE_';
const MEBIBYTE = 1024 * 1024;

/** Read by other parts of an installation, which may share this one's environment. */
const READ_BY_OTHERS: readonly string[] = [
  'CLOCHE_API_KEY',
  'CLOCHE_CACHE_DIR',
  'CLOCHE_CONFIG_FILE',
  'CLOCHE_DNS_UPSTREAM',
  'CLOCHE_EGRESS_ALLOW_CIDRS',
  'CLOCHE_EGRESS_DENY_CIDRS',
  'CLOCHE_EGRESS_EXTRA_CA',
  'CLOCHE_GUEST_DIR',
  'CLOCHE_OCI_RUNTIME',
  'CLOCHE_POOL_SIZE',
  'CLOCHE_SERVICE_GID',
  'CLOCHE_SERVICE_UID',
  'CLOCHE_URL',
];

/** `means` completes "CLOCHE_… must be". */
const integer = (minimum: number, maximum: number) =>
  Type.Integer({ minimum, maximum, means: `a whole number from ${minimum} to ${maximum}` });
const cores = Type.Number({ minimum: 0.1, maximum: 256, means: 'a number of cores from 0.1 to 256' });
const memoryMb = integer(128, 1 << 24);
const diskMb = integer(64, 1 << 24);
const pids = integer(32, 1 << 22);
const folder = Type.String({ pattern: '^/', means: 'an absolute path' });
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
const logLevel = Type.Unsafe<(typeof LOG_LEVELS)[number]>({
  type: 'string',
  enum: [...LOG_LEVELS],
  means: `one of ${LOG_LEVELS.join(', ')}`,
});

const Settings = Type.Object({
  CLOCHE_PORT: integer(0, 65_535),
  CLOCHE_HOST: Type.String({ minLength: 1, means: 'an address to listen on' }),
  CLOCHE_DATA_DIR: folder,
  CLOCHE_RUN_DIR: Type.Optional(folder),
  CLOCHE_DATABASE_URL: Type.Optional(Type.String({ pattern: '^[a-z]+:', means: 'a URL such as sqlite:/path/to/file' })),
  CLOCHE_RUNTIME: Type.Literal('hostd', { means: 'hostd' }),
  CLOCHE_BOOTSTRAP_API_KEY: Type.Optional(
    Type.String({
      pattern: '^[\\x21-\\x7e][\\x20-\\x7e]{18,1022}[\\x21-\\x7e]$',
      means: '20 or more printable ASCII characters; `openssl rand -hex 32` prints good ones',
    }),
  ),
  CLOCHE_LOG_LEVEL: logLevel,
  CLOCHE_SANDBOX_DEFAULT_CPU: cores,
  CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: memoryMb,
  CLOCHE_SANDBOX_DEFAULT_DISK_MB: diskMb,
  CLOCHE_SANDBOX_DEFAULT_PIDS: pids,
  CLOCHE_SANDBOX_MAX_CPU: cores,
  CLOCHE_SANDBOX_MAX_MEMORY_MB: memoryMb,
  CLOCHE_SANDBOX_MAX_DISK_MB: diskMb,
  CLOCHE_SANDBOX_MAX_PIDS: pids,
  CLOCHE_MAX_SANDBOXES: Type.Optional(integer(1, 1_000_000)),
  CLOCHE_ARTIFACTS_URL: Type.Optional(
    Type.String({ pattern: '^(file:///.|s3://.)', means: 'file:///folder or s3://bucket/prefix?endpoint=…&region=…' }),
  ),
  CLOCHE_ARTIFACT_MAX_MB: integer(1, 5 * 1024 * 1024),
  CLOCHE_DISK_RESERVE_MB: Type.Optional(integer(0, 1024 * 1024 * 1024)),
  CLOCHE_REPLAY_MAX_MB: integer(1, 1024 * 1024 * 1024),
  CLOCHE_ARTIFACTS_MAX_MB: Type.Optional(integer(1, 1024 * 1024 * 1024)),
  CLOCHE_ARTIFACT_RETENTION_MS: Type.Optional(integer(1000, Number.MAX_SAFE_INTEGER)),
  CLOCHE_PUBLIC_URL: Type.Optional(Type.String({ pattern: '^https?://[^/?#]+/?$', means: 'a URL of a host alone' })),
  CLOCHE_PREVIEW_URL: Type.Optional(
    Type.String({
      pattern: '^https?://[a-z0-9][a-z0-9.-]*[a-z0-9](:[0-9]{1,5})?/?$',
      means: 'a URL of a host alone, in lower case, such as https://preview.example.com',
    }),
  ),
  CLOCHE_TERMINAL_IDLE_MS: integer(1000, 86_400_000),
  CLOCHE_TRANSFER_STALL_MS: integer(100, 86_400_000),
  CLOCHE_IDLE_TIDYING_MS: integer(1, 999_999_999),
  CLOCHE_LAUNCH_TIMEOUT_MS: integer(100, 600_000),
  CLOCHE_RECONCILE_INTERVAL_MS: integer(100, 3_600_000),
  CLOCHE_RECORD_RETENTION_MS: integer(86_400_000, Number.MAX_SAFE_INTEGER),
});
type Settings = Static<typeof Settings>;

/** What holds where a variable is not set. The largest sandbox is by default one that fills this host. */
function defaults(): Partial<Record<keyof Settings, unknown>> {
  const hostCpu = availableParallelism();
  const hostMemoryMb = Math.floor(totalmem() / MEBIBYTE);
  return {
    CLOCHE_PORT: 4680,
    CLOCHE_HOST: '127.0.0.1',
    CLOCHE_DATA_DIR: '/var/lib/cloche',
    CLOCHE_RUNTIME: 'hostd',
    CLOCHE_LOG_LEVEL: 'info',
    ...defaultResources(totalmem()),
    CLOCHE_SANDBOX_MAX_CPU: hostCpu,
    CLOCHE_SANDBOX_MAX_MEMORY_MB: hostMemoryMb,
    CLOCHE_SANDBOX_MAX_DISK_MB: 65_536,
    CLOCHE_SANDBOX_MAX_PIDS: defaultMaxPids(),
    CLOCHE_ARTIFACT_MAX_MB: 10_240,
    CLOCHE_REPLAY_MAX_MB: 8192,
    CLOCHE_TERMINAL_IDLE_MS: 600_000,
    CLOCHE_TRANSFER_STALL_MS: 60_000,
    CLOCHE_IDLE_TIDYING_MS: SERVICE_IDLE_MS,
    CLOCHE_LAUNCH_TIMEOUT_MS: 60_000,
    CLOCHE_RECONCILE_INTERVAL_MS: 30_000,
    CLOCHE_RECORD_RETENTION_MS: 30 * 86_400_000,
  };
}

const MOST_PIDS = 8192;
/**
 * The number of sandboxes with the largest process limit that must fit into the host's process ids. A host with few
 * process ids lowers that limit.
 */
const SANDBOXES_OF_MOST_PIDS = 16;

export function defaultMaxPids(pidMax = Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8'))): number {
  return Math.min(MOST_PIDS, Math.floor(pidMax / SANDBOXES_OF_MOST_PIDS));
}

export interface Config {
  readonly port: number;
  readonly host: string;
  readonly dataDir: string;
  readonly runDir: string;
  readonly databaseUrl: string;
  /** How long a shell lives without anybody who watches its terminal. */
  readonly terminalIdleMs: number;
  /** How long an upload or a download may go without a byte. */
  readonly transferStallMs: number;
  /** So long after the last request, memory is given back. */
  readonly idleTidyingMs: number;
  /** Bytes of the answers that are kept for replay for one organization. */
  readonly replayMaxBytes: number;
  /** Bytes of the volume that stay free for existing data; undefined: a share of the volume. */
  readonly diskReserveBytes: number | undefined;
  readonly bootstrapApiKey: string | undefined;
  readonly logLevel: (typeof LOG_LEVELS)[number];
  /** Below which every preview has a host; undefined: `http://localhost` at the port that is served. */
  readonly previewUrl: string | undefined;
  readonly artifacts: ArtifactSettings;
  readonly sandboxes: SandboxSettings;
}

/** The environment does not make a configuration. The message names each variable and what it must be. */
export class ConfigProblem extends Error {
  override readonly name = 'ConfigProblem';
}

/** @throws ConfigProblem */
export function readConfig(env: Readonly<Record<string, string | undefined>> = process.env): Config {
  const settings = readSettings(env);
  const resources = (kind: 'DEFAULT' | 'MAX') => ({
    cpu: settings[`CLOCHE_SANDBOX_${kind}_CPU`],
    memoryMb: settings[`CLOCHE_SANDBOX_${kind}_MEMORY_MB`],
    diskMb: settings[`CLOCHE_SANDBOX_${kind}_DISK_MB`],
    pids: settings[`CLOCHE_SANDBOX_${kind}_PIDS`],
  });
  const dataDir = settings.CLOCHE_DATA_DIR;
  return Object.freeze({
    port: settings.CLOCHE_PORT,
    host: settings.CLOCHE_HOST,
    dataDir,
    runDir: settings.CLOCHE_RUN_DIR ?? defaultRunDir(dataDir),
    databaseUrl: settings.CLOCHE_DATABASE_URL ?? `sqlite:${dataPlaces(dataDir).sqliteFile}`,
    bootstrapApiKey: settings.CLOCHE_BOOTSTRAP_API_KEY,
    logLevel: settings.CLOCHE_LOG_LEVEL,
    terminalIdleMs: settings.CLOCHE_TERMINAL_IDLE_MS,
    transferStallMs: settings.CLOCHE_TRANSFER_STALL_MS,
    diskReserveBytes: inBytes(settings.CLOCHE_DISK_RESERVE_MB),
    replayMaxBytes: settings.CLOCHE_REPLAY_MAX_MB * MEBIBYTE,
    idleTidyingMs: settings.CLOCHE_IDLE_TIDYING_MS,
    previewUrl: settings.CLOCHE_PREVIEW_URL,
    artifacts: Object.freeze(artifactSettings(settings, dataDir)),
    sandboxes: Object.freeze({
      defaultResources: Object.freeze(resources('DEFAULT')),
      maxResources: Object.freeze(resources('MAX')),
      maxLiveSandboxes: settings.CLOCHE_MAX_SANDBOXES,
      launchTimeoutMs: settings.CLOCHE_LAUNCH_TIMEOUT_MS,
      reconcileIntervalMs: settings.CLOCHE_RECONCILE_INTERVAL_MS,
      recordRetentionMs: settings.CLOCHE_RECORD_RETENTION_MS,
    }),
  });
}

function inBytes(mebibytes: number | undefined): number | undefined {
  return mebibytes === undefined ? undefined : mebibytes * MEBIBYTE;
}

/** A local store gets contents by renaming, so they are gathered beside it. */
function artifactSettings(settings: Settings, dataDir: string): ArtifactSettings {
  const { artifactsDir } = dataPlaces(dataDir);
  const url = settings.CLOCHE_ARTIFACTS_URL ?? pathToFileURL(artifactsDir).href;
  const folder = url.startsWith('file:') ? fileURLToPath(url) : artifactsDir;
  return {
    url,
    stagingDir: join(folder, 'staging'),
    maxBytes: settings.CLOCHE_ARTIFACT_MAX_MB * MEBIBYTE,
    maxOrganizationBytes: inBytes(settings.CLOCHE_ARTIFACTS_MAX_MB),
    retentionMs: settings.CLOCHE_ARTIFACT_RETENTION_MS,
    publicUrl: settings.CLOCHE_PUBLIC_URL,
  };
}

function readSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const schemas: Readonly<Record<string, TSchema>> = Settings.properties;
  const given: Record<string, unknown> = defaults();
  const problems: string[] = [];
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith(PREFIX) || text === undefined || READ_BY_OTHERS.includes(name)) continue;
    const schema = schemas[name];
    if (!schema) problems.push(`${name} is not a setting; remove it or correct its name`);
    // An empty variable is how many tools spell "not set".
    else if (text !== '') given[name] = isNumeric(schema) && text.trim() !== '' ? Number(text) : text;
  }
  problems.push(...problemsOf(schemas, given), ...resourceProblems(given), ...keyProblems(given));
  if (problems.length > 0) throw new ConfigProblem(problems.join('\n'));
  // Sound: every property was checked by its schema.
  return given as Settings;
}

function problemsOf(schemas: Readonly<Record<string, TSchema>>, given: Record<string, unknown>): string[] {
  return Object.entries(schemas).flatMap(([name, schema]) => {
    const value = given[name];
    if (value === undefined || Errors(schema, value).length === 0) return [];
    return [`${name} must be ${(schema as TSchema & { means: string }).means}`];
  });
}

/** A key that begins as ours do is never accepted without its checksum. */
function keyProblems({ CLOCHE_BOOTSTRAP_API_KEY: key }: Record<string, unknown>): string[] {
  if (typeof key !== 'string' || parseApiKey(key).kind !== 'mistyped') return [];
  return [
    'CLOCHE_BOOTSTRAP_API_KEY begins with clk_ but its checksum is wrong; copy the key again, or choose one that begins ' +
      'otherwise: `openssl rand -hex 32` prints a good one',
  ];
}

function resourceProblems(given: Record<string, unknown>): string[] {
  return ['CPU', 'MEMORY_MB', 'DISK_MB', 'PIDS'].flatMap((kind) => {
    const [standard, most] = [`CLOCHE_SANDBOX_DEFAULT_${kind}`, `CLOCHE_SANDBOX_MAX_${kind}`];
    return Number(given[standard]) > Number(given[most]) ? [`${standard} must not be more than ${most}`] : [];
  });
}

function isNumeric(schema: TSchema & { type?: unknown }): boolean {
  return schema.type === 'integer' || schema.type === 'number';
}

function defaultRunDir(dataDir: string): string {
  const file = dataPlaces(dataDir).installationId;
  try {
    return join('/run/cloche', readFileSync(file, 'utf8').trim());
  } catch {
    throw new ConfigProblem(`CLOCHE_RUN_DIR must be set: ${file} does not name an installation`);
  }
}
