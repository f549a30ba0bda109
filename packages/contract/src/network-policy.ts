/** What a sandbox may reach. The form is here; the meaning of each mode is enforced by hostd and egress. */
import { type Static, Type } from 'typebox';
import { LIMITS } from './limits.ts';

export const NETWORK_MODES = ['unrestricted', 'deny-all', 'allowlist', 'denylist'] as const;
export type NetworkMode = (typeof NETWORK_MODES)[number];

export const NetworkPolicy = Type.Object(
  {
    mode: Type.Unsafe<NetworkMode>({
      type: 'string',
      enum: [...NETWORK_MODES],
      description:
        '`unrestricted`: the internet. `deny-all`: nothing. `allowlist`: HTTP and HTTPS to `hosts` alone. ' +
        '`denylist`: all but HTTP and HTTPS to `hosts`.',
    }),
    hosts: Type.Optional(
      Type.Array(Type.String({ maxLength: 255 }), {
        maxItems: LIMITS.networkHosts,
        description: 'Lower-case names, exact IPv4 addresses, or `*.name` for nested subdomains without the apex.',
      }),
    ),
  },
  { $id: 'NetworkPolicy', additionalProperties: false },
);
export type NetworkPolicy = Static<typeof NetworkPolicy>;

export type HostEntry =
  | { kind: 'name'; name: string }
  | { kind: 'suffix'; suffix: string }
  | { kind: 'ipv4'; address: string };

export type HostEntryResult = { ok: true; entry: HostEntry } | { ok: false; reason: string };

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** A last label that resolvers read as a number makes the whole an address (WHATWG URL, "ends in a number"). */
const NUMBER_LABEL = /^(?:[0-9]+|0x[0-9a-f]*)$/;
const OCTET = /^(?:0|[1-9][0-9]{0,2})$/;

/** Reads one entry of `hosts`. The reason of a refusal says what would be accepted instead. */
export function parseHostEntry(text: string): HostEntryResult {
  const form = refusedForm(text);
  if (form) return { ok: false, reason: form };
  const suffix = text.startsWith('*.');
  const name = suffix ? text.slice(2) : text;
  if (name.includes('*')) return no('`*` may only stand as a leftmost `*.`, as in `*.example.com`');
  if (name === '') return no('is empty; give a host name, an IPv4 address or `*.name`');
  if (name.length > 253) return no('is longer than 253 characters');
  const labels = name.split('.');
  if (NUMBER_LABEL.test(labels.at(-1) ?? '')) {
    if (suffix) return no('an address cannot follow `*.`; give the exact IPv4 address');
    const canonical = labels.length === 4 && labels.every((label) => OCTET.test(label) && Number(label) <= 255);
    return canonical
      ? { ok: true, entry: { kind: 'ipv4', address: name } }
      : no('ends in a number but is no IPv4 address of four decimal parts from 0 to 255 without leading zeros');
  }
  const wrong = labels.find((label) => !LABEL.test(label));
  if (wrong === '') return no('has an empty part; remove the doubled, leading or trailing dot');
  if (wrong !== undefined) {
    return no(`the part "${wrong}" must be 1 to 63 letters, digits, hyphens or underscores, no hyphen at its ends`);
  }
  return { ok: true, entry: suffix ? { kind: 'suffix', suffix: name } : { kind: 'name', name } };
}

function refusedForm(text: string): string | undefined {
  if (/[^\x20-\x7e]/.test(text)) return 'must be ASCII; write an internationalized name as its `xn--` form';
  if (text.includes('://')) return 'is a URL; give the host name alone';
  if (/[[\]]/.test(text) || (text.match(/:/g)?.length ?? 0) > 1) return 'is an IPv6 address; only IPv4 is supported';
  if (text.includes(':')) return 'has a port; give the host name alone, every port is meant';
  if (/\/\d+$/.test(text)) return 'is a CIDR range; give single IPv4 addresses';
  if (text.includes('/')) return 'has a path; give the host name alone';
  if (/[A-Z]/.test(text)) return `must be lower case; write "${text.toLowerCase()}"`;
  return undefined;
}

function no(reason: string): HostEntryResult {
  return { ok: false, reason };
}

export type NormalizedPolicy =
  | { ok: true; policy: NetworkPolicy }
  | { ok: false; issues: { path: string; message: string }[] };

/** Removes duplicates, keeps the order, and names every wrong host. `path` is relative to the policy. */
export function normalizeNetworkPolicy(policy: NetworkPolicy): NormalizedPolicy {
  const takesHosts = policy.mode === 'allowlist' || policy.mode === 'denylist';
  if (!takesHosts) {
    if (policy.hosts === undefined) return { ok: true, policy: { mode: policy.mode } };
    return { ok: false, issues: [{ path: 'hosts', message: `must be left out when mode is "${policy.mode}"` }] };
  }
  if (policy.hosts === undefined || policy.hosts.length === 0) {
    return { ok: false, issues: [{ path: 'hosts', message: `needs at least one host when mode is "${policy.mode}"` }] };
  }
  const issues = policy.hosts.flatMap((host, index) => {
    const result = parseHostEntry(host);
    return result.ok ? [] : [{ path: `hosts.${index}`, message: `"${host}" ${result.reason}` }];
  });
  if (issues.length > 0) return { ok: false, issues };
  return { ok: true, policy: { mode: policy.mode, hosts: [...new Set(policy.hosts)] } };
}
