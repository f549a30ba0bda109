/** Rules of host entries, as data: the contract tests and docs/network-policy.md use the same rows. */

export type HostEntry =
  | { kind: 'name'; name: string }
  | { kind: 'suffix'; suffix: string }
  | { kind: 'ipv4'; address: string };

export type HostEntryResult = { ok: true; entry: HostEntry } | { ok: false; reason: string };

/** A form that `hosts` accepts, and what it covers. */
export interface AcceptedHostForm {
  readonly form: string;
  readonly covers: string;
  readonly examples: readonly string[];
}

/** A form that `hosts` refuses. */
export interface RefusedHostForm {
  readonly form: string;
  /** Follows the entry in the error message, and says what to write instead. */
  readonly reason: string;
  readonly examples: readonly string[];
  /** Returns whether an entry has this form. `name` is the entry without its leading `*.`. */
  readonly matches: (entry: string, name: string) => boolean;
}

export const ACCEPTED_HOST_FORMS: readonly AcceptedHostForm[] = [
  {
    form: 'name',
    covers: 'that name, on every port',
    examples: ['example.com', 'localhost', 'a_b.example', 'xn--bcher-kva.example', '1e100.net'],
  },
  {
    form: 'pattern',
    covers: 'every subdomain of the name, at any depth, but not the name itself',
    examples: ['*.example.com', '*.com'],
  },
  {
    form: 'IPv4 address',
    covers: 'that address, in whatever notation a request names it',
    examples: ['192.0.2.1', '0.0.0.0'],
  },
];

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** A last label that resolvers parse as a number makes the whole name an address (WHATWG URL, "ends in a number"). */
const NUMBER_LABEL = /^(?:[0-9]+|0x[0-9a-f]*)$/;
const OCTET = /^(?:0|[1-9][0-9]{0,2})$/;

/** The rules of `parseHostEntry` as one pattern, for the OpenAPI document. */
export const HOST_ENTRY_PATTERN = (() => {
  const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?';
  const octet = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])';
  const name = `(?:\\*\\.)?(?=.{1,253}$)(?:${label}\\.)*(?!(?:[0-9]+|0x[0-9a-f]*)$)${label}`;
  return `^(?:${octet}(?:\\.${octet}){3}|${name})$`;
})();

const endsInNumber = (name: string) => NUMBER_LABEL.test(name.split('.').at(-1) ?? '');
const isCanonicalAddress = (name: string) => {
  const parts = name.split('.');
  return parts.length === 4 && parts.every((part) => OCTET.test(part) && Number(part) <= 255);
};

/** Checked in this order; the first match gives the reason. */
export const REFUSED_HOST_FORMS: readonly RefusedHostForm[] = [
  {
    form: 'Unicode name, control character',
    reason: 'must be ASCII; write an internationalized name as its `xn--` form',
    examples: ['bücher.example', 'a\n.com'],
    matches: (entry) => /[^\x20-\x7e]/.test(entry),
  },
  {
    form: 'URL',
    reason: 'is a URL; give only the host name',
    examples: ['https://example.com', 'HTTP://EXAMPLE.COM/'],
    matches: (entry) => entry.includes('://'),
  },
  {
    form: 'IPv6 address',
    reason: 'is an IPv6 address; only IPv4 is supported',
    examples: ['2001:db8::1', '[::1]', '::ffff:192.0.2.1'],
    matches: (entry) => /[[\]]|:.*:/.test(entry),
  },
  {
    form: 'port',
    reason: 'has a port; give only the host name, which covers every port',
    examples: ['example.com:443', '192.0.2.1:80'],
    matches: (entry) => entry.includes(':'),
  },
  {
    form: 'CIDR range',
    reason: 'is a CIDR range; give single IPv4 addresses',
    examples: ['192.0.2.0/24'],
    matches: (entry) => /\/\d+$/.test(entry),
  },
  {
    form: 'path',
    reason: 'has a path; give only the host name',
    examples: ['example.com/a', 'example.com/'],
    matches: (entry) => entry.includes('/'),
  },
  {
    form: 'upper case',
    reason: 'must be lower case',
    examples: ['Example.com'],
    matches: (entry) => /[A-Z]/.test(entry),
  },
  {
    form: 'other pattern',
    reason: 'has a `*` that is not a leftmost `*.`; write patterns as `*.example.com`',
    examples: ['*', 'a.*.com', '**.a.com', '*.*.com', 'a*.com'],
    matches: (_entry, name) => name.includes('*'),
  },
  {
    form: 'empty entry',
    reason: 'is empty; give a host name, an IPv4 address or `*.name`',
    examples: ['', '*.'],
    matches: (_entry, name) => name === '',
  },
  {
    form: 'long name',
    reason: 'is longer than 253 characters; give a shorter name',
    examples: [`${'a.'.repeat(126)}abc`],
    matches: (_entry, name) => name.length > 253,
  },
  {
    form: 'pattern of addresses',
    reason: 'is a pattern of addresses; give exact IPv4 addresses',
    examples: ['*.1.2.3.4', '*.4'],
    matches: (entry, name) => entry !== name && endsInNumber(name),
  },
  {
    form: 'address in another notation, other name that ends in a number',
    reason:
      'ends in a number but is not an IPv4 address; write four decimal numbers from 0 to 255 without leading zeros',
    examples: ['256.1.1.1', '010.0.0.1', '1.2.3', '1.2.3.4.5', '0x7f.0.0.1', 'example.0x1', '2130706433'],
    matches: (_entry, name) => endsInNumber(name) && !isCanonicalAddress(name),
  },
  {
    form: 'empty label',
    reason: 'has an empty label; remove the doubled, leading or trailing dot',
    examples: ['example.com.', '.example.com', 'a..b'],
    matches: (_entry, name) => name.split('.').includes(''),
  },
  {
    form: 'other characters, long label, hyphen at an end',
    reason:
      'has an invalid label; a label has 1 to 63 letters, digits, hyphens or underscores, and no hyphen at either end',
    examples: ['-a.com', 'a-.com', 'a b.com', `${'a'.repeat(64)}.com`],
    matches: (_entry, name) => !name.split('.').every((label) => LABEL.test(label)),
  },
];

/** A host that a request names, in normalized form. */
export type NamedHost = { kind: 'name'; name: string } | { kind: 'ipv4'; address: string };

/** Returns whether an entry covers a host. */
export function coversHost(entry: HostEntry, host: NamedHost): boolean {
  if (entry.kind === 'ipv4') return host.kind === 'ipv4' && host.address === entry.address;
  if (host.kind !== 'name') return false;
  return entry.kind === 'name' ? host.name === entry.name : host.name.endsWith(`.${entry.suffix}`);
}

/** Returns the problems of a list of entries. `path` is the index in the list. */
export function hostEntryIssues(hosts: readonly string[]): { path: string; message: string }[] {
  return hosts.flatMap((host, index) => {
    const result = parseHostEntry(host);
    return result.ok ? [] : [{ path: `${index}`, message: `"${host}" ${result.reason}` }];
  });
}

/** Parses one entry of `hosts`. The reason of a refusal says what to write instead. */
export function parseHostEntry(text: string): HostEntryResult {
  const isPattern = text.startsWith('*.');
  const name = isPattern ? text.slice(2) : text;
  const refused = REFUSED_HOST_FORMS.find(({ matches }) => matches(text, name));
  if (refused) return { ok: false, reason: refused.reason };
  if (isPattern) return { ok: true, entry: { kind: 'suffix', suffix: name } };
  return { ok: true, entry: endsInNumber(name) ? { kind: 'ipv4', address: name } : { kind: 'name', name } };
}
