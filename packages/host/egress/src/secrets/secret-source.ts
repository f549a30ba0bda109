import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { parsePlainJson } from '@cloche/node-support';
import { SecretAnswers, type SecretQuestion, type SecretQuestions } from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { EgressError } from '../upstream/egress-error.ts';

/** Longest time for an answer. It is long enough for the server to restart. */
const ANSWER_MS = 8000;
const RETRY_MS = 100;
/** Questions that are asked at a time, each about one sandbox. */
const MAX_CONNECTIONS = 8;
/** Bytes of the longest answer: each value at its longest, escaped. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_ANSWER_VALUES = 1_000;

const answers = Compile(SecretAnswers);

/** Finds the values for placeholders. Rejects with an `EgressError` if the server cannot be asked. */
export interface SecretSource {
  /** Returns a value for each question, in their order; undefined for a placeholder that stays as it is. */
  find(questions: SecretQuestions, signal: AbortSignal): Promise<(string | undefined)[]>;
  close(): void;
}

/** Asks the server, by its Unix socket. Keeps no value. */
export class SecretClient implements SecretSource {
  readonly #socketPath: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: MAX_CONNECTIONS });

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  async find(questions: SecretQuestions, ended: AbortSignal): Promise<(string | undefined)[]> {
    const signal = AbortSignal.any([ended, AbortSignal.timeout(ANSWER_MS)]);
    for (;;) {
      try {
        return await this.#ask(questions, signal);
      } catch (cause) {
        if (cause instanceof EgressError || signal.aborted) {
          throw new EgressError('secrets', 'the server does not give the values of secrets', { cause });
        }
      }
      // The server is starting, or ended while it answered. Asking again changes nothing.
      await delay(RETRY_MS, undefined, { signal }).catch(() => {});
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #ask(asked: SecretQuestions, signal: AbortSignal): Promise<(string | undefined)[]> {
    const outgoing = request({
      socketPath: this.#socketPath,
      agent: this.#agent,
      method: 'POST',
      path: '/values',
      headers: { 'content-type': 'application/json' },
      signal,
    });
    // An error after the response is reported by the response.
    outgoing.on('error', () => {});
    outgoing.end(JSON.stringify(asked));
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
    const text = await boundedText(incoming);
    if (incoming.statusCode !== 200) throw new EgressError('secrets', `the server answered ${incoming.statusCode}`);
    return readAnswer(text, asked.questions);
  }
}

function readAnswer(text: string, questions: readonly SecretQuestion[]): (string | undefined)[] {
  const answer = parsePlainJson(text, MAX_ANSWER_VALUES);
  if (!answers.Check(answer) || answer.values.length !== questions.length) {
    throw new EgressError('secrets', 'the answer of the server has another form');
  }
  return answer.values.map((value) => value ?? undefined);
}

async function boundedText(incoming: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of incoming.setEncoding('utf8')) {
    text += chunk;
    if (text.length > MAX_ANSWER_BYTES) throw new EgressError('secrets', 'the answer of the server is too long');
  }
  return text;
}
