import type { OrgId } from '@cloche/contract';
import { KeyedQueue } from '@cloche/node-support';
import type { SecretKeys } from './secret-keys.ts';
import type { SecretRepository } from './secret-repository.ts';

const PAGE_SECRETS = 100;

/** Encrypts all secrets anew. */
export class RotateSecrets {
  readonly #secrets: SecretRepository;
  readonly #keys: SecretKeys;
  readonly #rotations = new KeyedQueue<'rotation'>();

  constructor(secrets: SecretRepository, keys: SecretKeys) {
    this.#secrets = secrets;
    this.#keys = keys;
  }

  /**
   * Encrypts every value with the newest key, which is made now unless the operator sets the keys. Returns the number
   * of secrets that were encrypted anew. An interrupted rotation is finished by the next one.
   *
   * @param announce called before for each organization that has secrets
   * @throws Error if a value cannot be decrypted; all keys are kept then
   */
  rotate(announce: (orgId: OrgId) => Promise<void>): Promise<number> {
    return this.#rotations.run('rotation', async () => {
      for (const orgId of await this.#secrets.organizations()) await announce(orgId);
      this.#keys.renew();
      const rotated = await this.#encryptAnew();
      this.#keys.forgetOthers();
      return rotated;
    });
  }

  async #encryptAnew(): Promise<number> {
    let rotated = 0;
    for (let afterId = '', page = PAGE_SECRETS; page === PAGE_SECRETS; ) {
      const secrets = await this.#secrets.page(afterId, PAGE_SECRETS);
      for (const secret of secrets) {
        if (this.#keys.isCurrent(secret.value)) continue;
        const sealed = this.#keys.seal(this.#keys.open(secret.value, secret.id), secret.id);
        // A value that was changed meanwhile is encrypted with the newest key already.
        if (await this.#secrets.replaceValue(secret, sealed)) rotated += 1;
      }
      page = secrets.length;
      afterId = secrets.at(-1)?.id ?? afterId;
    }
    return rotated;
  }
}
