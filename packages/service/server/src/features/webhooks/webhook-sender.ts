import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { Deadline, onAbort } from '@cloche/node-support';
import { buildConnector, Client, type Dispatcher } from 'undici';
import type { SendResult } from './delivery.ts';
import { hostOf, type TargetGuard } from './target-guard.ts';

/** Longest time of one attempt, from the look-up of the name to the end of the answer. */
const ATTEMPT_MS = 15_000;
/** Bytes of an answer that are read. */
const ANSWER_BYTES = 64 * 1024;
/** Most interim answers (1xx), each of which has at most 16 KiB, before the answer. */
const INTERIM_ANSWERS = 8;
const DNS_TRY_MS = 5_000;

export interface SenderOptions {
  /** Returns the addresses of a name. Default: those that DNS has. */
  readonly resolve?: (name: string, signal: AbortSignal) => Promise<string[]>;
  /** Name servers, with their ports. Default: those of the machine. */
  readonly dnsServers?: readonly string[];
  /** Certificates that are trusted instead of the usual roots. */
  readonly ca?: string;
  /** Default: 15 seconds. */
  readonly attemptMs?: number;
}

/** Sends messages to the receivers of webhooks, whatever these answer. */
export class WebhookSender {
  readonly #guard: TargetGuard;
  readonly #options: SenderOptions;

  constructor(guard: TargetGuard, options: SenderOptions = {}) {
    this.#guard = guard;
    this.#options = options;
  }

  /** Opens a receiver. The caller closes it. */
  open(url: string): Receiver {
    return new Receiver(new URL(url), this.#guard, this.#options);
  }
}

/** A receiver at one address, which is looked up once. */
export class Receiver implements AsyncDisposable {
  readonly #url: URL;
  readonly #guard: TargetGuard;
  readonly #options: SenderOptions;
  #client: Client | undefined;

  constructor(url: URL, guard: TargetGuard, options: SenderOptions) {
    this.#url = url;
    this.#guard = guard;
    this.#options = options;
  }

  /** Sends a message once. Never rejects for what the receiver does; rejects with the signal's reason if it aborts. */
  async post(headers: Readonly<Record<string, string>>, body: string, signal: AbortSignal): Promise<SendResult> {
    using deadline = new Deadline(this.#options.attemptMs ?? ATTEMPT_MS, signal);
    const chatter = new AbortController();
    let interim = 0;
    try {
      this.#client ??= await this.#connect(deadline.signal);
      const answer = await this.#client.request({
        method: 'POST',
        path: this.#url.pathname + this.#url.search,
        headers: { 'content-type': 'application/json', 'user-agent': 'cloche-webhooks', ...headers },
        body,
        onInfo: () => {
          interim += 1;
          if (interim > INTERIM_ANSWERS) chatter.abort(new InterimAnswersError());
        },
        signal: AbortSignal.any([deadline.signal, chatter.signal]),
      });
      return { kind: 'answered', status: answer.statusCode, body: await beginningOf(answer, deadline.signal) };
    } catch (error) {
      signal.throwIfAborted();
      return {
        kind: 'failed',
        error: deadline.endedBy === 'timeout' ? 'no answer within 15 seconds' : reasonOf(error),
      };
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client?.destroy();
  }

  /**
   * Looks the name up, and returns a client whose connections all lead to the address that was checked.
   *
   * SECURITY: the connection is made to the address, not to the name, so a name that has another address at a second
   * look-up is of no use; "what a webhook may not reach" in webhook-sender.test.ts.
   */
  async #connect(signal: AbortSignal): Promise<Client> {
    const host = hostOf(this.#url);
    const addresses = isIP(host) > 0 ? [host] : await this.#resolve(host, signal);
    const address = addresses.find((each) => this.#guard.permits(each));
    if (address === undefined) throw new UnreachableError();
    const { ca } = this.#options;
    const connector = buildConnector({ timeout: ATTEMPT_MS, allowH2: false, ...(ca && { ca }) });
    // The name stays in `host`, from which the name for TLS and its check is taken.
    const connect: buildConnector.connector = (options, connected) =>
      connector({ ...options, hostname: address }, connected);
    return new Client(this.#url.origin, { connect, pipelining: 1 });
  }

  async #resolve(name: string, signal: AbortSignal): Promise<string[]> {
    const { resolve, dnsServers } = this.#options;
    return resolve ? resolve(name, signal) : resolveByDns(name, signal, dnsServers);
  }
}

class InterimAnswersError extends Error {
  constructor() {
    super(`no answer: more than ${INTERIM_ANSWERS} interim answers`);
  }
}

class UnreachableError extends Error {
  constructor() {
    super('the host of the URL has no public address');
  }
}

/** Asks DNS itself: `lookup` would occupy one of the few threads of the process while a name server hangs. */
async function resolveByDns(name: string, signal: AbortSignal, servers?: readonly string[]): Promise<string[]> {
  const resolver = new Resolver({ timeout: DNS_TRY_MS, tries: 2 });
  if (servers) resolver.setServers(servers);
  using _ = onAbort(signal, () => resolver.cancel());
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  signal.throwIfAborted();
  return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
}

/** Reads at most 64 KiB, until `signal` aborts at the latest. An incomplete text is good enough. */
async function beginningOf({ body }: Dispatcher.ResponseData, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= ANSWER_BYTES || signal.aborted) break;
    }
  } catch {
    // The status has arrived, which is all that counts.
  }
  const text = Buffer.concat(chunks).subarray(0, ANSWER_BYTES).toString('utf8');
  // PostgreSQL stores no NUL.
  return text.replaceAll('\0', '\ufffd').toWellFormed();
}

/** Texts for errors that the owner of a webhook can act on. Other errors are named by their codes only. */
function reasonOf(error: unknown): string {
  if (error instanceof UnreachableError || error instanceof InterimAnswersError) return error.message;
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? `no answer: ${code}` : 'no answer: the connection failed';
}
