/** Reduces the messages of a cell to a result that two kernels, and two runs, have in common. */

/** A message that the kernel has sent while it ran a cell. */
export interface CellMessage {
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: contents are read field by field
  readonly content: any;
}

export interface CellOutcome {
  readonly stdout: string;
  readonly stderr: string;
  /** Values, displays, updates and requests for input, in order. */
  readonly shown: readonly unknown[];
  readonly error?: { readonly name: string; readonly value: string; readonly lastLine: string };
  readonly count: number;
  readonly payload: readonly unknown[];
}

/** Colours of a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it begins with the character for Escape
const COLOUR = /\u001b\[[\d;]*m/g;
/** The file of a cell in the message of a `SyntaxError`. */
const IN_CELL = /\(\d+\.py, line/;
const CHANGING: readonly (readonly [RegExp, string])[] = [
  [/\/tmp\/ipykernel_\d+\/\d+\.py/g, '<cell>'],
  [/(?:\/workspace\/)?<cell \d+>/g, '<cell>'],
  // IPython prints it if the program has ended a tenth of a second after the interrupt.
  [/^Process was interrupted\.\n/gm, ''],
  // Fonts that the machine lacks.
  [/^findfont: .*\n/gm, ''],
  // The folder of a template's packages on this machine.
  [/(?<![\w./-])\/[\w./-]*\/rootfs(?=\/usr\/)/g, ''],
  [/\b0x[0-9a-f]{6,}\b/g, '0x…'],
  [/\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b/g, '<id>'],
  [/(?<=Ran \d+ tests? in )[\d.]+s/g, '<time>'],
  [/\b(?:CPU times|Wall time|user|sys|total): [^\n]*/g, '<time>'],
];

export function outcomeOf(messages: readonly CellMessage[], folder: string): CellOutcome {
  const plain = (text: string) =>
    CHANGING.reduce(
      (all, [what, mark]) => all.replaceAll(what, mark),
      text.replaceAll(COLOUR, '').replaceAll('\r\n', '\n').replaceAll(folder, '/workspace'),
    );
  const streamed = (name: string) =>
    plain(messages.reduce((all, { type, content }) => all + (isStream(type, content, name) ? content.text : ''), ''));
  const reply = messages.find(({ type }) => type === 'execute_reply')?.content ?? {};
  return {
    stdout: streamed('stdout'),
    stderr: streamed('stderr'),
    shown: messages.flatMap((message) => shownBy(message, plain)),
    ...(reply.status === 'error' && { error: errorOf(reply, plain) }),
    count: reply.execution_count,
    payload: values(reply.payload ?? [], plain) as unknown[],
  };
}

function isStream(type: string, content: CellMessage['content'], name: string): boolean {
  return type === 'stream' && content.name === name;
}

function shownBy({ type, content }: CellMessage, plain: (text: string) => string): unknown[] {
  if (type === 'execute_result' || type === 'display_data' || type === 'update_display_data') {
    const { data, metadata, execution_count: count } = content;
    const forms = Object.fromEntries(Object.entries(data).map(([mime, form]) => [mime, formOf(mime, form, plain)]));
    return [{ type, forms, metadata: values(metadata, plain), ...(count !== undefined && { count }) }];
  }
  if (type === 'input_request') return [{ type, ...content, prompt: plain(content.prompt) }];
  if (type === 'clear_output') return [{ type, wait: content.wait }];
  if (type === 'error') return [{ type, ...errorOf(content, plain) }];
  return type.startsWith('comm_') ? [{ type }] : [];
}

function errorOf({ ename, evalue, traceback }: CellMessage['content'], plain: (text: string) => string) {
  const lines = plain((traceback as string[]).join('\n').replace(COLOUR, ''))
    .trimEnd()
    .split('\n');
  return {
    name: ename as string,
    value: plain(evalue).replace(IN_CELL, '(line'),
    // IPython has a colon after a name without a message, and no name of a module.
    lastLine: (lines.at(-1) ?? '').replace(/^(?:\w+\.)+(?=\w+(?::|$))/, '').replace(/:$/, ''),
  };
}

/** Returns pictures as their sizes, and texts without what changes. */
function formOf(mime: string, form: unknown, plain: (text: string) => string): unknown {
  if (mime === 'image/png') return sizeOfPng(Buffer.from(String(form), 'base64'));
  if (mime === 'image/svg+xml') return /<svg[^>]*?(?:width="[^"]*")?[^>]*>/.exec(String(form))?.[0];
  if (mime === 'image/jpeg' || mime === 'application/pdf') return String(form).slice(0, 4);
  return values(form, plain);
}

function sizeOfPng(png: Buffer): string {
  return png.length > 24 ? `${png.readUInt32BE(16)}×${png.readUInt32BE(20)}` : `${png.length} bytes`;
}

function values(value: unknown, plain: (text: string) => string): unknown {
  if (typeof value === 'string') return plain(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => values(item, plain));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, values(item, plain)]));
}
