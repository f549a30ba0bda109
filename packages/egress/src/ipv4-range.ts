import { isIP } from 'node:net';

/** Whether an IPv4 address lies in a range such as `198.18.0.0/16`. */
export function isInRange(address: string, range: string): boolean {
  const [network = '', length = '32'] = range.split('/');
  const hostBits = 32 - Number(length);
  const from = toNumber(network);
  const candidate = toNumber(address);
  return from !== undefined && candidate !== undefined && prefix(candidate, hostBits) === prefix(from, hostBits);
}

function toNumber(address: string): number | undefined {
  const parts = address.split('.');
  if (parts.length !== 4 || !parts.every((part) => /^\d{1,3}$/.test(part))) return undefined;
  return parts.reduce((sum, part) => sum * 256 + Number(part), 0);
}

function prefix(address: number, hostBits: number): number {
  return Math.floor(address / 2 ** hostBits);
}
/** Ranges as `10.1.0.0/16, 10.2.0.1`. Throws for one that is none. */
export function parseCidrs(text: string): string[] {
  const cidrs = text.split(',').map((cidr) => cidr.trim());
  return cidrs.filter(Boolean).map((cidr) => {
    const [address = '', length = '32', ...rest] = cidr.split('/');
    const isValid = isIP(address) === 4 && /^[0-9]{1,2}$/.test(length) && Number(length) <= 32 && rest.length === 0;
    if (!isValid) throw new Error(`not an IPv4 range: ${cidr}`);
    return cidr;
  });
}
