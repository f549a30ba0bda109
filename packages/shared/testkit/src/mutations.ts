import type { Random } from './random.ts';

const NOTABLE_BYTES = [0x00, 0x01, 0x0a, 0x0d, 0x20, 0x22, 0x2e, 0x5b, 0x5c, 0x7b, 0x7f, 0x80, 0xc0, 0xff] as const;
const NOTABLE_VALUES = [
  null,
  true,
  '',
  '__proto__',
  'constructor',
  '\u0000\ud800',
  'x'.repeat(70_000),
  0,
  -1,
  0.5,
  2 ** 31,
  2 ** 53,
  1e300,
  -0,
] as const;
const NESTING = 500;
const MAX_CHANGES = 4;

/** Returns valid bytes with a few changes: bits flipped, bytes removed, repeated or inserted, or the end cut off. */
export function mutateBytes(random: Random, valid: Buffer): Buffer {
  let bytes: Buffer = Buffer.from(valid);
  for (let change = random.below(MAX_CHANGES); change >= 0; change -= 1) bytes = changeBytes(random, bytes);
  return bytes;
}

function changeBytes(random: Random, bytes: Buffer): Buffer {
  const [from, to] = [random.below(bytes.length + 1), random.below(bytes.length + 1)].sort((one, other) => one - other);
  const [before, between, after] = [bytes.subarray(0, from), bytes.subarray(from, to), bytes.subarray(to)];
  switch (random.below(6)) {
    case 0:
      return flip(random, bytes);
    case 1:
      return Buffer.concat([before, after]);
    case 2:
      return Buffer.concat([before, between, between, after]);
    case 3:
      return Buffer.concat([before, Buffer.from([random.pick(NOTABLE_BYTES)]), between, after]);
    case 4:
      return Buffer.concat([before, randomBytes(random, random.below(64)), after]);
    default:
      return before;
  }
}

function flip(random: Random, bytes: Buffer): Buffer {
  const at = random.below(bytes.length);
  if (at < bytes.length) bytes.writeUInt8((bytes[at] ?? 0) ^ (1 << random.below(8)), at);
  return bytes;
}

export function randomBytes(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random.below(256)));
}

/** Returns a valid message with a few changes: parts replaced, removed, renamed, duplicated or nested. */
export function mutateJson(random: Random, valid: unknown): unknown {
  let value = structuredClone(valid);
  for (let change = random.below(MAX_CHANGES); change >= 0; change -= 1) value = changeJson(random, value);
  return value;
}

function changeJson(random: Random, value: unknown): unknown {
  const isInside = typeof value === 'object' && value !== null && random.chance(0.85);
  if (!isInside) return replacement(random, value);
  if (Array.isArray(value)) {
    const at = random.below(value.length + 1);
    const [changed] = [changeJson(random, value[at])];
    return random.chance(0.2) ? value.toSpliced(at, 1) : value.toSpliced(at, random.below(2), changed);
  }
  const entries = Object.entries(value);
  const at = random.below(entries.length);
  const [name, inner] = entries[at] ?? ['more', undefined];
  const renamed = random.chance(0.15) ? String(random.pick(NOTABLE_VALUES)) : name;
  const rest = entries.filter((_, index) => index !== at || random.chance(0.1));
  // `fromEntries` defines own properties, also one named `__proto__`.
  return Object.fromEntries(random.chance(0.15) ? rest : [...rest, [renamed, changeJson(random, inner)]]);
}

function replacement(random: Random, value: unknown): unknown {
  switch (random.below(5)) {
    case 0:
      return [value];
    case 1:
      return { value };
    case 2:
      return nested(random);
    case 3:
      return typeof value === 'string' ? mutateBytes(random, Buffer.from(value.slice(0, 1000))).toString() : !value;
    default:
      return random.pick(NOTABLE_VALUES);
  }
}

function nested(random: Random): unknown {
  let value: unknown = null;
  for (let depth = random.below(NESTING); depth > 0; depth -= 1) value = [value];
  return value;
}
