import { type Authority, parseAuthority } from '../policy/authority.ts';
import { permitsHost } from '../policy/egress-policy.ts';
import { type Host, hostText } from '../policy/host-name.ts';
import type { Target } from '../upstream/connector.ts';
import { type Connection, isSameHost } from './connection.ts';

/** The parts of a request that name its destination. */
export interface RequestLine {
  /** Request target as received: origin form, absolute form or `*`. */
  url: string;
  /** Values of all `Host` fields, and of HTTP/2's authority. */
  hosts: readonly string[];
}

export type Decision =
  | { verdict: 'permitted'; target: Target; path: string; hostField: string }
  | { verdict: 'denied' | 'malformed'; reason: string; host: string };

const ABSOLUTE_FORM = /^(?<scheme>https?):\/\/(?<authority>[^/?#]*)(?<path>.*)$/is;

/** Decides one request. All parts that name a host must name the same one, and the policy must permit it. */
export function decideRequest({ traffic, destination, secureHost }: Connection, request: RequestLine): Decision {
  const isSecure = secureHost !== undefined;
  const absolute = ABSOLUTE_FORM.exec(request.url)?.groups;
  if (absolute && absolute.scheme?.toLowerCase() !== (isSecure ? 'https' : 'http')) {
    return malformed('scheme', request.url);
  }
  const path = absolute ? rootedPath(absolute.path ?? '') : request.url;
  if (!path.startsWith('/') && path !== '*') return malformed('request_target', request.url);

  const texts = [...(absolute ? [absolute.authority ?? ''] : []), ...request.hosts.filter((text) => text !== '')];
  const authorities = texts.map(parseAuthority);
  if (!authorities.every((authority) => authority !== undefined)) return malformed('host', texts.join(' '));
  // A request of HTTP/1.0 can name no host. It means the address then.
  const named: Authority = authorities[0] ?? { host: destination.host };
  const { host } = named;
  if (authorities.some((other) => !isSameHost(other.host, host))) return malformed('hosts_differ', texts.join(' '));
  if (secureHost && !isSameHost(host, secureHost)) return denied('server_name_differs', host);
  if (!permitsHost(traffic.policy, host)) return denied('policy', host);

  const port = absolute && !isSecure ? (named.port ?? 80) : destination.port;
  const hostField = named.port === undefined ? hostText(host) : `${hostText(host)}:${named.port}`;
  return { verdict: 'permitted', target: { host, port, isSecure }, path, hostField };
}

/** Decides whether a CONNECT is permitted. The traffic inside the tunnel is decided again. */
export function decideConnect({ traffic }: Connection, text: string): Decision {
  const authority = parseAuthority(text);
  if (authority?.port === undefined) return malformed('request_target', text);
  const { host, port } = authority;
  if (!permitsHost(traffic.policy, host)) return denied('policy', host);
  return { verdict: 'permitted', target: { host, port, isSecure: false }, path: '', hostField: text };
}

function rootedPath(path: string): string {
  return path.startsWith('/') ? path : `/${path}`;
}

function denied(reason: string, host: Host): Decision {
  return { verdict: 'denied', reason, host: hostText(host) };
}

function malformed(reason: string, text: string): Decision {
  return { verdict: 'malformed', reason, host: text.slice(0, 253) };
}
