/**
 * What fake contexts run, one statement a line:
 *
 * | statement | does |
 * |---|---|
 * | `print TEXT`, `warn TEXT` | a line on standard output, standard error |
 * | `value TEXT` | a text output with the role `result` |
 * | `picture BASE64`, `large BYTES` | a picture; so much text as an output |
 * | `set NAME VALUE`, `get NAME` | keeps a variable; prints it, or fails with `NameError` |
 * | `fail NAME MESSAGE` | raises |
 * | `sleep MS`, `hang` | waits; for ever |
 * | `die` | the kernel dies: `KernelDiedError` |
 * | `deaf` | the agent stops answering, also at the time limit |
 * | `vanish` | the instance is lost |
 * | `cut` | the connection of this run breaks, and no other |
 * | `impostor` | the agent sends an event of another run |
 * | `overflow BYTES` | the agent sends so much standard output, whatever the bound |
 * | `listen PORT` | listens there and sends back what it gets |
 * | `truncate BYTES` | the agent says that it cut so much of standard output |
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
