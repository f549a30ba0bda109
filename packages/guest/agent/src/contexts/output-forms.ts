import { jsonBytes } from '@cloche/node-support';
import { type AgentOutput, CHART_MIME_TYPE, DATA_MIME_TYPE, type OutputFormat } from '@cloche/protocol';

const FORMATS: ReadonlyMap<string, OutputFormat> = new Map(
  Object.entries({
    'text/plain': 'text',
    'text/html': 'html',
    'text/markdown': 'markdown',
    'text/latex': 'latex',
    'image/svg+xml': 'svg',
    'image/png': 'png',
    'image/jpeg': 'jpeg',
    'image/gif': 'gif',
    'application/pdf': 'pdf',
    'application/json': 'json',
    'application/javascript': 'javascript',
    'text/javascript': 'javascript',
    [CHART_MIME_TYPE]: 'chart',
    [DATA_MIME_TYPE]: 'data',
  } as const),
);

/** Most characters of a MIME type. User code chooses the types; real ones are shorter. */
const MAX_MIME_TYPE_CHARACTERS = 255;

/** Most outputs of one run, however small, because each costs its readers time and memory. */
const MAX_OUTPUTS = 10_000;

type OutputContent = Pick<AgentOutput, 'format' | 'mimeType' | 'value'>;

/** Limits on the sizes as JSON. */
export interface OutputLimits {
  /** Limit on the value of one form. */
  outputBytes: number;
  /** Limit on all forms of all outputs of a run, including the names of their types. */
  outputsBytes: number;
}

/** Converts a run's rich outputs to outputs of the protocol, within the limits. */
export class OutputForms {
  readonly #limits: OutputLimits;
  #bundles = 0;
  #bytes = 0;
  #outputs = 0;

  constructor(limits: OutputLimits) {
    this.#limits = limits;
  }

  /**
   * Converts the forms of one output. Replaces a form that is too large with a line of text, as well as the last
   * allowed.
   */
  convert(role: AgentOutput['role'], forms: Readonly<Record<string, unknown>>): AgentOutput[] {
    const bundle = this.#bundles++;
    return Object.entries(forms).flatMap(([mimeType, form]) => {
      const value = textOf(mimeType, form);
      if (value === undefined || ++this.#outputs > MAX_OUTPUTS) return [];
      const content = this.#outputs === MAX_OUTPUTS ? NO_MORE : this.#bounded(mimeType, value);
      return [{ kind: 'inline' as const, ...content, role, bundle }];
    });
  }

  /** Counts a message as an output of its size. Returns whether it may be sent. */
  admits(message: string): boolean {
    const bytes = jsonBytes(message);
    const limit = Math.min(this.#limits.outputBytes, this.#limits.outputsBytes - this.#bytes);
    // The last output says that there are no more.
    if (bytes > limit || this.#outputs >= MAX_OUTPUTS - 1) return false;
    this.#outputs += 1;
    this.#bytes += bytes;
    return true;
  }

  #bounded(mimeType: string, value: string): OutputContent {
    const bytes = jsonBytes(value);
    const typeBytes = jsonBytes(mimeType);
    const limit = Math.min(this.#limits.outputBytes, this.#limits.outputsBytes - this.#bytes - typeBytes);
    if (bytes > limit) return { format: 'text', mimeType: 'text/plain', value: leftOut(mimeType, bytes, limit) };
    this.#bytes += bytes + typeBytes;
    return { format: formatOf(mimeType), mimeType, value };
  }
}

const NO_MORE: OutputContent = {
  format: 'text',
  mimeType: 'text/plain',
  value: `[cloche: further outputs left out; a run has at most ${MAX_OUTPUTS}]`,
};

function leftOut(mimeType: string, bytes: number, limit: number): string {
  return `[cloche: ${mimeType} output of ${bytes} bytes as JSON left out; ${Math.max(0, limit)} bytes were available]`;
}

/** Returns the value as text, or undefined for a form that no format can hold. */
function textOf(mimeType: string, form: unknown): string | undefined {
  if (mimeType.length > MAX_MIME_TYPE_CHARACTERS) return undefined;
  if (!FORMATS.has(mimeType) && !isTextual(mimeType)) return undefined;
  return typeof form === 'string' && !isJson(mimeType) ? form : JSON.stringify(form);
}

/** Returns the format of a MIME type. A type without a format of its own is `json` or `text`. */
function formatOf(mimeType: string): OutputFormat {
  return FORMATS.get(mimeType) ?? (isJson(mimeType) ? 'json' : 'text');
}

function isTextual(mimeType: string): boolean {
  return mimeType.startsWith('text/') || isJson(mimeType);
}

function isJson(mimeType: string): boolean {
  return mimeType === 'application/json' || mimeType.endsWith('+json');
}
