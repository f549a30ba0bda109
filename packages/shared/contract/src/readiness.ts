import { type Static, Type } from 'typebox';

/** The checks that a warning can name. Each sentence says which sandboxes lose which traffic. */
export const HOST_CHECKS = {
  sandbox_dns: 'DNS queries of sandboxes with the network policy `unrestricted` do not reach the gateway.',
  sandbox_gateway: 'Packets of sandboxes with an allowlist, a denylist or secrets do not reach the gateway.',
  sandbox_forwarding: 'The host does not forward packets of sandboxes with the network policy `unrestricted`.',
  sandbox_datagrams: 'The host does not forward UDP and ICMP of sandboxes with a denylist.',
  ipv4_route: 'The host has no IPv4 default route, and sandboxes have only IPv4.',
} as const;

/** Something of the host that keeps sandboxes from the network, although code runs. */
export const HostWarning = Type.Object(
  {
    check: Type.String({
      description: Object.entries(HOST_CHECKS)
        .map(([check, meaning]) => `\`${check}\`: ${meaning}`)
        .concat('Later versions may have more.')
        .join(' '),
    }),
    message: Type.String({ description: 'What is blocked, in a sentence for operators.' }),
    remedy: Type.String({ description: 'What to do about it, in sentences. Commands are between backticks.' }),
  },
  { $id: 'HostWarning' },
);
export type HostWarning = Static<typeof HostWarning>;

/** Body of `GET /readyz` with status 200. */
export const Readiness = Type.Object(
  {
    status: Type.Literal('ready'),
    warnings: Type.Array(HostWarning, {
      description: 'What hostd last measured to be amiss with the network of sandboxes; empty when all modes work.',
    }),
  },
  { $id: 'Readiness' },
);
export type Readiness = Static<typeof Readiness>;
