import {
  answerKernelMessage,
  ERROR_CODES,
  type ErrorCode,
  type KernelMessageEvent,
  LIMITS,
  type Operation,
  sendKernelMessage,
} from '@cloche/contract';
import { bytesUpTo } from '@cloche/node-support';
import { ClocheError, type Context } from '@cloche/sdk';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import type { ApiAccess } from '../api-key.ts';
import { kernelText } from './kernel-text.ts';
import type { Message } from './message.ts';

const REFUSAL_BYTES = 1024 * 1024;

/** Sends messages to the kernel of a context, with the key of a client. Each message is a run of the context. */
export class KernelMessages {
  readonly #api: ApiAccess;
  readonly #context: Context;

  constructor(api: ApiAccess, context: Context) {
    this.#api = api;
    this.#context = context;
  }

  /**
   * Yields the events of the run, `complete` last. Leaving the loop cancels it.
   *
   * @throws ClocheError
   */
  async *send(message: Message, signal: AbortSignal): AsyncGenerator<KernelMessageEvent, void> {
    const { language } = this.#context;
    const body = { language, message: kernelText(message), timeoutMs: LIMITS.runTimeoutMaxMs };
    const { body: stream } = await this.#post(sendKernelMessage, body, signal);
    if (!stream) throw new ClocheError('unexpected_response', 'A stream of events has no body.');
    // An exception may be named like an error of the service. Only the service's is the last event.
    let held: (KernelMessageEvent & { type: 'error' }) | undefined;
    for await (const { data } of stream
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream())) {
      if (held) yield held;
      // Sound: the service that this is a part of sends its own events.
      const event = JSON.parse(data) as KernelMessageEvent;
      held = event.type === 'error' ? event : undefined;
      if (!held) yield event;
    }
    if (held) throw failureOf(held.data.name, held.data.message);
  }

  /** Passes the answer of a client to the run that the context executes. */
  async answer(message: Message): Promise<void> {
    const response = await this.#post(answerKernelMessage, { message: kernelText(message) });
    await response.body?.cancel();
  }

  async #post({ path }: Operation, body: object, signal?: AbortSignal): Promise<Response> {
    const { sandboxId, id } = this.#context.info;
    const send = this.#api.fetch;
    const response = await send(this.#api.url + path.replace('{sandboxId}', sandboxId).replace('{contextId}', id), {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#api.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
    if (response.ok) return response;
    const text = response.body && (await bytesUpTo(REFUSAL_BYTES, response.body));
    // Sound: the service that this is a part of sends its own refusals.
    const { error } = JSON.parse(String(text)) as { error: { code: string; message: string } };
    throw failureOf(error.code, error.message, response.status);
  }
}

function failureOf(name: string, message: string, status?: number): ClocheError {
  const code = ERROR_CODES.find((known): known is ErrorCode => known === name) ?? 'unexpected_response';
  return new ClocheError(code, message, { status });
}
