const MAX_LINES = 2000;
const WAIT_MS = 1000;
/** Reading them asks two other parts, and needs no key. */
const FRESH_MS = 1000;

const NAME = 'cloche_(?:egress|hostd)_[a-z_]{1,80}';
const LABELS =
  '\\{[a-z_]{1,40}="[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]{0,80}"(?:,[a-z_]{1,40}="[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]{0,80}"){0,8}\\}';
const SAMPLE = new RegExp(`^${NAME}(?:${LABELS})? (?:NaN|[+-]?(?:Inf|\\d[\\d.]{0,30}(?:e[+-]?\\d{1,3})?))$`);
const COMMENT = new RegExp(`^# (?:HELP|TYPE) ${NAME} [\\x20-\\x7e]{1,300}$`);

/** Reads them once a second at most, however many ask. */
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
 * Of what other parts of the host count, what is well formed and by their own names: egress reads what sandboxes send, so
 * it is not believed to say nothing else. Empty where they do not answer soon.
 */
export async function hostMetrics(read: (signal: AbortSignal) => Promise<string>): Promise<string> {
  const text = await read(AbortSignal.timeout(WAIT_MS)).catch(() => '');
  const lines = text.split('\n', MAX_LINES).filter((line) => SAMPLE.test(line) || COMMENT.test(line));
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}
