import { once } from 'node:events';
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { parsePlainJson } from '@cloche/node-support';
import { EgressErrorBody, EgressHealth, type GatedSandbox, type GatedSandboxList } from '@cloche/protocol';
import { Value } from 'typebox/value';

const ANSWER_MS = 5000;
/** Limit of an answer. Egress handles untrusted traffic, so its answers may not exhaust hostd's memory. */
const MAX_ANSWER_BYTES = 64 * 1024;
const MAX_VALUES = 1_000;
/** Errors of a request whose connection has been closed by egress. */
const LOST: ReadonlySet<string> = new Set(['EPIPE', 'ECONNRESET']);

/** A refusal by egress. Any other error means that egress could not be reached. */
export class EgressRefusedError extends Error {
  override readonly name = 'EgressRefusal';
}

/**
 * A client of egress's control socket. Sends requests in the order of their calls, each after the answer to the
 * previous one.
 */
export class EgressClient {
  readonly #socketPath: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  async health(): Promise<EgressHealth> {
    return Value.Parse(EgressHealth, parsePlainJson(await this.#ask('GET', '/health'), MAX_VALUES));
  }

  /** Returns the counters in Prometheus' text format, unparsed. */
  metrics(): Promise<string> {
    return this.#ask('GET', '/metrics');
  }

  async replaceAll(list: GatedSandboxList): Promise<void> {
    await this.#ask('PUT', '/sandboxes', list);
  }

  async put(address: string, sandbox: GatedSandbox): Promise<void> {
    await this.#ask('PUT', `/sandboxes/${address}`, sandbox);
  }

  async delete(address: string): Promise<void> {
    await this.#ask('DELETE', `/sandboxes/${address}`);
  }

  /** Resolves when egress answers, with a signal that aborts when that egress ends or when `signal` aborts. */
  async lifetime(signal: AbortSignal): Promise<AbortSignal> {
    const outgoing = request({ socketPath: this.#socketPath, path: '/lifetime', agent: false, signal });
    // An error after the answer is reported by the answer's stream.
    outgoing.on('error', () => {}).end();
    const incoming = await answerTo(outgoing, ANSWER_MS);
    if (incoming.statusCode !== 200) {
      outgoing.destroy();
      throw new Error(`egress answered ${incoming.statusCode} to /lifetime`);
    }
    const ended = new AbortController();
    incoming.on('error', () => {}).once('close', () => ended.abort());
    incoming.resume();
    return ended.signal;
  }

  close(): void {
    this.#agent.destroy();
  }

  /**
   * Sends a request, and again on a new connection if the kept one ends before the answer. Every request may be repeated.
   */
  async #ask(method: string, path: string, message?: object): Promise<string> {
    const outgoing = request({
      socketPath: this.#socketPath,
      agent: this.#agent,
      method,
      path,
      ...(message && { headers: { 'content-type': 'application/json' } }),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    outgoing.on('error', () => {}).end(message && JSON.stringify(message));
    const incoming = await answerTo(outgoing, ANSWER_MS).catch((error: NodeJS.ErrnoException) => {
      if (!outgoing.reusedSocket || !LOST.has(error.code ?? '')) throw error;
    });
    if (!incoming) return this.#ask(method, path, message);
    const answer = await boundedText(incoming);
    const { statusCode = 0 } = incoming;
    if (statusCode >= 400) throw new EgressRefusedError(`egress answered ${statusCode}: ${messageOf(answer)}`);
    return answer;
  }
}

async function answerTo(outgoing: ClientRequest, timeoutMs: number): Promise<IncomingMessage> {
  try {
    const [incoming] = await once(outgoing, 'response', { signal: AbortSignal.timeout(timeoutMs) });
    return incoming;
  } catch (error) {
    outgoing.destroy();
    throw error;
  }
}

async function boundedText(incoming: IncomingMessage): Promise<string> {
  let answer = '';
  for await (const chunk of incoming.setEncoding('utf8')) {
    answer += chunk;
    if (answer.length > MAX_ANSWER_BYTES) throw new Error('the answer of egress does not end');
  }
  return answer;
}

function messageOf(answer: string): string {
  try {
    return Value.Parse(EgressErrorBody, parsePlainJson(answer, MAX_VALUES)).error.message;
  } catch {
    return 'no reason given';
  }
}
