import type { LaunchSpec } from '@cloche/protocol';

/** An instance's link: `open` to the host, which forwards its traffic; `gated` to egress only; or `none`. */
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
