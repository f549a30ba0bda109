/**
 * A statement of the toy language that fake contexts run. Each line is one statement:
 *
 * | statement | effect |
 * |---|---|
 * | `print TEXT`, `warn TEXT` | prints a line on standard output, standard error |
 * | `value TEXT` | shows a text output with the role `result` |
 * | `picture BASE64`, `large BYTES` | shows a picture; a text output of that size |
 * | `set NAME VALUE`, `get NAME` | stores a variable; prints it, or fails with `NameError` |
 * | `fail NAME MESSAGE` | raises an error |
 * | `sleep MS`, `hang` | waits; waits for ever |
 * | `die` | the kernel dies: `KernelDiedError` |
 * | `deaf` | the agent stops answering, also at the time limit |
 * | `vanish` | the instance is lost |
 * | `cut` | the connection of this run breaks, and no other |
 * | `impostor` | the agent sends an event of another run |
 * | `overflow BYTES` | the agent sends that much standard output, whatever the limit |
 * | `listen PORT` | starts an echo server on that port |
 * | `tell TEXT` | a run that has a message sends the text to its client |
 * | `ask PROMPT` | asks the client for a line of input, and prints it |
 * | `truncate BYTES` | the agent reports that it has cut that much of standard output |
 */
export interface Statement {
  readonly verb: string;
  readonly text: string;
}

export function parseToy(code: string): Statement[] {
  return code.split('\n').flatMap((line) => {
    const [, verb, text] = /^\s*(\S+) ?(.*)$/.exec(line) ?? [];
    return verb === undefined ? [] : [{ verb, text: text ?? '' }];
  });
}

/** Returns the statements that answer a message: those of a cell, and a reply. */
export function parseMessage(text: string): Statement[] {
  const { header, content } = JSON.parse(text);
  if (!header.msg_type.endsWith('_request')) return [{ verb: 'print', text }];
  const type = header.msg_type.replace('_request', '_reply');
  const isCell = type === 'execute_reply';
  const reply = { channel: 'shell', type, content: { status: 'ok', ...(isCell ? {} : { asked: content }) } };
  return [...(isCell ? parseToy(content.code) : []), { verb: 'tell', text: JSON.stringify(reply) }];
}
