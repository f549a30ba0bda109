import { setTimeout as delay } from 'node:timers/promises';
import { reportFailure } from '@cloche/node-support';
import { MAX_SECRET_QUESTIONS, type SecretQuestion } from '@cloche/protocol';
import type { SecretSource } from './secret-source.ts';

/** Time between two messages about one sandbox, so that a sandbox cannot keep the server busy. */
const PAUSE_MS = 5;

interface Waiting {
  readonly questions: readonly SecretQuestion[];
  readonly resolve: (values: (string | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Finds the values of secrets for the requests of one sandbox. One message to the server is under way at a time; the
 * next message combines the questions of all requests that wait. A request never gets an answer to a message that was
 * sent before the request arrived, so a changed secret applies to it.
 */
export class SandboxSecrets {
  readonly #sandboxId: string;
  readonly #source: SecretSource;
  readonly #ended: AbortSignal;
  #waiting: Waiting[] = [];
  #isAsking = false;

  constructor(sandboxId: string, source: SecretSource, ended: AbortSignal) {
    this.#sandboxId = sandboxId;
    this.#source = source;
    this.#ended = ended;
  }

  /** Returns a value for each question, at most 64, in their order. Rejects with an `EgressError`. */
  find(questions: readonly SecretQuestion[]): Promise<(string | undefined)[]> {
    const { promise, resolve, reject } = Promise.withResolvers<(string | undefined)[]>();
    this.#waiting.push({ questions, resolve, reject });
    if (!this.#isAsking) this.#ask().catch(reportFailure);
    return promise;
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      const questions = batch.flatMap((each) => each.questions);
      try {
        const values = await this.#source.find({ sandboxId: this.#sandboxId, questions }, this.#ended);
        let from = 0;
        for (const { questions: own, resolve } of batch) {
          resolve(values.slice(from, from + own.length));
          from += own.length;
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
      await delay(PAUSE_MS);
    }
    this.#isAsking = false;
  }

  #nextBatch(): Waiting[] {
    let count = 0;
    const end = this.#waiting.findIndex(({ questions }, index) => {
      count += questions.length;
      return index > 0 && count > MAX_SECRET_QUESTIONS;
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }
}
