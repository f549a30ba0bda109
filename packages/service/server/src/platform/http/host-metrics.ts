import { Deadline } from '@cloche/node-support';

const MAX_LINES = 2000;
const WAIT_MS = 1000;
/** Longest time that a reading is reused. A reading queries two other services, and requests for it need no key. */
const FRESH_MS = 1000;

const NAME = 'cloche_(?:egress|hostd)_[a-z_]{1,80}';
const LABELS =
  '\\{[a-z_]{1,40}="[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]{0,80}"(?:,[a-z_]{1,40}="[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]{0,80}"){0,8}\\}';
const SAMPLE = new RegExp(`^${NAME}(?:${LABELS})? (?:NaN|[+-]?(?:Inf|\\d[\\d.]{0,30}(?:e[+-]?\\d{1,3})?))$`);
const COMMENT = new RegExp(`^# (?:HELP|TYPE) ${NAME} [\\x20-\\x7e]{1,300}$`);

/** Reads the host's metrics at most once a second, however many requests arrive. */
export class HostMetrics {
  readonly #read: (signal: AbortSignal) => Promise<string>;
  readonly #now: () => number;
  #latest: { readonly at: number; readonly text: Promise<string> } | undefined;

  constructor(read: (signal: AbortSignal) => Promise<string>, now = () => performance.now()) {
    this.#read = read;
    this.#now = now;
  }

  read(): Promise<string> {
    const now = this.#now();
    if (!this.#latest || now - this.#latest.at >= FRESH_MS) this.#latest = { at: now, text: hostMetrics(this.#read) };
    return this.#latest.text;
  }
}

/**
 * Returns the well-formed lines of other services' metrics that have the services' own names. Egress parses data from
 * sandboxes, so its output is untrusted. Returns an empty text when the services do not respond in time.
 */
export async function hostMetrics(read: (signal: AbortSignal) => Promise<string>): Promise<string> {
  using limit = new Deadline(WAIT_MS);
  const text = await read(limit.signal).catch(() => '');
  const lines = text.split('\n', MAX_LINES).filter((line) => SAMPLE.test(line) || COMMENT.test(line));
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}
