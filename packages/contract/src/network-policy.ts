/** What a sandbox may reach. The form is here; the meaning of each mode is enforced by hostd and egress. */
import { type Static, Type } from 'typebox';
import { parseHostEntry } from './host-entry.ts';
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
