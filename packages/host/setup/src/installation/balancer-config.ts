import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runPaths } from '@cloche/layout';
import { AFFINITY_RULES, BY_SANDBOX, ONE_SERVER } from './balancer-affinity.ts';
import type { ServedAt } from './part-environment.ts';

/** Program of the load balancer. */
export const BALANCER_PROGRAM = '/usr/sbin/haproxy';

/** Names of the servers behind the load balancer. */
export function serverNames(servers: number): string[] {
  return Array.from({ length: servers }, (_, index) => String(index + 1));
}

export interface BalancerOptions {
  readonly runDir: string;
  readonly servedAt: ServedAt;
  readonly servers: number;
  /** Ranges of the reverse proxies in front of the service, separated by commas. */
  readonly trustedProxies?: string | undefined;
}

/**
 * Most connections from one address, and from the /64 of an IPv6 address: the limit that a server without a load
 * balancer has. Local addresses and trusted proxies are exempt, because a proxy speaks for many clients.
 */
export const PER_ADDRESS = 2048;
const RANGE = /^[\da-f:.]+(\/\d+)?$/i;

/** Answers in the form of the API while no server is ready, or when the one that had the request has ended. */
const UNAVAILABLE =
  '{"error":{"code":"unavailable","message":"No server is ready at the moment; try again.","requestId":"%[var(txn.id)]"}}';

/** Writes the configuration and returns the path of its file. */
export function writeBalancerConfig(options: BalancerOptions): string {
  const file = join(options.runDir, 'balancer.cfg');
  writeFileSync(file, balancerConfig(options), { mode: 0o644 });
  return file;
}

/**
 * Returns the configuration of HAProxy. It balances requests, not connections, keeps bodies out of memory, and repeats
 * a request only if it reached no server. Each server has its turn, except for requests that stay together
 * (`AFFINITY_RULES`). Servers check everything else themselves, so limits and times here are beyond theirs.
 */
export function balancerConfig(options: BalancerOptions): string {
  return `${[...settings(), ...frontends(options), ...backends(options)].join('\n')}\n`;
}

function settings(): string[] {
  return [
    'global',
    '  log stdout format raw daemon notice',
    // Fields of a request have up to 16 KiB, cookies of previews included.
    '  tune.bufsize 65536',
    '  tune.maxrewrite 4096',
    'defaults',
    '  mode http',
    '  log global',
    '  timeout connect 5s',
    '  timeout http-request 60s',
    '  timeout http-keep-alive 75s',
    '  timeout queue 5s',
    // A run may send nothing until it ends. The servers have time limits of their own.
    '  timeout client 2h',
    '  timeout server 2h',
    '  timeout tunnel 2h',
    '  timeout check 2s',
    // Uses a new connection for each request, so that no request is sent on a connection that the server is just
    // closing.
    '  option http-server-close',
    // A server learns that a client has gone, and ends its work.
    '  option abortonclose',
    // Events of streams go on at once.
    '  option http-no-delay',
    '  retries 3',
    '  option redispatch 1',
    '  retry-on conn-failure',
    ...[502, 503, 504].map(
      (status) =>
        `  http-error status ${status} content-type "application/json; charset=utf-8" lf-string '${UNAVAILABLE}' ` +
        'hdr x-request-id "%[var(txn.id)]" hdr retry-after 1 hdr x-cloche-no-server 1',
    ),
  ];
}

function limitConnections(trustedProxies: string): string[] {
  const exempt = trustedProxies.split(',').map((range) => range.trim());
  return [
    'stick-table type ipv6 size 100k expire 10s store conn_cur',
    `acl of_proxy src ${['127.0.0.0/8', '::1', ...exempt.filter((range) => RANGE.test(range))].join(' ')}`,
    'tcp-request connection track-sc0 src,ipmask(32,64) if !of_proxy',
    `tcp-request connection reject if { sc0_conn_cur gt ${PER_ADDRESS} }`,
  ];
}

function frontends({ runDir, servedAt: { host, port }, servers, trustedProxies = '' }: BalancerOptions): string[] {
  const shared = runPaths(runDir);
  return [
    'frontend api',
    `  bind ${host.includes(':') ? `[${host}]` : host}:${port}`,
    ...limitConnections(trustedProxies).map(indented),
    '  option forwardfor',
    '  http-request set-var(txn.id) uuid(),regsub(-,,g),regsub(^,req_)',
    '  http-after-response set-status 503 reason "Service Unavailable" if { res.hdr(x-cloche-no-server) -m found }',
    '  http-after-response del-header x-cloche-no-server',
    // What a server is asked about itself, whether it is ready for other requests or not.
    '  acl of_server path /healthz /metrics',
    ...AFFINITY_RULES.map(indented),
    // Metrics describe the server that exports them: `/metrics?server=2` is answered by the second server or by none.
    ...serverNames(servers).map(
      (server) => `  use_backend server_${server} if { path /metrics } { url_param(server) ${server} } !of_preview`,
    ),
    '  use_backend living_servers if of_server !of_preview !of_port',
    '  default_backend api_servers',
    'frontend operator',
    `  bind unix@${shared.operatorSocket} mode 600`,
    '  default_backend operator_servers',
    'frontend secrets',
    `  bind unix@${shared.secretsSocket} mode 660`,
    '  default_backend secrets_servers',
  ];
}

function backends({ runDir, servers }: BalancerOptions): string[] {
  const names = serverNames(servers);
  const pool = (
    name: string,
    socketOf: (paths: ReturnType<typeof runPaths>) => string,
    balance: readonly string[] = ['balance roundrobin'],
  ) => [
    `backend ${name}`,
    ...balance.map(indented),
    ...names.map((server) => `  server ${server} unix@${socketOf(runPaths(runDir, server))} track health/${server}`),
  ];
  return [
    // Requests in progress stay with a server that is not ready for further ones.
    'backend health',
    '  option httpchk',
    '  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost',
    '  http-check expect status 200',
    '  default-server check inter 1s fastinter 200ms downinter 200ms fall 2 rise 1',
    ...names.map((server) => `  server ${server} unix@${runPaths(runDir, server).apiSocket}`),
    ...pool('api_servers', ({ apiSocket }) => apiSocket),
    ...pool('sandbox_servers', ({ apiSocket }) => apiSocket, BY_SANDBOX),
    ...pool('one_server', ({ apiSocket }) => apiSocket, ONE_SERVER),
    // Without checks: a request that reaches no server goes on to the next one.
    'backend living_servers',
    '  balance roundrobin',
    ...names.map((server) => `  server ${server} unix@${runPaths(runDir, server).apiSocket}`),
    ...names.flatMap((server) => [
      `backend server_${server}`,
      `  server ${server} unix@${runPaths(runDir, server).apiSocket}`,
    ]),
    ...pool('operator_servers', ({ operatorSocket }) => operatorSocket),
    ...pool('secrets_servers', ({ secretsSocket }) => secretsSocket),
  ];
}

function indented(line: string): string {
  return `  ${line}`;
}
