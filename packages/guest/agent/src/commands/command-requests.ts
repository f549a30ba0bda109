/** Readers of requests about commands. They check by hand, as `requests.ts` does. */
import { constants } from 'node:os';
import type { ReadCommandLog, StartCommand, TerminalSize, WriteStdin } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { type Fields, fieldsOf, integerIn, objectIn, stringMapIn, textIn } from '../wire/requests.ts';

export function readStartCommand(body: unknown): StartCommand {
  const fields = fieldsOf(body, 'body');
  const user = textIn(fields, 'user');
  if (user !== 'user' && user !== 'root') throw new AgentError('bad_request', 'user must be "user" or "root".');
  const argv = textsIn(fields, 'argv');
  const cwd = textIn(fields, 'cwd');
  const env = stringMapIn(fields, 'env');
  // They are sent separated by NUL, and the system cannot pass NUL to a program anyway.
  if ([cwd, ...argv, ...Object.entries(env).flat()].some((text) => text.includes('\0'))) {
    throw new AgentError('bad_request', 'The arguments, the environment and cwd must not contain NUL.');
  }
  return {
    argv,
    cwd,
    env,
    user,
    ownShell: fields.ownShell === true,
    stdinOpen: fields.stdinOpen === true,
    logBytes: integerIn(fields, 'logBytes', 0),
    ...(fields.stdin !== undefined && { stdin: textIn(fields, 'stdin') }),
    ...(fields.terminal !== undefined && { terminal: readTerminalSize(objectIn(fields, 'terminal')) }),
    ...(fields.timeoutMs !== undefined && { timeoutMs: integerIn(fields, 'timeoutMs', 1) }),
    ...(fields.capture !== undefined && { capture: readCapture(objectIn(fields, 'capture')) }),
  };
}

export function readLogRequest(body: unknown): ReadCommandLog {
  const fields = fieldsOf(body, 'body');
  return { afterSeq: integerIn(fields, 'afterSeq', 0), limit: integerIn(fields, 'limit', 1) };
}

export function readFollowRequest(body: unknown): number {
  return integerIn(fieldsOf(body, 'body'), 'afterSeq', 0);
}

export function readWriteStdin(body: unknown): WriteStdin {
  const fields = fieldsOf(body, 'body');
  return { dataBase64: textIn(fields, 'dataBase64'), close: fields.close === true };
}

/** Rejects sizes that do not fit the four digits of the supervisor's message. */
export function readTerminalSize(body: unknown): TerminalSize {
  const fields = fieldsOf(body, 'body');
  const size = { columns: integerIn(fields, 'columns', 1), rows: integerIn(fields, 'rows', 1) };
  if (size.columns > 9999 || size.rows > 9999) throw new AgentError('bad_request', 'the terminal is too large.');
  return size;
}

export function readSignal(body: unknown): NodeJS.Signals {
  const signal = textIn(fieldsOf(body, 'body'), 'signal');
  if (!(signal in constants.signals)) throw new AgentError('bad_request', 'signal is unknown.');
  return signal as NodeJS.Signals;
}

function readCapture(fields: Fields): NonNullable<StartCommand['capture']> {
  return { stdoutBytes: integerIn(fields, 'stdoutBytes', 0), stderrBytes: integerIn(fields, 'stderrBytes', 0) };
}

function textsIn(fields: Fields, name: string): string[] {
  const value = fields[name];
  if (!Array.isArray(value) || value.length === 0 || !value.every((item) => typeof item === 'string')) {
    throw new AgentError('bad_request', `${name} is not a list of strings.`);
  }
  return value;
}
