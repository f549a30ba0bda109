import { posix } from 'node:path';
import { type CreateCommandBody, DEFAULT_CWD, LIMITS, mapBytes } from '@cloche/contract';
import type { StartCommand } from '@cloche/protocol';
import { shellLine } from '@cloche/runtime/shell-line';
import { invalidRequest } from '../../platform/base/app-error.ts';
import { terminalSize } from './terminal-size.ts';

/**
 * Returns what the agent starts, without the time limit.
 * @throws AppError `invalid_request` for rules that no schema expresses.
 */
export function commandSpec(body: CreateCommandBody): Omit<StartCommand, 'timeoutMs' | 'capture'> {
  checkSizes(body);
  const { command, cwd = DEFAULT_CWD, env = {}, stdin, stdinOpen = false, user = 'user', terminal } = body;
  return {
    ...(typeof command === 'string' ? shellLine(command) : { argv: command }),
    cwd: posix.resolve(DEFAULT_CWD, cwd),
    env,
    user,
    stdinOpen,
    logBytes: LIMITS.commandLogBytes,
    ...(stdin === undefined ? {} : { stdin }),
    ...(terminal && { terminal: terminalSize(terminal) }),
  };
}

function checkSizes({ command, env = {}, stdin = '' }: CreateCommandBody): void {
  const words = typeof command === 'string' ? [command] : command;
  const path = (index: number) => (typeof command === 'string' ? 'body.command' : `body.command.${index}`);
  let bytes = 0;
  for (const [index, word] of words.entries()) {
    const size = Buffer.byteLength(word);
    bytes += size;
    if (size > LIMITS.commandArgumentBytes) throw tooLong(path(index), size, LIMITS.commandArgumentBytes);
  }
  if (bytes > LIMITS.commandBytes) throw tooLong('body.command', bytes, LIMITS.commandBytes);
  if (typeof command !== 'string' && command[0] === '') {
    throw invalidRequest({ path: 'body.command.0', message: 'must name a program' });
  }
  const envBytes = mapBytes(env);
  if (envBytes > LIMITS.envBytes) throw tooLong('body.env', envBytes, LIMITS.envBytes);
  const stdinBytes = Buffer.byteLength(stdin);
  if (stdinBytes > LIMITS.commandStdinBytes) throw tooLong('body.stdin', stdinBytes, LIMITS.commandStdinBytes);
}

export function tooLong(path: string, bytes: number, limit: number) {
  return invalidRequest({ path, message: `has ${bytes} bytes of UTF-8; at most ${limit} are allowed` });
}
