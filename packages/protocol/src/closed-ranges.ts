/**
 * What no sandbox reaches in any mode: it is the operator's network, or nobody's. Hostd closes it to what the kernel
 * routes, egress to what it carries itself.
 */
export const CLOSED_RANGES = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
] as const;
