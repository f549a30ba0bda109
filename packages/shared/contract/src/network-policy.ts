/** Defines the form of a sandbox's network policy. hostd and egress enforce the meaning of each mode. */
import { type Static, Type } from 'typebox';
import { HOST_ENTRY_PATTERN, hostEntryIssues } from './host-entry.ts';
import { LIMITS } from './limits.ts';
import { documented } from './text.ts';

export const NETWORK_MODES = ['unrestricted', 'deny-all', 'allowlist', 'denylist'] as const;
export type NetworkMode = (typeof NETWORK_MODES)[number];

export const NetworkPolicy = Type.Object(
  {
    mode: Type.Unsafe<NetworkMode>({
      type: 'string',
      enum: [...NETWORK_MODES],
      description:
        '`unrestricted`: the sandbox reaches the internet. `deny-all`: it reaches nothing. `allowlist`: it reaches only ' +
        '`hosts`, by HTTP and HTTPS. `denylist`: it reaches the internet, but not `hosts` by HTTP or HTTPS.',
    }),
    hosts: Type.Optional(
      Type.Array(Type.String({ maxLength: 255, ...documented({ pattern: HOST_ENTRY_PATTERN }) }), {
        maxItems: LIMITS.networkHosts,
        ...documented({ minItems: 1 }),
        description:
          'Host names in lower case, IPv4 addresses, or `*.name` for every subdomain of `name` but not `name` itself. ' +
          'Required for `allowlist` and `denylist`, and refused for the other modes. Duplicates are removed.',
      }),
    ),
  },
  {
    $id: 'NetworkPolicy',
    additionalProperties: false,
    description:
      'What the sandbox may reach over the network. The policy cannot be changed later. Default: `unrestricted`.',
    ...documented({
      if: { properties: { mode: { enum: ['allowlist', 'denylist'] } }, required: ['mode'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { required: ['hosts'] },
      else: { not: { required: ['hosts'] } },
    }),
    examples: [{ mode: 'deny-all' }, { mode: 'allowlist', hosts: ['pypi.org', '*.example.com', '192.0.2.1'] }],
  },
);
export type NetworkPolicy = Static<typeof NetworkPolicy>;

export type NormalizedPolicy =
  | { ok: true; policy: NetworkPolicy }
  | { ok: false; issues: { path: string; message: string }[] };

/** Removes duplicate hosts, keeps their order, and reports every invalid host. `path` is relative to the policy. */
export function normalizeNetworkPolicy(policy: NetworkPolicy): NormalizedPolicy {
  const takesHosts = policy.mode === 'allowlist' || policy.mode === 'denylist';
  if (!takesHosts) {
    if (policy.hosts === undefined) return { ok: true, policy: { mode: policy.mode } };
    return { ok: false, issues: [{ path: 'hosts', message: `must be left out when mode is "${policy.mode}"` }] };
  }
  if (policy.hosts === undefined || policy.hosts.length === 0) {
    return { ok: false, issues: [{ path: 'hosts', message: `needs at least one host when mode is "${policy.mode}"` }] };
  }
  const issues = hostEntryIssues(policy.hosts).map(({ path, message }) => ({ path: `hosts.${path}`, message }));
  if (issues.length > 0) return { ok: false, issues };
  return { ok: true, policy: { mode: policy.mode, hosts: [...new Set(policy.hosts)] } };
}
