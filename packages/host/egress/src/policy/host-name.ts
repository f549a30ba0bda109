import type { NamedHost } from '@cloche/contract';

/** A host from a request, in the normalized form that is compared with policies. */
export type Host = NamedHost;

const MAX_NAME_CHARACTERS = 253;
const LABEL = /^[a-z0-9_-]{1,63}$/;
/** Matches a last label that makes the whole host an address (WHATWG URL, "ends in a number"). */
const NUMBER_LABEL = /^(?:[0-9]+|0x[0-9a-f]*)$/;

/**
 * Parses a host in any notation: in any case, with a trailing dot, or as an IPv4 address in decimal, octal,
 * hexadecimal or shortened form. Returns undefined for notations that clients could read differently:
 * percent-encoding, Unicode, IPv6, white space, empty labels.
 */
export function normalizeHost(text: string): Host | undefined {
  const lower = text.toLowerCase();
  const name = lower.endsWith('.') ? lower.slice(0, -1) : lower;
  const labels = name.split('.');
  if (NUMBER_LABEL.test(labels.at(-1) ?? '')) return readAddress(labels);
  if (name.length > MAX_NAME_CHARACTERS || !labels.every((label) => LABEL.test(label))) return undefined;
  return { kind: 'name', name };
}

export function hostText(host: Host): string {
  return host.kind === 'name' ? host.name : host.address;
}

/** Parses an address like `inet_aton(3)`: the last part fills the remaining bytes. */
function readAddress(parts: readonly string[]): Host | undefined {
  if (parts.length > 4) return undefined;
  const values = parts.map(readNumber);
  const last = values.at(-1);
  const leading = values.slice(0, -1);
  if (last === undefined || !leading.every((value) => value !== undefined && value <= 255)) return undefined;
  if (last >= 256 ** (5 - parts.length)) return undefined;
  const number = leading.reduce((sum: number, value, index) => sum + (value ?? 0) * 256 ** (3 - index), last);
  return { kind: 'ipv4', address: [24, 16, 8, 0].map((bits) => Math.floor(number / 2 ** bits) % 256).join('.') };
}

function readNumber(text: string): number | undefined {
  if (/^0x[0-9a-f]*$/.test(text)) return Number.parseInt(text.slice(2) || '0', 16);
  if (/^0[0-7]*$/.test(text)) return Number.parseInt(text, 8);
  return /^[1-9][0-9]*$/.test(text) ? Number(text) : undefined;
}
