/** Ranges of addresses of both families, such as `10.1.0.0/16` or `fd00::/8`. Every process reads them here. */
import { BlockList, isIP } from 'node:net';

/** Returns whether an address is in one of the ranges; a range without a length is one address. */
export function inRanges(ranges: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', length] = range.split('/');
    list.addSubnet(address, Number(length ?? bitsOf(address)), familyOf(address));
  }
  return (address) => isIP(address) > 0 && list.check(address, familyOf(address));
}

/**
 * Parses ranges that are separated by commas, and gives each a length. Strict, because they become part of the host's
 * firewall rules.
 *
 * @throws Error that names the setting and what is no range
 */
export function parseRanges(setting: string, text: string): string[] {
  const ranges = text.split(',').map((range) => range.trim());
  return ranges.filter(Boolean).map((range) => {
    const [address = '', length = String(bitsOf(address)), ...rest] = range.split('/');
    const isLength = /^\d{1,3}$/.test(length) && Number(length) <= bitsOf(address);
    // An address with a zone, such as `fe80::1%eth0`, is of one link only.
    if (isIP(address) === 0 || address.includes('%') || !isLength || rest.length > 0)
      throw new Error(`${setting}: ${range} is not a range of addresses`);
    return `${address}/${Number(length)}`;
  });
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

function bitsOf(address: string): 32 | 128 {
  return isIP(address) === 6 ? 128 : 32;
}
