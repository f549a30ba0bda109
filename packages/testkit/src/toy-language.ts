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
