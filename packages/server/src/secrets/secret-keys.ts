import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { openText, sealText } from '../base/sealed-text.ts';

const KEY_BYTES = 32;
const KEY_ID_CHARACTERS = 16;

export interface SecretKeysOptions {
  /** Keys of the setting, each of 64 hex digits, separated by commas. The first encrypts. Undefined without the setting. */
  readonly setting: string | undefined;
  /** File with the keys of an installation without the setting; made when it is missing. */
  readonly file: string;
}

/**
 * The keys that encrypt the values of secrets (AES-256-GCM). One of them encrypts; the others only decrypt, until a
 * rotation has replaced what they encrypted.
 *
 * SECURITY: no key is in the database (secrets.test.ts). A value is bound to the id of its secret, so it cannot be moved to
 * another row.
 */
export class SecretKeys {
  readonly #file: string;
  readonly #isFromSetting: boolean;
  #keys: readonly Key[];

  private constructor(file: string, isFromSetting: boolean, keys: readonly Key[]) {
    this.#file = file;
    this.#isFromSetting = isFromSetting;
    this.#keys = keys;
  }

  /** @throws Error for a file that others can read, or that has no key */
  static open({ setting, file }: SecretKeysOptions): SecretKeys {
    const given = setting?.split(',').map(keyOf) ?? [];
    const kept = readKeys(file);
    const isFromSetting = given.length > 0;
    const keys = new SecretKeys(file, isFromSetting, [...given, ...kept]);
    if (keys.#keys.length === 0) keys.#write([newKey()]);
    return keys;
  }

  seal(value: string, secretId: string): string {
    const [current] = this.#keys;
    if (!current) throw new Error('there is no key for secrets');
    return `${current.id}.${sealText(value, current.bytes, contextOf(secretId))}`;
  }

  /** @throws Error if the key is missing, or if `sealed` was changed or belongs to another secret */
  open(sealed: string, secretId: string): string {
    const [keyId, text = ''] = sealed.split('.');
    const key = this.#keys.find(({ id }) => id === keyId);
    if (!key) throw new Error(`the key ${keyId} of the secret ${secretId} is missing`);
    return openText(text, key.bytes, contextOf(secretId));
  }

  /** Returns whether a value is encrypted with the key that encrypts now. */
  isCurrent(sealed: string): boolean {
    return sealed.startsWith(`${this.#keys[0]?.id}.`);
  }

  /** Makes a new key that encrypts from now on. The setting's keys are the operator's to change. */
  renew(): void {
    if (!this.#isFromSetting) this.#write([newKey(), ...this.#keys]);
  }

  /** Deletes the keys of the file that nothing is encrypted with any more. */
  forgetOthers(): void {
    if (!this.#isFromSetting) this.#write(this.#keys.slice(0, 1));
  }

  /** Replaces the file atomically. The keys are used only once they are on the disk. */
  #write(keys: readonly Key[]): void {
    mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
    const draft = openSync(`${this.#file}.new`, 'w', 0o600);
    try {
      writeSync(draft, keys.map(({ bytes }) => `${bytes.toString('hex')}\n`).join(''));
      fsyncSync(draft);
    } finally {
      closeSync(draft);
    }
    renameSync(`${this.#file}.new`, this.#file);
    const folder = openSync(dirname(this.#file), 'r');
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
    this.#keys = keys;
  }
}

interface Key {
  /** Names the key beside what it encrypts, without revealing it. */
  readonly id: string;
  readonly bytes: Buffer;
}

function newKey(): Key {
  return keyOf(randomBytes(KEY_BYTES).toString('hex'));
}

function keyOf(hex: string): Key {
  const bytes = Buffer.from(hex, 'hex');
  if (bytes.length !== KEY_BYTES) throw new Error('a key for secrets has 64 hex digits');
  const id = createHash('sha256')
    .update('cloche secret key id')
    .update(bytes)
    .digest('hex')
    .slice(0, KEY_ID_CHARACTERS);
  return { id, bytes };
}

function readKeys(file: string): Key[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  if ((statSync(file).mode & 0o077) !== 0) throw new Error(`others can read ${file}: run \`chmod 600 ${file}\``);
  return text.split('\n').filter(Boolean).map(keyOf);
}

function contextOf(secretId: string): string {
  return `cloche secret ${secretId}`;
}
