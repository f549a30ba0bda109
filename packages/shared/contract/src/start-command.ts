import { type Static, Type } from 'typebox';
import { environment } from './environment.ts';
import { DEFAULT_CWD, LIMITS } from './limits.ts';
import { documented, NO_NUL, Text } from './text.ts';

/** The command that a sandbox begins with. */
export const StartCommand = Type.Object(
  {
    command: Type.Union([
      Text({
        minLength: 1,
        maxLength: LIMITS.startCommandBytes,
        description: 'A shell line: it runs as `/bin/bash -lc -- LINE`.',
      }),
      Type.Array(Text({ maxLength: LIMITS.startCommandBytes }), {
        minItems: 1,
        maxItems: LIMITS.startCommandArguments,
        ...documented({ prefixItems: [{ type: 'string', minLength: 1, pattern: NO_NUL }] }),
        description: 'A program and its arguments, started without a shell. The name of the program must not be empty.',
      }),
    ]),
    cwd: Type.Optional(
      Text({
        minLength: 1,
        maxLength: LIMITS.cwdLength,
        default: DEFAULT_CWD,
        description: 'Working directory. Relative paths are resolved against `/workspace`.',
      }),
    ),
    env: Type.Optional(environment('Environment variables of the command, which precede those of the sandbox.')),
  },
  {
    additionalProperties: false,
    description:
      'A background command that begins when the sandbox is ready, as its user, and again after each wake that has lost its ' +
      `memory. Command and environment together have at most ${LIMITS.startCommandBytes} bytes of UTF-8. If it cannot be ` +
      'started, it is a `failed` command, and the sandbox is as without it.',
    examples: [{ command: 'python3 -m http.server 8000' }],
  },
);
export type StartCommand = Static<typeof StartCommand>;
