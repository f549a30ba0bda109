/** Answers questions of Jupyter's protocol about code, such as completions, from the current values of the context. */
import { type Completeness, indentAfter } from '../compile/completeness.ts';
import { type Look, type Seen, type SeenValue, writtenName } from '../messages.ts';

/** A question that the main thread must look up values for. */
export interface LookingQuestion {
  readonly look: Omit<Look, 'sequence'>;
  /** Returns the text of the reply. */
  replyOf(seen: Seen): string;
}

/** Questions about cells that the session of a kernel answers. */
export interface CellsKnown {
  completeness(code: string): Completeness;
  /** Returns the entries that a `history_request` asks for. */
  history(request: Fields): unknown[];
}

/** Expressions whose values a client wants to know. */
export interface Expressions {
  readonly expressions: Fields;
}

/** Code before the cursor beyond this is not read. */
const MAX_CODE = 1000;
const MAX_MATCHES = 500;
const MAX_TEXT = 10_000;
const KEYS_SHOWN = 20;
const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
/** A name, perhaps after others with dots, at the end of code. */
const CHAIN = /((?:[\p{ID_Start}$_][\p{ID_Continue}$]*\s*\??\.\s*)*)([\p{ID_Start}$_][\p{ID_Continue}$]*)?$/u;
/** The end of a number or of a string. */
const END_OF_VALUE = /[\p{ID_Continue}'"`]$/u;
const REST_OF_NAME = /^[\p{ID_Continue}$]*/u;

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads a message. Returns a question to look up, expressions to evaluate, or a reply that is already known; undefined
 * if it is not a question about code.
 */
export function readQuestion(
  text: string,
  cells: CellsKnown,
): LookingQuestion | Expressions | { readonly reply: string } | undefined {
  const { header, content } = JSON.parse(text) as { header: Fields; content: Fields };
  const { code, cursor_pos: position } = content;
  const type = header.msg_type;
  if (type === 'kernel_info_request')
    return { reply: replyText('kernel_info', { status: 'ok', language_info: { version: process.versions.node } }) };
  if (type === 'history_request')
    return { reply: replyText('history', { status: 'ok', history: cells.history(content) }) };
  if (type === 'execute_request') return expressionsOf(content);
  if (type === 'is_complete_request' && typeof code === 'string')
    return { reply: replyText('is_complete', completeness(code, cells)) };
  if ((type !== 'complete_request' && type !== 'inspect_request') || typeof code !== 'string') return undefined;
  const before = codeBefore(code, position);
  return type === 'complete_request' ? completion(before) : inspection(before, code.slice(before.length), content);
}

/** Returns the expressions of a request without a cell. Cells are no messages here. */
function expressionsOf({ code, user_expressions: expressions }: Fields): Expressions | undefined {
  if (code !== '' || typeof expressions !== 'object' || expressions === null) return undefined;
  return { expressions: expressions as Fields };
}

function completeness(code: string, cells: CellsKnown): Fields {
  const status = cells.completeness(code);
  return { status, ...(status === 'incomplete' && { indent: indentAfter(code) }) };
}

/** Returns the code before the cursor, whose position counts code points. */
function codeBefore(code: string, position: unknown): string {
  if (typeof position !== 'number') return code;
  let units = 0;
  for (let points = 0; points < position && units < code.length; points += 1) {
    units += (code.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
  }
  return code.slice(0, units);
}

function completion(before: string): LookingQuestion | { readonly reply: string } {
  const chain = chainAt(before);
  const length = [...before].length;
  const reply = (matches: string[], prefix: string) =>
    replyText('complete', {
      status: 'ok',
      matches,
      cursor_start: length - [...prefix].length,
      cursor_end: length,
      metadata: {},
    });
  if (!chain) return { reply: reply([], '') };
  const { path, name: prefix } = chain;
  return { look: { path, prefix }, replyOf: ({ names = [] }) => reply(matchesOf(names), prefix) };
}

function matchesOf(names: readonly string[]): string[] {
  const written = new Set(names.map(writtenName).filter((name) => NAME.test(name)));
  // Names that begin with an underscore come last.
  const key = (name: string) => (name.startsWith('_') ? `\uffff${name}` : name);
  return [...written].sort((one, other) => (key(one) < key(other) ? -1 : 1)).slice(0, MAX_MATCHES);
}

function inspection(before: string, after: string, { detail_level: level }: Fields) {
  const chain = chainAt(before + (REST_OF_NAME.exec(after)?.[0] ?? ''));
  const reply = (text: string | undefined) =>
    replyText('inspect', {
      status: 'ok',
      found: text !== undefined,
      data: text === undefined ? {} : { 'text/plain': text },
      metadata: {},
    });
  if (!chain?.name) return { reply: reply(undefined) };
  const path = [...chain.path, chain.name];
  return { look: { path }, replyOf: ({ value }: Seen) => reply(value && describe(value, level === 1)) };
}

/** Finds the chain of names at the end of code; undefined if it follows anything but a name, such as a call. */
function chainAt(code: string): { readonly path: string[]; readonly name: string } | undefined {
  const end = code.slice(-MAX_CODE);
  const [all = '', owners = '', name = ''] = CHAIN.exec(end) ?? [];
  const rest = end.slice(0, end.length - all.length).trimEnd();
  if (rest.length === 0 && end.length < code.length) return undefined;
  if (rest.endsWith('.') && !rest.endsWith('...')) return undefined;
  if (END_OF_VALUE.test(rest)) return undefined;
  const path = owners.split('.').map((owner) => owner.replace(/[\s?]/g, ''));
  return { path: path.slice(0, -1), name };
}

function describe({ type, value, source, className, keys }: SeenValue, isWhole: boolean): string {
  const lines = [`Type: ${className === undefined ? type : `${type} (${className})`}`];
  if (value !== undefined) lines.push(`Value: ${type === 'string' ? JSON.stringify(value.slice(0, MAX_TEXT)) : value}`);
  if (source !== undefined) lines.push(isWhole ? source : signatureOf(source));
  if (keys?.length)
    lines.push(`Properties: ${keys.slice(0, KEYS_SHOWN).join(', ')}${keys.length > KEYS_SHOWN ? ', …' : ''}`);
  return lines.join('\n').slice(0, MAX_TEXT);
}

/** Returns the first line of a function, without its body. */
function signatureOf(source: string): string {
  const [line = ''] = source.split('\n', 1);
  return line.replace(/\s*(?:=>.*|\{.*)$/, '');
}

function replyText(type: string, content: Fields): string {
  return JSON.stringify({ channel: 'shell', type: `${type}_reply`, content });
}
