import type { StartCommand } from '@cloche/protocol';

/** Returns the command of a shell line: a login shell, which reads the user's profile. The line may begin as an option. */
export function shellLine(line: string): Pick<StartCommand, 'argv' | 'ownShell'> {
  return { argv: ['bash', '-lc', '--', line], ownShell: true };
}
