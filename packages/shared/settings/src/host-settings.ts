import { cores, folder, integer, mebibytes, milliseconds, oneOf, type Setting, text } from './setting.ts';

const DAY_MS = 86_400_000;

/** Settings of an installation on its host: addresses, folders, the network, and resources of sandboxes. */
export const HOST_SETTINGS = {
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
      'how long old template versions and cached steps of template builds are kept after their last use; at least two days',
    more: 'See [folders](folders.md).',
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
    more: 'See [PostgreSQL](databases.md#postgresql).',
  },
  CLOCHE_SERVERS: {
    value: integer(1, 16),
    default: 1,
    readBy: ['setup'],
    summary: 'number of servers on this host, behind a load balancer (HAProxy), which a start installs',
    more: 'More than one requires PostgreSQL. See [several servers](databases.md#several-servers-on-one-host).',
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
    more: 'A start builds `runsc` with Go when it is chosen for the first time.',
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
      '`openssl rand -hex 32` generates a suitable key; a value that begins with `clk_` must be a whole generated key. A ' +
      'revoked key stays revoked: set another one.',
  },
  CLOCHE_DNS_UPSTREAM: {
    value: text('.', 'the address of a DNS server: ip:port'),
    defaultText: 'the first resolver of the host',
    readBy: ['egress'],
    summary: '`ip:port` of the resolver that answers the DNS queries of sandboxes',
  },
  CLOCHE_EGRESS_ALLOW_CIDRS: {
    value: text('', 'ranges of addresses, separated by commas'),
    default: '',
    defaultText: 'none',
    readBy: ['hostd', 'egress'],
    summary: 'private ranges that sandboxes may reach, separated by commas',
  },
  CLOCHE_EGRESS_DENY_CIDRS: {
    value: text('', 'ranges of addresses, separated by commas'),
    default: '',
    defaultText: 'none',
    readBy: ['server', 'hostd', 'egress'],
    summary: 'further ranges that no sandbox may reach in any mode, and no webhook, separated by commas',
    more:
      'An address in both settings is closed. Close public addresses of your networks, of Docker and Kubernetes, and of ' +
      'this host if a router maps it, IPv6 included.',
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
      'Creations beyond the pool launch sandboxes, four at a time. A waiting sandbox takes 16 MB, with gVisor and Python ' +
      '140 MB; one of a template of your own takes 103 MB and counts as several of the default number.',
  },
  CLOCHE_PAUSED_MEMORY_MB: {
    value: mebibytes(1, 1 << 24),
    defaultText: '70 % of the memory of the host',
    readBy: ['hostd'],
    summary: 'memory that paused sandboxes may hold together; beyond it, pauses get `unavailable`',
    more: 'What zram has compressed counts by its compressed size. The metric `cloche_hostd_paused_bytes` has the sum.',
  },
  CLOCHE_FROZEN_RECLAIM_MS: {
    value: milliseconds(0, 86_400_000),
    default: 15_000,
    readBy: ['hostd'],
    summary: 'how long after a pause the memory of a sandbox is moved to swap, if the host has swap',
    more: 'See [memory of paused sandboxes](host.md#memory-of-paused-sandboxes).',
  },
  CLOCHE_ZRAM: {
    value: oneOf('off', 'on'),
    default: 'off',
    readBy: ['setup'],
    summary: '`on` gives the host compressed swap in memory, for paused sandboxes',
    more: 'See [memory of paused sandboxes](host.md#memory-of-paused-sandboxes).',
  },
  CLOCHE_MEMORY_KEEP_MB: {
    value: mebibytes(0, 1 << 24),
    defaultText: '5 % of the memory of the host, at most 1024 MiB',
    readBy: ['hostd'],
    summary: 'memory of the host that launches and wakes leave available; below it, they get `unavailable`',
  },
  CLOCHE_MEMORY_OVERCOMMIT: {
    value: integer(1, 999_999),
    defaultText: 'no limit',
    readBy: ['hostd'],
    summary: 'how many times the memory of the host may be promised to sandboxes that are not paused, by their limits',
    more: 'A sandbox takes far less than its limit as a rule: with 1, 24 GiB have room for 24 sandboxes of the default size.',
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
} as const satisfies Record<string, Setting>;
