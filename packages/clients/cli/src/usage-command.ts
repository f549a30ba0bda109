import { Command, type ErrorOptions } from 'commander';
import { UsageError } from './cli-error.ts';
import type { Terminal } from './terminal/terminal.ts';

/** A command that throws its errors, so that they are reported like all others, as JSON with `--json`. */
export class UsageCommand extends Command {
  readonly terminal: Terminal;

  constructor(name: string | undefined, terminal: Terminal) {
    super(name);
    this.terminal = terminal;
  }

  override createCommand(name?: string): UsageCommand {
    return new UsageCommand(name, this.terminal);
  }

  /** Version of the program. */
  get rootVersion(): string {
    let root: Command = this;
    while (root.parent) root = root.parent;
    return root.version() ?? '';
  }

  override error(message: string, _options?: ErrorOptions): never {
    const plain = message
      .replace(/^error: /, '')
      .replace(/\.?\n\((Did you mean .*)\)$/, '. $1')
      .replace('command-argument value', 'value')
      .replace(/[.?]?$/, (end) => end || '.');
    throw new UsageError(
      `${plain.charAt(0).toUpperCase()}${plain.slice(1)} Run \`${this.#path()} --help\` for its usage.`,
    );
  }

  #path(): string {
    const names: string[] = [];
    for (let command: Command | null = this; command; command = command.parent) names.unshift(command.name());
    return names.join(' ');
  }
}
