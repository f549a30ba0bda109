import { coversHost, type HostEntry, parseHostEntry } from '@cloche/contract';
import type { SecretAnswers, SecretQuestions } from '@cloche/protocol';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import { MissingKeyError, type SecretKeys } from './secret-keys.ts';
import type { SecretRepository } from './secret-repository.ts';

export interface FindSecretValuesDeps {
  readonly sandboxes: SandboxRepository;
  readonly secrets: SecretRepository;
  readonly keys: SecretKeys;
}

/** Finds the values for placeholders that live sandboxes send to hosts. Reads secrets anew for each message. */
export class FindSecretValues {
  readonly #deps: FindSecretValuesDeps;

  constructor(deps: FindSecretValuesDeps) {
    this.#deps = deps;
  }

  /** @throws Error if a value cannot be decrypted */
  async find(questions: SecretQuestions): Promise<SecretAnswers> {
    try {
      return await this.#find(questions);
    } catch (error) {
      if (!(error instanceof MissingKeyError)) throw error;
      // A rotation may have replaced the value and deleted its key after the query.
      return this.#find(questions);
    }
  }

  async #find({ sandboxId, questions }: SecretQuestions): Promise<SecretAnswers> {
    const { sandboxes, secrets, keys } = this.#deps;
    const sandbox = await sandboxes.find(sandboxId);
    const known = sandbox && factsOf(sandbox).acceptsWork ? (sandbox.secrets ?? {}) : {};
    const idOf = (placeholder: string) => (Object.hasOwn(known, placeholder) ? known[placeholder] : undefined);
    const ids = [...new Set(questions.map(({ placeholder }) => idOf(placeholder)))].filter((id) => id !== undefined);
    const found = sandbox && ids.length > 0 ? await secrets.listOfProject(sandbox.projectId, ids) : [];
    const byId = new Map(found.map((secret) => [secret.id, secret]));
    const values = questions.map(({ placeholder, host }) => {
      const id = idOf(placeholder);
      const secret = id && byId.get(id);
      if (!secret || !entriesOf(secret.hosts).some((entry) => coversHost(entry, host))) return null;
      return keys.open(secret.value, secret.id);
    });
    return { values };
  }
}

function entriesOf(hosts: readonly string[]): HostEntry[] {
  return hosts.flatMap((text) => {
    const result = parseHostEntry(text);
    return result.ok ? [result.entry] : [];
  });
}
