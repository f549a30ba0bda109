import { readFileSync } from 'node:fs';

const ANY_ADDRESS = '0.0.0.0';

export interface BoundPort {
  /** `0.0.0.0` where the program listens on every address. */
  address: string;
  port: number;
}

/** Returns which of the ports are in use at that address on this host, according to the kernel. */
export function boundPortsAt(address: string, ports: readonly number[]): BoundPort[] {
  const held = ['tcp', 'udp', 'tcp6', 'udp6'].flatMap((table) => readBoundPorts(`/proc/net/${table}`));
  return held.filter((bound) => ports.includes(bound.port) && [address, ANY_ADDRESS].includes(bound.address));
}

function readBoundPorts(file: string): BoundPort[] {
  try {
    return parseBoundPorts(readFileSync(file, 'utf8'));
  } catch {
    // A kernel without IPv6 has no such table.
    return [];
  }
}

/** Parses a table of proc(5), where an address is hexadecimal and in the host's byte order. */
export function parseBoundPorts(table: string): BoundPort[] {
  return [...table.matchAll(/^ *\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) \S+:0000 /gm)].map(
    ([, address = '', port = '']) => ({ address: ipv4Of(address), port: Number.parseInt(port, 16) }),
  );
}

function ipv4Of(hexadecimal: string): string {
  // An IPv6 address of zeros also accepts every IPv4 address, and a mapped address ends in its IPv4 address.
  const bytes = Buffer.from(hexadecimal.slice(-8), 'hex').reverse();
  return [...bytes].join('.');
}
