/** The settings of the server, read once from the environment. No other module reads it. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { ProjectQuotas } from '@cloche/contract';
import { dataPaths, machineMemory, machineProcessors } from '@cloche/layout';
import type { RunApi } from '@cloche/run-once-apis';
import { hostDefaults, isSetting, parseRanges, readSettings, type SettingValues } from '@cloche/settings';
import type { ArtifactSettings } from '../features/artifacts/artifact-settings.ts';
import type { SandboxSettings } from '../features/sandbox-records/sandbox-settings.ts';
import type { TargetOptions } from '../features/webhooks/target-guard.ts';
import { keptSocketFd } from '../platform/http/kept-socket.ts';
import { parseApiKey } from '../platform/keys/api-key-format.ts';
import { readTracingSettings, type TracingSettings } from '../platform/tracing/tracing-settings.ts';

const PREFIX = 'CLOCHE_';
const MEBIBYTE = 1024 * 1024;

type Settings = SettingValues<'server'> & ReturnType<typeof defaults>;

/** Returns the defaults that depend on the host: the largest sandbox may use all of it. */
function defaults() {
  const { totalBytes } = machineMemory();
  return {
    ...hostDefaults(totalBytes),
    CLOCHE_SANDBOX_MAX_CPU: machineProcessors(),
    CLOCHE_SANDBOX_MAX_MEMORY_MB: Math.floor(totalBytes / MEBIBYTE),
    CLOCHE_SANDBOX_MAX_PIDS: defaultMaxPids(),
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
  /** Descriptor of a listening socket that the service manager keeps; it takes the place of `host` and `port`. */
  readonly keptSocketFd: number | undefined;
  /** Time for requests in progress when the server stops, in milliseconds. */
  readonly drainMs: number;
  readonly dataDir: string;
  readonly runDir: string;
  readonly databaseUrl: string;
  /** Name of one of several servers behind a load balancer on this host. */
  readonly serverName: string | undefined;
  /** Time until other servers of the database count this one as dead, from its last renewal of the lease. */
  readonly leaseMs: number;
  /** Milliseconds that a terminal's shell lives without a client. */
  readonly terminalIdleMs: number;
  /** Longest time without a byte in an upload or a download, in milliseconds. */
  readonly transferStallMs: number;
  /** Idle time before the server returns memory to the system, in milliseconds. */
  readonly idleTidyingMs: number;
  /** Most bytes of responses stored for replay for one organization. */
  readonly replayMaxBytes: number;
  /** Bytes of the volume to keep free for existing data; undefined for a share of its size. */
  readonly diskReserveBytes: number | undefined;
  readonly bootstrapApiKey: string | undefined;
  /** Keys that encrypt secrets; undefined for those of a file. */
  readonly secretsKey: string | undefined;
  readonly logLevel: Settings['CLOCHE_LOG_LEVEL'];
  /** Registry of images whose names have none. */
  readonly defaultRegistry: string;
  /** Base URL under which every preview has a host; undefined for `http://localhost` at the served port. */
  readonly previewUrl: string | undefined;
  /** Whether the clients of E2B are answered. */
  readonly answersE2b: boolean;
  /** Features that only sandboxes of E2B's clients have. */
  readonly e2b: E2bSettings;
  /** Whether clients of the Model Context Protocol are answered. */
  readonly answersMcp: boolean;
  readonly runApis: readonly RunApi[];
  /** Whether Jupyter is answered. */
  readonly answersJupyter: boolean;
  /** How long audit events are kept, in milliseconds. */
  readonly auditRetentionMs: number;
  readonly artifacts: ArtifactSettings;
  /** Most bytes of archives of workspace runs of one organization. */
  readonly maxArchivesBytes: number;
  /** Most bytes of layers of images that builds of one organization share. */
  readonly maxLayersBytes: number;
  /** Ranges of reverse proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: readonly string[];
  readonly webhookTargets: TargetOptions;
  /** Limits of every organization whose operator sets no others. */
  readonly quotas: ProjectQuotas;
  /** Undefined if no traces are exported. */
  readonly tracing: TracingSettings | undefined;
  readonly sandboxes: SandboxSettings;
}

export interface E2bSettings {
  /** Whether their ports need no token, unless the client asks for one. */
  readonly publicPorts: boolean;
  /** Whether their user may run commands as root by `sudo`. */
  readonly sudo: boolean;
}

/** The environment has no valid configuration. The message names each wrong variable and its valid values. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** @throws ConfigError */
export function readConfig(env: Readonly<Record<string, string | undefined>> = process.env): Config {
  const settings = checkedSettings(env);
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
    keptSocketFd: checked(() => keptSocketFd(env, process.pid)),
    drainMs: settings.CLOCHE_DRAIN_MS,
    dataDir,
    runDir: settings.CLOCHE_RUN_DIR ?? defaultRunDir(dataDir),
    serverName: settings.CLOCHE_SERVER_NAME,
    leaseMs: settings.CLOCHE_SERVER_LEASE_MS,
    databaseUrl: settings.CLOCHE_DATABASE_URL ?? `sqlite:${dataPaths(dataDir).sqliteFile}`,
    bootstrapApiKey: settings.CLOCHE_BOOTSTRAP_API_KEY,
    secretsKey: settings.CLOCHE_SECRETS_KEY,
    logLevel: settings.CLOCHE_LOG_LEVEL,
    terminalIdleMs: settings.CLOCHE_TERMINAL_IDLE_MS,
    transferStallMs: settings.CLOCHE_TRANSFER_STALL_MS,
    diskReserveBytes: inBytes(settings.CLOCHE_DISK_RESERVE_MB),
    replayMaxBytes: settings.CLOCHE_REPLAY_MAX_MB * MEBIBYTE,
    idleTidyingMs: settings.CLOCHE_IDLE_TIDYING_MS,
    defaultRegistry: settings.CLOCHE_DEFAULT_REGISTRY,
    previewUrl: settings.CLOCHE_PREVIEW_URL,
    answersE2b: answers(settings.CLOCHE_E2B, settings.CLOCHE_HOST),
    e2b: Object.freeze({
      publicPorts: settings.CLOCHE_E2B_PUBLIC_PORTS === 'on',
      sudo: settings.CLOCHE_E2B_SUDO === 'on',
    }),
    answersMcp: answers(settings.CLOCHE_MCP, settings.CLOCHE_HOST),
    answersJupyter: answers(settings.CLOCHE_JUPYTER, settings.CLOCHE_HOST),
    // Sound: the pattern of the setting permits no other names.
    runApis: [...new Set(settings.CLOCHE_RUN_APIS.split(',').filter((api) => api !== ''))] as RunApi[],
    auditRetentionMs: settings.CLOCHE_AUDIT_RETENTION_MS,
    artifacts: Object.freeze(artifactSettings(settings, dataDir)),
    maxArchivesBytes: settings.CLOCHE_WORKSPACE_ARCHIVES_MAX_MB * MEBIBYTE,
    maxLayersBytes: settings.CLOCHE_IMAGE_LAYERS_MAX_MB * MEBIBYTE,
    trustedProxies: checked(() => parseRanges('CLOCHE_TRUSTED_PROXIES', settings.CLOCHE_TRUSTED_PROXIES)),
    webhookTargets: Object.freeze(checked(() => webhookTargets(settings))),
    tracing: checked(() => readTracingSettings(env)),
    quotas: Object.freeze({
      liveSandboxes: settings.CLOCHE_MAX_SANDBOXES ?? null,
      pausedSandboxes: settings.CLOCHE_MAX_SANDBOXES ?? null,
      artifactBytes: inBytes(settings.CLOCHE_ARTIFACTS_MAX_MB) ?? null,
    }),
    sandboxes: Object.freeze({
      defaultResources: Object.freeze(resources('DEFAULT')),
      maxResources: Object.freeze(resources('MAX')),
      launchTimeoutMs: settings.CLOCHE_LAUNCH_TIMEOUT_MS,
      reconcileIntervalMs: settings.CLOCHE_RECONCILE_INTERVAL_MS,
      recordRetentionMs: settings.CLOCHE_RECORD_RETENTION_MS,
      pauseRetentionMs: settings.CLOCHE_PAUSE_RETENTION_MS,
      pauseAfterIdleMs: settings.CLOCHE_PAUSE_AFTER_IDLE_MS,
      idleCpuPercent: settings.CLOCHE_IDLE_CPU_PERCENT,
      wakeTimeoutMs: settings.CLOCHE_WAKE_TIMEOUT_MS,
      eventRetentionMs: settings.CLOCHE_EVENT_RETENTION_MS,
    }),
  });
}

/** Protocols of other clients are answered by default where only the machine itself reaches the service. */
function answers(setting: 'on' | 'off' | undefined, host: string): boolean {
  if (setting !== undefined) return setting === 'on';
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

/** Calls `read`, whose errors name the wrong variable. @throws ConfigError */
function checked<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ConfigError((error as Error).message);
  }
}

function inBytes(mebibytes: number | undefined): number | undefined {
  return mebibytes === undefined ? undefined : mebibytes * MEBIBYTE;
}

/** Returns the artifact settings. A local store receives contents by renaming, so they are staged inside its folder. */
function artifactSettings(settings: Settings, dataDir: string): ArtifactSettings {
  const { artifactsDir } = dataPaths(dataDir);
  const url = settings.CLOCHE_ARTIFACTS_URL ?? pathToFileURL(artifactsDir).href;
  const folder = url.startsWith('file:') ? fileURLToPath(url) : artifactsDir;
  return {
    url,
    stagingDir: join(folder, 'staging'),
    maxBytes: settings.CLOCHE_ARTIFACT_MAX_MB * MEBIBYTE,
    retentionMs: settings.CLOCHE_ARTIFACT_RETENTION_MS,
    publicUrl: settings.CLOCHE_PUBLIC_URL,
  };
}

/** Throws for a list that contains anything but address ranges. */
function webhookTargets(settings: Settings): TargetOptions {
  return {
    allowHttp: settings.CLOCHE_WEBHOOK_ALLOW_HTTP === 'on',
    allowCidrs: parseRanges('CLOCHE_WEBHOOK_ALLOW_CIDRS', settings.CLOCHE_WEBHOOK_ALLOW_CIDRS),
    denyCidrs: parseRanges('CLOCHE_EGRESS_DENY_CIDRS', settings.CLOCHE_EGRESS_DENY_CIDRS),
  };
}

function checkedSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const { values, problems } = readSettings('server', env, defaults());
  const all = [...unknownNames(env), ...problems, ...resourceProblems(values), ...keyProblems(values)];
  if (all.length > 0) throw new ConfigError(all.join('\n'));
  return values;
}

/**
 * Returns names with the settings' prefix that are not settings of any process, since the environment may be shared.
 */
function unknownNames(env: Readonly<Record<string, string | undefined>>): string[] {
  const unknown = Object.keys(env).filter(
    (name) => name.startsWith(PREFIX) && env[name] !== undefined && !isSetting(name),
  );
  return unknown.map((name) => `${name} is not a setting; remove it or correct its name`);
}

/** Refuses a bootstrap key of the generated form with a wrong checksum. */
function keyProblems({ CLOCHE_BOOTSTRAP_API_KEY: key }: Readonly<Record<string, unknown>>): string[] {
  if (typeof key !== 'string' || parseApiKey(key).kind !== 'mistyped') return [];
  return [
    'CLOCHE_BOOTSTRAP_API_KEY begins with clk_ but its checksum is wrong; copy the key again, or choose one that begins ' +
      'otherwise: `openssl rand -hex 32` generates a suitable key',
  ];
}

function resourceProblems(given: Readonly<Record<string, unknown>>): string[] {
  return ['CPU', 'MEMORY_MB', 'DISK_MB', 'PIDS'].flatMap((kind) => {
    const [standard, most] = [`CLOCHE_SANDBOX_DEFAULT_${kind}`, `CLOCHE_SANDBOX_MAX_${kind}`];
    return Number(given[standard]) > Number(given[most]) ? [`${standard} must not be more than ${most}`] : [];
  });
}

function defaultRunDir(dataDir: string): string {
  const file = dataPaths(dataDir).installationId;
  try {
    return join('/run/cloche', readFileSync(file, 'utf8').trim());
  } catch {
    throw new ConfigError(`CLOCHE_RUN_DIR must be set: ${file} does not name an installation`);
  }
}
