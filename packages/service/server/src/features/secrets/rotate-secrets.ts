import type { OrgId } from '@cloche/contract';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { lockKeys } from './key-locks.ts';
import type { SecretRecord } from './secret.ts';
import type { SecretKeys } from './secret-keys.ts';
import type { SecretRepository } from './secret-repository.ts';

const PAGE_SECRETS = 100;

export interface RotateSecretsDeps {
  readonly transactions: Transactions;
  readonly secrets: SecretRepository;
  readonly keys: SecretKeys;
}

/**
 * Encrypts all secrets again. Rotations of all servers alternate step by step: each step is a transaction that holds
 * the lock of the keys. No value is lost (docs/design/records.md, Keys of secrets), because
 *
 * - a value is encrypted under this lock, with the first key, and its row is committed before the lock is released;
 * - a key that is not the first never becomes the first again;
 * - a key is deleted only if, under the lock, it was not the first and no row named it. So no row will name it again.
 */
export class RotateSecrets {
  readonly #deps: RotateSecretsDeps;

  constructor(deps: RotateSecretsDeps) {
    this.#deps = deps;
  }

  /**
   * Encrypts every value with the newest key, which is made now unless the operator sets the keys. Returns the number
   * of secrets that were encrypted anew. An interrupted rotation is finished by the next one.
   *
   * @param announce called before for each organization that has secrets
   * @throws Error if a value cannot be decrypted; all keys are kept then
   */
  async rotate(announce: (orgId: OrgId) => Promise<void>): Promise<number> {
    const { secrets, keys } = this.#deps;
    for (const orgId of await secrets.organizations()) await announce(orgId);
    // Rows that were encrypted with an earlier key are committed now, so the pages below have them.
    await this.#step(async () => keys.renew());
    const rotated = await this.#encryptAnew();
    await this.#step((tx) => this.#forgetUnused(tx));
    return rotated;
  }

  async #encryptAnew(): Promise<number> {
    let rotated = 0;
    for (let afterId = '', page = PAGE_SECRETS; page === PAGE_SECRETS; ) {
      await this.#step(async (tx) => {
        const secrets = await this.#deps.secrets.page(afterId, PAGE_SECRETS, tx);
        for (const secret of secrets) if (await this.#encryptSecretAnew(secret, tx)) rotated += 1;
        page = secrets.length;
        afterId = secrets.at(-1)?.id ?? afterId;
      });
    }
    return rotated;
  }

  /** Returns whether the secret had a value that was encrypted with an earlier key. */
  async #encryptSecretAnew(secret: SecretRecord, tx: Transaction): Promise<boolean> {
    const { secrets, keys } = this.#deps;
    if (keys.isCurrent(secret.value)) return false;
    const sealed = keys.seal(keys.open(secret.value, secret.id), secret.id);
    // False for a secret that was deleted meanwhile.
    return secrets.replaceValue(secret, sealed, tx);
  }

  async #forgetUnused(tx: Transaction): Promise<void> {
    const { secrets, keys } = this.#deps;
    const unused: string[] = [];
    // The keys are read before the rows: a key that becomes a former one after this is not considered.
    for (const keyId of keys.othersThanCurrent()) if (!(await secrets.isAnySealedWith(keyId, tx))) unused.push(keyId);
    keys.forget(unused);
  }

  #step<T>(act: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#deps.transactions.run(async (tx) => {
      await lockKeys(tx);
      return act(tx);
    });
  }
}
