import type { LaunchSpec } from '@cloche/protocol';

/** How an instance is linked: to the host, which carries its traffic on; to egress alone; or to nothing. */
export type NetworkClass = 'open' | 'gated' | 'none';

const CLASS_OF_MODE = {
  unrestricted: 'open',
  allowlist: 'gated',
  denylist: 'gated',
  'deny-all': 'none',
} as const satisfies Record<LaunchSpec['network']['mode'], NetworkClass>;

export function networkClassOf(mode: LaunchSpec['network']['mode']): NetworkClass {
  return CLASS_OF_MODE[mode];
}
