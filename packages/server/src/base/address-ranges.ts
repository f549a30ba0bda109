import { BlockList, isIP } from 'node:net';

/** Returns whether an address is in one of the ranges, such as `10.1.0.0/16`; a range without a length is one address. */
export function inRanges(ranges: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', length] = range.split('/');
    list.addSubnet(address, Number(length ?? (isIP(address) === 6 ? 128 : 32)), familyOf(address));
  }
  return (address) => isIP(address) > 0 && list.check(address, familyOf(address));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

/** Parses ranges that are separated by commas. @throws Error that names the setting and what is no range. */
export function parseRanges(setting: string, text: string): string[] {
  const ranges = text.split(',').map((range) => range.trim());
  return ranges.filter(Boolean).map((range) => {
    const [address = '', length, ...rest] = range.split('/');
    const longest = isIP(address) === 6 ? 128 : 32;
    const isLength = length === undefined || (/^\d{1,3}$/.test(length) && Number(length) <= longest);
    if (isIP(address) === 0 || !isLength || rest.length > 0)
      throw new Error(`${setting}: not a range of addresses: ${range}`);
    return range;
  });
}
