/** Values of expressions that a Jupyter client wants to know after a cell (`user_expressions`). */
import { type KernelError, MAX_KERNEL_FRAME_BYTES } from '@cloche/protocol';

const MAX_EXPRESSIONS = 100;
/** Most characters of all values together. */
const MAX_CHARACTERS = MAX_KERNEL_FRAME_BYTES / 4;

/** The expressions of one request, evaluated one after another. */
export class UserExpressions {
  readonly #waiting: [name: string, code: string][];
  readonly #values = new Map<string, string>();
  #name = '';
  #forms: string | undefined;
  #characters = 0;

  constructor(expressions: Readonly<Record<string, unknown>>) {
    this.#waiting = Object.entries(expressions)
      .slice(0, MAX_EXPRESSIONS)
      .map(([name, code]) => [name, String(code)]);
  }

  /** Returns the code of the next expression; undefined after the last one. */
  next(): string | undefined {
    const [name = '', code] = this.#waiting.shift() ?? [];
    this.#name = name;
    this.#forms = undefined;
    return code;
  }

  /** Takes the forms of a value, which are already JSON. */
  show(forms: string): void {
    this.#forms = forms;
  }

  /** Ends the current expression. */
  end(error: KernelError | undefined): void {
    const data = this.#forms ?? '{"text/plain":"undefined"}';
    this.#characters += data.length;
    const failure = this.#characters > MAX_CHARACTERS ? TOO_LARGE : error;
    this.#values.set(this.#name, failure ? failed(failure) : `{"status":"ok","data":${data},"metadata":{}}`);
  }

  /** Returns the text of the reply. */
  reply(): string {
    const values = [...this.#values].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',');
    const content = `{"status":"ok","user_expressions":{${values}},"payload":[]}`;
    return `{"channel":"shell","type":"execute_reply","content":${content}}`;
  }
}

const TOO_LARGE: KernelError = { name: 'RangeError', message: 'the values are too large', traceback: [] };

function failed({ name, message, traceback }: KernelError): string {
  return JSON.stringify({ status: 'error', ename: name, evalue: message, traceback });
}
