import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';

/** Who reads a setting; nobody else is given it. */
export type SettingReader = 'setup' | 'hostd' | 'egress' | 'server' | 'cli';

export type Setting = {
  name: string;
  doc: string;
  readBy: readonly SettingReader[];
  /** What holds where it is not set; absent where that depends on the host. */
  default?: string;
  /** Shown redacted. */
  secret?: true;
};

/** Every setting there is, in the order that `cloche config` prints them. */
export const SETTINGS: readonly Setting[] = [
  { name: 'CLOCHE_PORT', default: '4680', readBy: ['setup'], doc: 'TCP port of the API; 0 takes a free one' },
  { name: 'CLOCHE_HOST', default: '127.0.0.1', readBy: ['setup'], doc: 'address that the API is served on' },
  { name: 'CLOCHE_DATA_DIR', default: '/var/lib/cloche', readBy: ['setup', 'cli'], doc: 'what outlives a reboot' },
  { name: 'CLOCHE_RUN_DIR', readBy: ['setup', 'cli'], doc: 'sockets; default /run/cloche/ and the installation’s id' },
  {
    name: 'CLOCHE_CACHE_DIR',
    default: '/var/cache/cloche',
    readBy: ['setup', 'cli'],
    doc: 'templates and guest files',
  },
  {
    name: 'CLOCHE_CACHE_RETENTION_MS',
    default: '2592000000',
    readBy: ['setup', 'cli'],
    doc: 'how long old template versions and guest files are kept after their last use; at least 172800000',
  },
  { name: 'CLOCHE_DATABASE_URL', readBy: ['server'], secret: true, doc: 'default sqlite: in the data folder' },
  { name: 'CLOCHE_RUNTIME', default: 'hostd', readBy: ['server'], doc: 'what runs sandboxes' },
  { name: 'CLOCHE_OCI_RUNTIME', default: 'crun', readBy: ['hostd'], doc: 'what makes containers: crun, runc or runsc' },
  {
    name: 'CLOCHE_BOOTSTRAP_API_KEY',
    readBy: ['server'],
    secret: true,
    doc: 'a key with every scope for the first organization: 20 or more printable ASCII characters',
  },
  {
    name: 'CLOCHE_DNS_UPSTREAM',
    readBy: ['hostd', 'egress'],
    doc: 'ip:port of the resolver that sandboxes’ questions go to; default the first of the host',
  },
  {
    name: 'CLOCHE_EGRESS_ALLOW_CIDRS',
    default: '',
    readBy: ['hostd', 'egress'],
    doc: 'private ranges that sandboxes may reach all the same, with commas between',
  },
  {
    name: 'CLOCHE_EGRESS_DENY_CIDRS',
    default: '',
    readBy: ['hostd', 'egress'],
    doc: 'more ranges that no sandbox may reach, with commas between; stronger than CLOCHE_EGRESS_ALLOW_CIDRS',
  },
  {
    name: 'CLOCHE_EGRESS_EXTRA_CA',
    readBy: ['egress'],
    doc: 'file of further roots that the egress gateway checks servers by; its user has to be able to read it',
  },
  {
    name: 'CLOCHE_POOL_SIZE',
    readBy: ['hostd'],
    doc: 'sandboxes launched ahead of demand, of all kinds together; 0 for none',
  },
  ...(['CPU', 'MEMORY_MB', 'DISK_MB', 'PIDS'] as const).flatMap((resource): Setting[] => [
    {
      name: `CLOCHE_SANDBOX_DEFAULT_${resource}`,
      readBy: ['server', 'hostd'],
      doc: 'what a sandbox gets that asks for nothing',
    },
    { name: `CLOCHE_SANDBOX_MAX_${resource}`, readBy: ['server'], doc: 'the most that a sandbox may ask for' },
  ]),
  {
    name: 'CLOCHE_ARTIFACTS_URL',
    readBy: ['server'],
    doc: 'file:///folder, or s3://bucket/prefix?endpoint=…&region=…; default a folder in the data folder',
  },
  { name: 'CLOCHE_ARTIFACT_MAX_MB', default: '10240', readBy: ['server'], doc: 'the most that one artifact may have' },
  {
    name: 'CLOCHE_DISK_RESERVE_MB',
    readBy: ['server', 'hostd'],
    doc: 'mebibytes of the volume that stay free: below, nothing that takes space is accepted (`unavailable`); default 5 % of it, 2048 at most',
  },
  {
    name: 'CLOCHE_DISK_OVERCOMMIT',
    default: '20',
    readBy: ['hostd'],
    doc: 'how many times the free space above the reserve may be promised to disks of sandboxes, which are sparse; 1 promises none twice',
  },
  {
    name: 'CLOCHE_REPLAY_MAX_MB',
    default: '8192',
    readBy: ['server'],
    doc: 'mebibytes of answers that one organization may have kept for replay (24 hours); beyond it new requests with an Idempotency-Key are refused with quota_exceeded',
  },
  {
    name: 'CLOCHE_ARTIFACTS_MAX_MB',
    readBy: ['server'],
    doc: 'mebibytes of all artifacts of one organization; beyond, `quota_exceeded`; default no bound but the reserve of the disk',
  },
  { name: 'CLOCHE_ARTIFACT_RETENTION_MS', readBy: ['server'], doc: 'how long artifacts are kept; default for ever' },
  { name: 'CLOCHE_PUBLIC_URL', readBy: ['server'], doc: 'what links begin with; default where the API is served' },
  {
    name: 'CLOCHE_PREVIEW_URL',
    readBy: ['server'],
    doc: 'https://preview.example.com gives each preview a host below it; default http://localhost at CLOCHE_PORT',
  },
  { name: 'CLOCHE_MAX_SANDBOXES', readBy: ['server'], doc: 'live at once; default as many as the host holds' },
  { name: 'CLOCHE_TERMINAL_IDLE_MS', default: '600000', readBy: ['server'], doc: 'for a shell that nobody watches' },
  {
    name: 'CLOCHE_TRANSFER_STALL_MS',
    default: '60000',
    readBy: ['server'],
    doc: 'for a transfer of which no byte moves',
  },
  {
    name: 'CLOCHE_IDLE_TIDYING_MS',
    default: '30000',
    readBy: ['hostd', 'egress', 'server'],
    doc: 'so long after the last request, memory is given back',
  },
  { name: 'CLOCHE_LAUNCH_TIMEOUT_MS', default: '60000', readBy: ['server'], doc: 'for a sandbox to get ready' },
  {
    name: 'CLOCHE_RECORD_RETENTION_MS',
    default: '2592000000',
    readBy: ['server'],
    doc: 'how long sandboxes that have ended can be looked up',
  },
  { name: 'CLOCHE_RECONCILE_INTERVAL_MS', default: '30000', readBy: ['server'], doc: 'between two reconciliations' },
  {
    name: 'CLOCHE_LOG_LEVEL',
    default: 'info',
    readBy: ['hostd', 'egress', 'server'],
    doc: 'trace, debug, info, warn, error or fatal',
  },
  {
    name: 'CLOCHE_CONFIG_FILE',
    default: '/etc/cloche/cloche.env',
    readBy: ['setup', 'cli'],
    doc: 'settings, one NAME=value a line; the environment wins',
  },
  { name: 'CLOCHE_URL', readBy: ['cli'], doc: 'where the command line finds the API' },
  { name: 'CLOCHE_API_KEY', readBy: ['cli'], secret: true, doc: 'the key that the command line uses' },
];

export type EffectiveSetting = Setting & { value: string | undefined; source: 'environment' | 'file' | 'default' };

/** A setting that does not exist or cannot be read. The message says what to do. */
export class SettingsProblem extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SettingsProblem';
  }
}

/**
 * The settings in force: the environment, then the configuration file, then the defaults.
 *
 * @throws {SettingsProblem} for a `CLOCHE_*` name that does not exist.
 */
export function effectiveSettings(env: NodeJS.ProcessEnv): EffectiveSetting[] {
  const file = readConfigFile(env);
  rejectUnknown(Object.keys(env), 'the environment');
  rejectUnknown(Object.keys(file.values), file.path);
  return SETTINGS.map((setting) => {
    const fromEnv = env[setting.name];
    if (fromEnv !== undefined) return { ...setting, value: fromEnv, source: 'environment' };
    const fromFile = file.values[setting.name];
    if (fromFile !== undefined) return { ...setting, value: fromFile, source: 'file' };
    return { ...setting, value: setting.default, source: 'default' };
  });
}

/** Names and values of the settings that one part reads and that have a value. */
export function settingsFor(reader: SettingReader, settings: readonly EffectiveSetting[]): Record<string, string> {
  const own = settings.filter((setting) => setting.readBy.includes(reader));
  return Object.fromEntries(own.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])));
}

/** As it may be shown to anybody. */
export function redacted(setting: EffectiveSetting): string | undefined {
  return setting.secret && setting.value !== undefined ? '(redacted)' : setting.value;
}

function readConfigFile(env: NodeJS.ProcessEnv): { path: string; values: NodeJS.Dict<string> } {
  const named = env.CLOCHE_CONFIG_FILE;
  const path = named ?? SETTINGS.find(({ name }) => name === 'CLOCHE_CONFIG_FILE')?.default ?? '';
  try {
    return { path, values: parseEnv(readFileSync(path, 'utf8')) };
  } catch (error) {
    // The default place may be empty; a file that somebody names has to be there.
    if (named === undefined) return { path, values: {} };
    throw new SettingsProblem(`CLOCHE_CONFIG_FILE: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function rejectUnknown(names: readonly string[], where: string): void {
  const known = SETTINGS.map(({ name }) => name);
  for (const name of names) {
    if (!name.startsWith('CLOCHE_') || known.includes(name)) continue;
    throw new SettingsProblem(`There is no setting ${name} (in ${where}). Did you mean ${nearest(name, known)}?`);
  }
}

/** The candidate that takes the fewest changes to become. */
export function nearest(name: string, candidates: readonly string[]): string {
  const [first = ''] = [...candidates].sort((a, b) => distance(name, a) - distance(name, b));
  return first;
}

/** Levenshtein's. */
function distance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[to.length] ?? 0;
}
