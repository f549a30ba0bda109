import type { StartCommand } from '@cloche/protocol';

const WORD = /^(?:--|-?[A-Za-z0-9]+)$/;
const SHELL = /^(?:\/(?:usr\/)?bin\/)?(?:ba)?sh$/;
const KILL = /^(?:\/(?:usr\/)?bin\/)?kill$/;

/**
 * Returns a command of `shell` that sends the signals of a `kill` with literal arguments and runs no program that the
 * user could have replaced; undefined if `argv` is another command, or a shell line with anything but one such `kill`.
 */
export function signalCommand({ argv }: Pick<StartCommand, 'argv'>, shell: string): string[] | undefined {
  const [program = '', option, line = ''] = argv;
  const isLine = argv.length === 3 && SHELL.test(program) && /^-l?c$/.test(option ?? '');
  const [name = '', ...args] = isLine ? line.trim().split(/[ \t]+/) : argv;
  if (!KILL.test(name)) return undefined;
  return args.length > 0 && args.every((word) => WORD.test(word))
    ? [shell, '-c', 'kill "$@"', 'kill', ...args]
    : undefined;
}
