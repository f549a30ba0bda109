import { integer, mebibytes, milliseconds, oneOf, type Setting, text } from './setting.ts';

const DAY_MS = 86_400_000;
const MOST_MIB = 1024 * 1024 * 1024;
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** Settings of what the service stores, limits and answers. */
export const SERVICE_SETTINGS = {
  CLOCHE_MAX_SANDBOXES: {
    value: integer(1, 1_000_000),
    defaultText: 'as many as the host holds',
    readBy: ['server'],
    summary:
      'live sandboxes of one organization, and as many paused ones, unless it has a quota `liveSandboxes` or `pausedSandboxes`; beyond it, creations, pauses and wakes get `quota_exceeded`',
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
      'size of all artifacts of one organization, unless it has a quota `artifactBytes`; beyond it, exports get `quota_exceeded`',
    more: 'The disk reserve applies in any case.',
  },
  CLOCHE_WORKSPACE_ARCHIVES_MAX_MB: {
    value: mebibytes(1, MOST_MIB),
    default: 102_400,
    readBy: ['server'],
    summary:
      'size of all archives of workspace runs of one organization, stored or announced; beyond it, uploads get `quota_exceeded`',
  },
  CLOCHE_IMAGE_LAYERS_MAX_MB: {
    value: mebibytes(0, MOST_MIB),
    default: 10_240,
    readBy: ['server'],
    summary:
      'size of the layers of images that builds of one organization share; beyond it, the least recently used are removed; `0` shares none',
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
  CLOCHE_DRAIN_MS: {
    value: milliseconds(0, 3_600_000),
    default: 10_000,
    readBy: ['server'],
    summary: 'how long requests in progress may go on when the server stops; afterwards they are ended',
  },
  CLOCHE_SERVER_LEASE_MS: {
    value: milliseconds(6_000, 300_000),
    default: 30_000,
    readBy: ['server'],
    summary:
      'with PostgreSQL: how long after the death of a server the others take over its work; a server without the database for two thirds of it stops its work',
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
    summary:
      'how long an ended sandbox with its commands, an ended API key, and a deleted project, secret, webhook, artifact or template can be looked up; at least a day',
    more:
      'Sandboxes stay as long as their artifacts; projects as long as their events, audit events, usage and artifacts. ' +
      'Usage is kept for good. Builds, cached steps and versions other than the default one stay as long after their last use.',
  },
  CLOCHE_PAUSE_RETENTION_MS: {
    value: milliseconds(60_000, Number.MAX_SAFE_INTEGER),
    default: 30 * DAY_MS,
    readBy: ['server'],
    summary: 'how long a sandbox may stay paused at most; afterwards it is destroyed',
  },
  CLOCHE_PAUSE_AFTER_IDLE_MS: {
    value: milliseconds(1000, DAY_MS),
    defaultText: 'never',
    readBy: ['server'],
    summary:
      'after how long without use a sandbox is paused whose creation gives neither `pause` nor `idleTimeoutMs`; not one of E2B, a job or a build',
  },
  CLOCHE_IDLE_CPU_PERCENT: {
    value: integer(1, 100),
    default: 2,
    readBy: ['server'],
    summary: 'a sandbox whose processes use as much of a core, on average, is not paused for want of use',
  },
  CLOCHE_WAKE_TIMEOUT_MS: {
    value: milliseconds(100, 600_000),
    default: 10_000,
    readBy: ['server'],
    summary: 'how long a request to a preview waits for its paused sandbox to wake; then it gets 503',
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
      'If it is set, all servers of a database need the same value. To replace a key, write the new one before it, ' +
      'separated by a comma, restart all servers, run `cloche admin secrets rotate`, and remove the old one. See ' +
      '[the key of secrets](databases.md#the-key-of-secrets).',
  },
  CLOCHE_TRUSTED_PROXIES: {
    value: text('', 'ranges of addresses, separated by commas'),
    default: '',
    defaultText: 'none',
    readBy: ['server'],
    summary: 'ranges of addresses of the reverse proxies, separated by commas',
    more:
      'Each must append the address of its client to `X-Forwarded-For`, and can make the audit log show any. The load ' +
      'balancer of [several servers](databases.md#several-servers-on-one-host) is trusted without this setting.',
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
    summary: 'private ranges, and addresses of this host, that webhooks may reach, separated by commas',
    more: 'Clients that may create webhooks can then make the server send requests there.',
  },
  CLOCHE_DEFAULT_REGISTRY: {
    value: text('^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$', 'a host, with a port where one is needed'),
    default: 'docker.io',
    readBy: ['server'],
    summary: 'registry of images whose names have none, such as `debian:bookworm`: Docker Hub, or a mirror of it',
  },
  CLOCHE_E2B: {
    value: oneOf('on', 'off'),
    defaultText: '`on` if `CLOCHE_HOST` is a loopback address',
    readBy: ['server'],
    summary: '`on` answers the clients of E2B at `/e2b` and `/e2b-box`',
    more: 'See [E2B clients](../guides/e2b.md).',
  },
  CLOCHE_E2B_PUBLIC_PORTS: {
    value: oneOf('on', 'off'),
    default: 'on',
    readBy: ['server'],
    summary: "`on` serves ports of sandboxes of E2B's clients to all who know their hosts, as E2B does",
    more: 'With `off`, requests need a token. See [ports](../guides/e2b.md#ports).',
  },
  CLOCHE_E2B_SUDO: {
    value: oneOf('on', 'off'),
    default: 'on',
    readBy: ['server'],
    summary: "`on` lets code in sandboxes of E2B's clients run commands as root of the sandbox, by `sudo`",
    more: 'See [sudo](../threat-model.md#the-container).',
  },
  CLOCHE_MCP: {
    value: oneOf('on', 'off'),
    defaultText: '`on` if `CLOCHE_HOST` is a loopback address',
    readBy: ['server'],
    summary: '`on` answers clients of the Model Context Protocol at `/mcp`',
    more: 'See [MCP](../guides/mcp.md).',
  },
  CLOCHE_JUPYTER: {
    value: oneOf('on', 'off'),
    defaultText: '`on` if `CLOCHE_HOST` is a loopback address',
    readBy: ['server'],
    summary: '`on` answers Jupyter, as a kernel gateway at `/jupyter`',
    more: 'See [Jupyter](../guides/jupyter.md).',
  },
  CLOCHE_RUN_APIS: {
    value: text(
      '^((dify|piston|sandbox-fusion)(,(dify|piston|sandbox-fusion))*)?$',
      'of dify, piston, sandbox-fusion, separated by commas',
    ),
    default: '',
    defaultText: 'none',
    readBy: ['server'],
    summary: 'APIs of one route that are answered, separated by commas: `dify`, `piston`, `sandbox-fusion`',
    more: 'See [run APIs](../guides/run-apis.md).',
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
} as const satisfies Record<string, Setting>;
