import { fieldPairs, type RawFields } from '@cloche/node-support';
import { MAX_SECRET_QUESTIONS, mayHavePlaceholder, PLACEHOLDERS } from '@cloche/protocol';
import type { Host } from '../policy/host-name.ts';
import { EgressError } from '../upstream/egress-error.ts';
import type { SandboxSecrets } from './sandbox-secrets.ts';

/** Bytes of all fields once the values are in them. Servers accept 8 to 64 KiB. */
const MAX_FIELD_BYTES = 64 * 1024;
/** Shorter values are not looked for in responses, because they occur by chance. */
const SHORTEST_HIDDEN = 8;
/** Fields that frame or route a message. They keep their text. */
const KEPT = new Set(['content-length', 'transfer-encoding', 'host', 'connection', 'upgrade', 'te', 'trailer']);
const BASIC = /^(basic +)([A-Za-z0-9+/]+={0,2})$/i;

/** The fields of a request with values in place of placeholders. */
export interface PlacedSecrets {
  readonly fields: string[];
  /** Returns a text of the response with placeholders in place of the values of the request. */
  hide(text: string): string;
}

/** Returns whether a request can have a placeholder in its fields. Cheap, because every request is checked. */
export function mayHaveSecrets(fields: RawFields): boolean {
  return fields.some((text) => mayHavePlaceholder(text) || (BASIC.test(text) && mayHavePlaceholder(decoded(text))));
}

/**
 * Puts values in place of the placeholders in field values and in the user and password of `Basic` authentication, as
 * far as the host may receive them. Rejects with an `EgressError`.
 *
 * SECURITY: call it only for a request that goes to `host` over TLS, after the policy has permitted it. The server
 * decides whether the host may receive a value (secrets.test.ts).
 */
export async function placeSecrets(fields: RawFields, host: Host, secrets: SandboxSecrets): Promise<PlacedSecrets> {
  const pairs = fieldPairs(fields);
  const placed = [...new Set(pairs.flatMap(([name, value]) => (isKept(name) ? [] : placeholdersIn(value))))];
  const placeholders = placed.slice(0, MAX_SECRET_QUESTIONS);
  if (placeholders.length === 0) return { fields: [...fields], hide: (text) => text };
  const found = await secrets.find(placeholders.map((placeholder) => ({ placeholder, host })));
  const values = new Map(
    placeholders.flatMap((placeholder, index) => {
      const value = found[index];
      // Node writes fields byte by byte.
      return value === undefined ? [] : [[placeholder, Buffer.from(value).toString('latin1')] as const];
    }),
  );
  const filled = pairs.flatMap(([name, value]) => [name, isKept(name) ? value : fill(value, values)]);
  if (values.size > 0 && filled.reduce((sum, text) => sum + text.length, 0) > MAX_FIELD_BYTES) {
    throw new EgressError('secrets', 'the fields are too long with the values of secrets');
  }
  return { fields: filled, hide: (text) => hidden(text, values) };
}

function isKept(name: string): boolean {
  return KEPT.has(name.toLowerCase());
}

function placeholdersIn(value: string): string[] {
  return [
    ...(value.match(PLACEHOLDERS) ?? []),
    ...(BASIC.test(value) ? (decoded(value).match(PLACEHOLDERS) ?? []) : []),
  ];
}

function fill(value: string, values: ReadonlyMap<string, string>): string {
  const replace = (text: string) => text.replace(PLACEHOLDERS, (placeholder) => values.get(placeholder) ?? placeholder);
  const [, scheme] = BASIC.exec(value) ?? [];
  if (scheme === undefined) return replace(value);
  const credentials = decoded(value);
  const filled = replace(credentials);
  return filled === credentials ? value : scheme + Buffer.from(filled, 'latin1').toString('base64');
}

/** Returns the user and the password of `Basic` authentication, each byte as a character. */
function decoded(value: string): string {
  return Buffer.from(value.replace(BASIC, '$2'), 'base64').toString('latin1');
}

/** The longest value goes first: otherwise one that begins another would leave the rest of it readable. */
function hidden(text: string, values: ReadonlyMap<string, string>): string {
  const longestFirst = [...values].toSorted(([, one], [, other]) => other.length - one.length);
  let shown = text;
  for (const [placeholder, value] of longestFirst) {
    if (value.length >= SHORTEST_HIDDEN) shown = shown.replaceAll(value, placeholder);
  }
  return shown;
}
