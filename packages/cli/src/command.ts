/** Builds the commands, so that all of them have the same options and show examples. */
import { type Command, Option } from 'commander';
import { Session } from './session.ts';
import type { UsageCommand } from './usage-command.ts';

/** Creates a command that only contains other commands. */
export function group(parent: Command, name: string, summary: string): Command {
  return parent.command(name).description(summary).allowExcessArguments(false);
}

/** Creates a command that does something. `name` includes its arguments in commander's syntax. */
export function leaf(parent: Command, name: string, summary: string, examples: readonly string[] = []): Command {
  const command = parent
    .command(name)
    .description(summary)
    .allowExcessArguments(false)
    .addOption(common('--json', 'print JSON'))
    .addOption(common('--url <url>', 'address of the service (CLOCHE_URL)'))
    .addOption(common('--api-key <key>', 'API key (CLOCHE_API_KEY)'));
  if (examples.length > 0)
    command.addHelpText('after', `\nExamples:\n${examples.map((line) => `  ${line}`).join('\n')}`);
  return command;
}

function common(flags: string, description: string): Option {
  return new Option(flags, description).helpGroup('Common options:');
}

/** Runs `work` with the command's own options and its parsed arguments. */
export function perform<Options, Arguments extends unknown[] = []>(
  command: Command,
  work: (session: Session, options: Options, ...args: Arguments) => Promise<void>,
): void {
  command.action(() => {
    const args = command.processedArgs as Arguments;
    // Every command of the program is of this class.
    return work(new Session(command as UsageCommand), command.opts() as Options, ...args);
  });
}
