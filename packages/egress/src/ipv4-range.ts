/** Returns whether an IPv4 address lies in a range such as `198.18.0.0/16`. */
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
