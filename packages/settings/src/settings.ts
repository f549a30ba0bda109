/**
 * Every setting of Cloche, in the order of `cloche config`. The configurations of server, hostd and egress, `cloche config`
 * and the table in docs/operations.md derive from it.
 */
import type { Static, TSchema } from 'typebox';
import {
  cores,
  folder,
  integer,
  mebibytes,
  milliseconds,
  oneOf,
  type Setting,
  type SettingReader,
  text,
} from './setting.ts';

const DAY_MS = 86_400_000;
const MOST_MIB = 1024 * 1024 * 1024;

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

export const SETTINGS = {
  CLOCHE_PORT: {
    value: integer(0, 65_535),
    default: 4680,
    readBy: ['setup', 'server'],
    isResolvedBySetup: true,
    summary: 'TCP port of the API; 0 takes a free one',
  },
  CLOCHE_HOST: {
    value: text('.', 'an address to listen on'),
    default: '127.0.0.1',
    readBy: ['setup', 'server'],
    isResolvedBySetup: true,
    summary: 'address that the API is served on',
    more: 'Put TLS in front of any other address.',
  },
  CLOCHE_DATA_DIR: {
    value: folder(),
    default: '/var/lib/cloche',
    readBy: ['setup', 'cli', 'server', 'hostd', 'egress'],
    isResolvedBySetup: true,
    summary: 'folder of persistent data: the database, artifacts, disks of sandboxes, logs',
  },
  CLOCHE_RUN_DIR: {
    value: folder(),
    defaultText: '`/run/cloche/<installation>`',
    readBy: ['setup', 'cli', 'server', 'hostd', 'egress'],
    isResolvedBySetup: true,
    summary: 'folder of sockets',
  },
  CLOCHE_CACHE_DIR: {
    value: folder(),
    default: '/var/cache/cloche',
    readBy: ['setup', 'cli', 'hostd'],
    isResolvedBySetup: true,
    summary: 'folder of templates and guest files, which can be built again; shared by the installations of a host',
  },
  CLOCHE_CACHE_RETENTION_MS: {
    value: milliseconds(2 * DAY_MS, Number.MAX_SAFE_INTEGER),
    default: 30 * DAY_MS,
    readBy: ['setup', 'cli', 'hostd'],
    summary:
      'how long old template versions, guest files and cached steps of template builds are kept after their last use; at least two days',
    more: 'hostd records once a day what it uses. The newest version of each template always stays.',
  },
  CLOCHE_CONFIG_FILE: {
    value: text('.', 'a path'),
    default: '/etc/cloche/cloche.env',
    readBy: ['setup', 'cli'],
    summary: 'file of settings, one NAME=value on each line; environment variables take precedence',
  },
  CLOCHE_DATABASE_URL: {
    value: text('^[a-z]+:', 'a URL such as sqlite:/path/to/file or postgres://user:password@host/database'),
    defaultText: 'SQLite in the data folder',
    readBy: ['server'],
    secret: true,
    summary: '`sqlite:/path`, or `postgres://user:password@host:5432/database` for PostgreSQL 15 or newer',
    more: 'See [PostgreSQL](#postgresql).',
  },
  CLOCHE_RUNTIME: {
    value: oneOf('hostd'),
    default: 'hostd',
    readBy: ['server'],
    summary: 'driver that runs sandboxes',
  },
  CLOCHE_OCI_RUNTIME: {
    value: text('^[A-Za-z0-9._/-]+$', 'the name or the path of an OCI runtime'),
    default: 'crun',
    readBy: ['hostd'],
    summary: 'OCI runtime of containers: crun, runc or runsc (gVisor)',
    more: '`npm start` builds `runsc` with Go when it is chosen for the first time.',
  },
  CLOCHE_BOOTSTRAP_API_KEY: {
    value: text(
      '^[\\x21-\\x7e][\\x20-\\x7e]{18,1022}[\\x21-\\x7e]$',
      '20 or more printable ASCII characters; `openssl rand -hex 32` generates a suitable key',
    ),
    readBy: ['server'],
    secret: true,
    summary: 'API key with every scope for the first organization: 20 or more printable ASCII characters',
    more:
      '`openssl rand -hex 32` generates a suitable key; a value that begins with `clk_` must be a whole generated key. Cloche ' +
      'stores the key as a salted scrypt hash, and deletes the hash once the key is replaced.',
  },
  CLOCHE_DNS_UPSTREAM: {
    value: text('.', 'the address of a DNS server: ip:port'),
    defaultText: 'the first resolver of the host',
    readBy: ['egress'],
    summary: '`ip:port` of the resolver that answers the DNS queries of sandboxes',
  },
  CLOCHE_EGRESS_ALLOW_CIDRS: {
    value: text('', 'IPv4 ranges, separated by commas'),
    default: '',
    defaultText: 'none',
    readBy: ['hostd', 'egress'],
    summary: 'private ranges that sandboxes may reach, separated by commas',
  },
  CLOCHE_EGRESS_DENY_CIDRS: {
    value: text('', 'IPv4 ranges, separated by commas'),
    default: '',
    defaultText: 'none',
    readBy: ['server', 'hostd', 'egress'],
    summary: 'further ranges that no sandbox may reach in any mode, and no webhook, separated by commas',
    more: 'An address in both settings is closed. Close public addresses of your own networks and of Docker and Kubernetes here.',
  },
  CLOCHE_EGRESS_EXTRA_CA: {
    value: text('.', 'a path'),
    defaultText: 'none',
    readBy: ['egress'],
    summary: 'file of further root certificates that the egress gateway trusts',
    more: 'The user `cloche-egress` must be able to read it.',
  },
  CLOCHE_POOL_SIZE: {
    value: integer(0, 9999),
    defaultText: 'as many as fit into a sixteenth of the memory with 24 MiB each (160 MiB with gVisor), at most 64',
    readBy: ['hostd'],
    summary: 'sandboxes launched ahead of demand, of all templates together; 0 for none',
    more:
      'Each creation beyond the pool launches a sandbox of its own, four at a time. A waiting sandbox has 16 MB in its ' +
      'control group, the mean of both templates; with gVisor and Python, it has 140 MB.',
  },
  CLOCHE_SANDBOX_DEFAULT_CPU: {
    value: cores(),
    default: 1,
    readBy: ['server', 'hostd'],
    summary: 'cores of a sandbox by default',
    more: 'Its agent has a further quarter of a core.',
  },
  CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: {
    value: mebibytes(128, 1 << 24),
    defaultText: '1024 MiB, or the memory of the host where that is less',
    readBy: ['server', 'hostd'],
    summary: 'memory of a sandbox by default',
    more: 'Its agent has a further 64 MiB.',
  },
  CLOCHE_SANDBOX_DEFAULT_DISK_MB: {
    value: mebibytes(64, 1 << 24),
    default: 2048,
    readBy: ['server', 'hostd'],
    summary: 'disk of a sandbox by default',
  },
  CLOCHE_SANDBOX_DEFAULT_PIDS: {
    value: integer(32, 1 << 22),
    default: 512,
    readBy: ['server', 'hostd'],
    summary: 'processes and threads that a sandbox may have by default',
    more: 'Its agent has a further 64.',
  },
  CLOCHE_SANDBOX_MAX_CPU: {
    value: cores(),
    defaultText: 'cores of the host',
    readBy: ['server'],
    summary: 'the most cores that a sandbox may have',
  },
  CLOCHE_SANDBOX_MAX_MEMORY_MB: {
    value: mebibytes(128, 1 << 24),
    defaultText: 'memory of the host',
    readBy: ['server'],
    summary: 'the most memory that a sandbox may have',
  },
  CLOCHE_SANDBOX_MAX_DISK_MB: {
    value: mebibytes(64, 1 << 24),
    default: 65_536,
    readBy: ['server'],
    summary: 'the largest disk that a sandbox may have',
  },
  CLOCHE_SANDBOX_MAX_PIDS: {
    value: integer(32, 1 << 22),
    defaultText: '8192, or a sixteenth of `kernel.pid_max` where that is less',
    readBy: ['server'],
    summary: 'the most processes and threads that a sandbox may have',
  },
  CLOCHE_MAX_SANDBOXES: {
    value: integer(1, 1_000_000),
    defaultText: 'as many as the host holds',
    readBy: ['server'],
    summary:
      'live sandboxes of one organization, unless `cloche admin quota set` sets its `liveSandboxes`; beyond it, creations get `quota_exceeded`',
  },
  CLOCHE_ARTIFACTS_URL: {
    value: text('^(file:///.|s3://.)', 'file:///folder or s3://bucket/prefix?endpoint=…&region=…'),
    defaultText: 'a folder in the data folder',
    readBy: ['server'],
    summary: 'store of artifacts: `file:///folder` or `s3://bucket/prefix?endpoint=https://…&region=…`',
    more: 'The credentials of a bucket are `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.',
  },
  CLOCHE_ARTIFACT_MAX_MB: {
    value: mebibytes(1, 5 * 1024 * 1024),
    default: 10_240,
    readBy: ['server'],
    summary: 'maximum size of one artifact',
  },
  CLOCHE_ARTIFACTS_MAX_MB: {
    value: mebibytes(1, MOST_MIB),
    defaultText: 'none',
    readBy: ['server'],
    summary:
      'maximum size of all artifacts of one organization, unless `cloche admin quota set` sets its `artifactBytes`; beyond it, exports get `quota_exceeded`',
    more: 'The disk reserve applies in any case.',
  },
  CLOCHE_ARTIFACT_RETENTION_MS: {
    value: milliseconds(1000, Number.MAX_SAFE_INTEGER),
    defaultText: 'no limit',
    readBy: ['server'],
    summary: 'how long artifacts are kept',
  },
  CLOCHE_DISK_RESERVE_MB: {
    value: mebibytes(0, MOST_MIB),
    defaultText: '5 % of the volume, at most 2048 MiB',
    readBy: ['server', 'hostd'],
    summary: 'space of the volume that stays free; below it, requests that take space get `unavailable`',
  },
  CLOCHE_DISK_OVERCOMMIT: {
    value: integer(1, 999_999),
    default: 20,
    readBy: ['hostd'],
    summary: 'how many times the free space above the reserve may be promised to disks of sandboxes',
    more: 'The disks are sparse files. With 1, every byte of them is reserved.',
  },
  CLOCHE_REPLAY_MAX_MB: {
    value: mebibytes(1, MOST_MIB),
    default: 8192,
    readBy: ['server'],
    summary: 'responses of one organization that are kept for replay (24 hours)',
    more: 'Beyond this size, new requests with an `Idempotency-Key` get `quota_exceeded`.',
  },
  CLOCHE_PUBLIC_URL: {
    value: text('^https?://[^/?#]+/?$', 'a URL with only a host, such as https://cloche.example.com'),
    defaultText: 'the address of the API',
    readBy: ['server'],
    summary: 'URL that download links begin with',
  },
  CLOCHE_PREVIEW_URL: {
    value: text(
      '^https?://[a-z0-9][a-z0-9.-]*[a-z0-9](:[0-9]{1,5})?/?$',
      'a URL with only a host, in lower case, such as https://preview.example.com',
    ),
    defaultText: '`http://localhost` at `CLOCHE_PORT`',
    readBy: ['server'],
    summary: 'URL whose host has a subdomain for each preview',
    more: '`https://preview.example.com` gives `https://prv-….preview.example.com`.',
  },
  CLOCHE_TERMINAL_IDLE_MS: {
    value: milliseconds(1000, DAY_MS),
    default: 600_000,
    readBy: ['server'],
    summary: 'how long a terminal without a client stays open',
  },
  CLOCHE_TRANSFER_STALL_MS: {
    value: milliseconds(100, DAY_MS),
    default: 60_000,
    readBy: ['server'],
    summary: 'how long an upload or a download may transfer no byte before its connection is closed',
  },
  CLOCHE_IDLE_TIDYING_MS: {
    value: milliseconds(1, 999_999_999),
    default: 30_000,
    readBy: ['hostd', 'egress', 'server'],
    summary: 'how long after its last request a service returns memory to the system',
  },
  CLOCHE_LAUNCH_TIMEOUT_MS: {
    value: milliseconds(100, 600_000),
    default: 60_000,
    readBy: ['server'],
    summary: 'how long a sandbox may take to become ready',
  },
  CLOCHE_RECORD_RETENTION_MS: {
    value: milliseconds(DAY_MS, Number.MAX_SAFE_INTEGER),
    default: 30 * DAY_MS,
    readBy: ['server'],
    summary: 'how long an ended sandbox with its commands, and an ended API key, can be looked up; at least a day',
    more: 'The record of a sandbox stays as long as its artifacts. Usage by project and hour is kept for good. Builds of templates, cached steps, and versions other than the default one are kept as long after their last use.',
  },
  CLOCHE_EVENT_RETENTION_MS: {
    value: milliseconds(DAY_MS, Number.MAX_SAFE_INTEGER),
    default: 30 * DAY_MS,
    readBy: ['server'],
    summary: 'how long events can be read; at least a day',
    more: 'Deliveries to webhooks are kept as long.',
  },
  CLOCHE_SECRETS_KEY: {
    value: text('^[0-9a-f]{64}(,[0-9a-f]{64})*$', '64 hex digits; `openssl rand -hex 32` generates a suitable key'),
    defaultText: 'a key that the server makes, in the file `secrets-key` of its data folder',
    readBy: ['server'],
    secret: true,
    summary: 'key that encrypts secrets: 64 hex digits',
    more:
      'Required for several servers on one database. To replace a key, write the new one before it, separated by a comma, ' +
      'restart the servers, run `cloche admin secrets rotate`, and remove the old one.',
  },
  CLOCHE_WEBHOOK_ALLOW_HTTP: {
    value: oneOf('on', 'off'),
    default: 'off',
    readBy: ['server'],
    summary: '`on` permits webhooks with `http` URLs, to which events are sent unencrypted',
  },
  CLOCHE_WEBHOOK_ALLOW_CIDRS: {
    value: text('', 'ranges of addresses, separated by commas'),
    default: '',
    defaultText: 'none',
    readBy: ['server'],
    summary: 'private ranges that webhooks may reach, separated by commas',
    more: 'Every client that may create webhooks can then make the server send requests to these addresses.',
  },
  CLOCHE_AUDIT_RETENTION_MS: {
    value: milliseconds(DAY_MS, Number.MAX_SAFE_INTEGER),
    default: 90 * DAY_MS,
    readBy: ['server'],
    summary: 'how long audit events can be read; at least a day',
  },
  CLOCHE_RECONCILE_INTERVAL_MS: {
    value: milliseconds(100, 3_600_000),
    default: 30_000,
    readBy: ['server'],
    summary: 'time between two reconciliations of records and instances',
  },
  CLOCHE_LOG_LEVEL: {
    value: oneOf(...LOG_LEVELS),
    default: 'info',
    readBy: ['hostd', 'egress', 'server'],
    summary: 'least severe level that is logged: trace, debug, info, warn, error, fatal or silent',
  },
  CLOCHE_URL: {
    value: text('.', 'a URL'),
    defaultText: 'as in `~/.config/cloche/config.json`',
    readBy: ['cli'],
    summary: 'URL of the API for the command line',
  },
  CLOCHE_API_KEY: {
    value: text('.', 'an API key'),
    defaultText: 'as in `~/.config/cloche/config.json`',
    readBy: ['cli'],
    secret: true,
    summary: 'API key of the command line',
  },
  CLOCHE_GUEST_DIR: {
    value: folder(),
    required: true,
    readBy: ['hostd'],
    isInternal: true,
    isResolvedBySetup: true,
    summary: 'folder of the guest files that are mounted into sandboxes',
  },
  CLOCHE_SERVICE_UID: {
    value: integer(0, 4_294_967_294),
    required: true,
    readBy: ['hostd'],
    isInternal: true,
    isResolvedBySetup: true,
    summary: 'user of the server',
  },
  CLOCHE_SERVICE_GID: {
    value: integer(0, 4_294_967_294),
    required: true,
    readBy: ['hostd'],
    isInternal: true,
    isResolvedBySetup: true,
    summary: 'group of the server',
  },
} as const satisfies Record<string, Setting>;

type Table = typeof SETTINGS;
export type SettingName = keyof Table;
export type SettingsReadBy<Reader extends SettingReader> = {
  [Name in SettingName]: Reader extends Table[Name]['readBy'][number] ? Name : never;
}[SettingName];

type ValueOf<Name extends SettingName> = Table[Name]['value'] extends infer Value extends TSchema
  ? Static<Value>
  : never;
type HasValue<Name extends SettingName> = Table[Name] extends { default: unknown } | { required: true } ? true : false;

/** Values of the settings that one process reads; `undefined` where a setting is not set and has no fixed default. */
export type SettingValues<Reader extends SettingReader> = {
  readonly [Name in SettingsReadBy<Reader>]: HasValue<Name> extends true ? ValueOf<Name> : ValueOf<Name> | undefined;
};
