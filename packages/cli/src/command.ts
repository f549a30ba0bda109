/** How every command of the program is made, so that all take the same options and show examples. */
import { type Command, Option } from 'commander';
import { Session } from './session.ts';

/** A command that only holds others. */
export function group(parent: Command, name: string, summary: string): Command {
  return parent.command(name).description(summary).allowExcessArguments(false);
}

/** A command that does something. `name` has its arguments, as commander writes them. */
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

/** Runs `work` with the command's own options and arguments as commander gives them. */
export function perform<Options, Arguments extends unknown[] = []>(
  command: Command,
  work: (session: Session, options: Options, ...args: Arguments) => Promise<void>,
): void {
  command.action(() => {
    const args = command.processedArgs as Arguments;
    return work(new Session(command), command.opts() as Options, ...args);
  });
}
