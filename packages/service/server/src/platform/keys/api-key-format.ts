import { createHash, hash, randomInt } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'clk_';
const PUBLIC_LENGTH = 8;
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const FORM = new RegExp(`^${PREFIX}([0-9A-Za-z]{${PUBLIC_LENGTH}})([0-9A-Za-z]{${SECRET_LENGTH}})([0-9A-Za-z]{6})$`);

/**
 * Makes a key: `clk_`, 8 characters that identify the key, 32 random characters, and a checksum of 6 that distinguishes
 * a mistyped key from a guess.
 */
export function makeApiKey(): { key: string; publicPart: string } {
  const publicPart = randomText(PUBLIC_LENGTH);
  const body = publicPart + randomText(SECRET_LENGTH);
  return { key: `${PREFIX}${body}${checksum(body)}`, publicPart };
}

/** Returns the beginning of a generated key, which identifies it. */
export function keyPrefix(publicPart: string): string {
  return PREFIX + publicPart;
}

export type ParsedApiKey =
  | { kind: 'generated'; publicPart: string }
  /** A key of the generated form with a wrong checksum. */
  | { kind: 'mistyped' }
  | { kind: 'free-form' };

export function parseApiKey(key: string): ParsedApiKey {
  const [, publicPart, secret, sum] = FORM.exec(key) ?? [];
  if (publicPart !== undefined && secret !== undefined) {
    return checksum(publicPart + secret) === sum ? { kind: 'generated', publicPart } : { kind: 'mistyped' };
  }
  return { kind: key.startsWith(PREFIX) ? 'mistyped' : 'free-form' };
}

/**
 * Returns the stored hash of a generated key. SHA-256 is enough for a secret of 190 random bits, which no dictionary
 * holds. For chosen keys see `chosen-key-hash.ts`.
 */
export function hashApiKey(key: string): string {
  return hash('sha256', key, 'hex');
}

function checksum(body: string): string {
  let number = createHash('sha256').update(PREFIX).update(body).digest().readUIntBE(0, 6);
  let text = '';
  for (let index = 0; index < CHECKSUM_LENGTH; index++) {
    text += ALPHABET[number % ALPHABET.length];
    number = Math.floor(number / ALPHABET.length);
  }
  return text;
}

function randomText(length: number): string {
  return Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}
