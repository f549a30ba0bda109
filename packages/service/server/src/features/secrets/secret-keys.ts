import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { openText, sealText } from '../../platform/base/sealed-text.ts';
import { withFileLock } from './file-lock.ts';

const KEY_BYTES = 32;
const KEY_ID_CHARACTERS = 16;

export interface SecretKeysOptions {
  /**
   * Keys of the setting, each of 64 hex digits, separated by commas. The first encrypts. Undefined without the setting.
   */
  readonly setting: string | undefined;
  /** File with the keys of an installation without the setting; made when it is missing. */
  readonly file: string;
}

/** Says that the key of a value is neither in the setting nor in the file. */
export class MissingKeyError extends Error {}

/**
 * The keys that encrypt the values of secrets (AES-256-GCM). One of them encrypts; the others only decrypt, until a
 * rotation has replaced what they encrypted. Servers with one data folder share its file, and see each other's
 * rotations. New keys are added before the others, so a key that was replaced never encrypts again.
 *
 * SECURITY: no key is in the database (secrets.test.ts). A value is bound to the id of its secret, so it cannot be
 * moved to another row.
 */
export class SecretKeys {
  readonly #file: string;
  readonly #given: readonly Key[];
  #keys: readonly Key[] = [];

  private constructor(file: string, given: readonly Key[]) {
    this.#file = file;
    this.#given = given;
    this.#read();
  }

  /** @throws Error for a file that others can read, or that has no key */
  static open({ setting, file }: SecretKeysOptions): SecretKeys {
    const keys = new SecretKeys(file, setting?.split(',').map(keyOf) ?? []);
    if (keys.#keys.length === 0) keys.#makeFirst();
    return keys;
  }

  /** Encrypts with the newest key. `keepKeys` must hold the key in the file until the value is committed. */
  seal(value: string, secretId: string): string {
    this.#read();
    const [current] = this.#keys;
    if (!current) throw new Error('there is no key for secrets');
    return `${current.id}.${sealText(value, current.bytes, contextOf(secretId))}`;
  }

  /** @throws MissingKeyError, or Error if `sealed` was changed or belongs to another secret */
  open(sealed: string, secretId: string): string {
    const [keyId, text = ''] = sealed.split('.');
    const find = () => this.#keys.find(({ id }) => id === keyId);
    if (!find()) this.#read();
    const key = find();
    if (!key) throw new MissingKeyError(`the key ${keyId} of the secret ${secretId} is missing`);
    return openText(text, key.bytes, contextOf(secretId));
  }

  /** Returns whether a value is encrypted with the key that encrypts now. */
  isCurrent(sealed: string): boolean {
    this.#read();
    return sealed.startsWith(`${this.#keys[0]?.id}.`);
  }

  /**
   * Makes a new key that encrypts from now on. The setting's keys are the operator's to change.
   *
   * @throws Error if the file is lost: its keys are still in use
   */
  renew(): void {
    if (this.#given.length > 0) return;
    this.#change((keys) => {
      if (keys.length === 0) throw new Error(`${this.#file} has no key; restore the file from a backup`);
      return [newKey(), ...keys];
    });
  }

  /** Returns the ids of the keys of the file that encrypt no longer; none with the setting. */
  othersThanCurrent(): string[] {
    if (this.#given.length > 0) return [];
    const [, ...others] = readKeys(this.#file);
    return others.map(({ id }) => id);
  }

  /** Deletes keys of the file, except the one that encrypts. No row may name them, nor a row that is written later. */
  forget(ids: readonly string[]): void {
    if (this.#given.length > 0 || ids.length === 0) return;
    this.#change(([current, ...others]) => [
      ...(current ? [current] : []),
      ...others.filter(({ id }) => !ids.includes(id)),
    ]);
  }

  #read(): void {
    this.#keys = [...this.#given, ...readKeys(this.#file)];
  }

  /** Makes the first key of the file, unless another server that starts at the same time has made it. */
  #makeFirst(): void {
    mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
    this.#change((keys) => (keys.length > 0 ? keys : [newKey()]));
  }

  /**
   * Replaces the file atomically. The keys are used only once they are on the disk.
   *
   * The file has a lock of its own, because the lock in the database ends with its connection: a server that stood still
   * could otherwise overwrite a key that another server has added meanwhile.
   */
  #change(changed: (keys: readonly Key[]) => readonly Key[]): void {
    const keys = withFileLock(this.#file, () => {
      const next = changed(readKeys(this.#file));
      renameSync(this.#writeDraft(next), this.#file);
      syncFolder(dirname(this.#file));
      return next;
    });
    this.#keys = keys;
  }

  /** Writes the next version of the file, over that of a process that was killed here, and returns its path. */
  #writeDraft(keys: readonly Key[]): string {
    const path = `${this.#file}.new`;
    const draft = openSync(path, 'w', 0o600);
    try {
      writeSync(draft, keys.map(({ bytes }) => `${bytes.toString('hex')}\n`).join(''));
      fsyncSync(draft);
    } finally {
      closeSync(draft);
    }
    return path;
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
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
