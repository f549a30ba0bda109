/** Longest report: a failure has the text of an exception. */
const MAX_CHARACTERS = 64 * 1024;

export interface ZygoteReport {
  readonly type: 'ready' | 'entered' | 'failed';
  readonly id?: number;
  readonly message?: string;
}

/** Reads the lines of a zygote. */
export class ZygoteReports {
  #unread = '';

  /** Returns the reports that `text` completes. Throws if a line is no report or has no end. */
  read(text: string): ZygoteReport[] {
    const lines = (this.#unread + text).split('\n');
    this.#unread = lines.pop() ?? '';
    if (this.#unread.length > MAX_CHARACTERS) throw new Error('the zygote sent a line without an end');
    return lines.map(parse);
  }
}

function parse(line: string): ZygoteReport {
  const report: unknown = JSON.parse(line);
  if (typeof report !== 'object' || report === null) throw new Error('the zygote sent a line that is no report');
  // Sound: the fields of an object that is no report match no fork.
  return report as ZygoteReport;
}
