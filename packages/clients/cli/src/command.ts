/** Builds the commands, so that all of them have the same options and show examples. */
import { type Command, type CommandOptions, Option } from 'commander';
import { COMMON_OPTIONS, inWordsOf } from './error-words.ts';
import { untilInterruption } from './interruption.ts';
import { Session } from './session.ts';
import type { UsageCommand } from './usage-command.ts';
import { isIdKind, singular, wholeId } from './whole-id.ts';

/** Creates a command that only contains other commands. */
export function group(parent: Command, name: string, summary: string): Command {
  return parent.command(name).description(summary).allowExcessArguments(false);
}

/**
 * Creates a command that does something. `name` includes its arguments in commander's syntax: an argument such as
 * `<sandbox>` takes short ids.
 */
export function leaf(
  parent: Command,
  name: string,
  summary: string,
  examples: readonly string[] = [],
  options: CommandOptions = {},
): Command {
  const command = parent
    .command(name, options)
    .description(summary)
    .allowExcessArguments(false)
    .addHelpOption(common('-h, --help', 'show this help'));
  if (examples.length > 0)
    command.addHelpText('after', `\nExamples:\n${examples.map((line) => `  ${line}`).join('\n')}`);
  return command;
}

/** Options of every command. Added after its own, which its help shows first. */
function addCommonOptions(command: Command): void {
  command
    .addOption(common('--json', 'print JSON'))
    .addOption(common('--service <name>', 'saved service to use (CLOCHE_SERVICE)'))
    .addOption(common('--url <url>', 'address of the service (CLOCHE_URL)'))
    .addOption(common('--api-key <key>', 'API key (CLOCHE_API_KEY)'));
}

function common(flags: string, description: string): Option {
  return new Option(flags, description).helpGroup(COMMON_OPTIONS);
}

/** Runs `work` with the command's own options and its parsed arguments. */
export function perform<Options, Arguments extends unknown[] = []>(
  command: Command,
  work: (session: Session, options: Options, ...args: Arguments) => Promise<void>,
): void {
  addCommonOptions(command);
  command.action(async () => {
    // Every command of the program is of this class.
    const session = new Session(command as UsageCommand);
    try {
      await untilInterruption(async () => {
        const [options, args] = await withWholeIds(session, command);
        await work(session, options as Options, ...(args as Arguments));
      });
    } catch (error) {
      throw inWordsOf(command, error);
    }
  });
}

/** Returns the options and arguments of a command, with whole ids in place of short ones. */
async function withWholeIds(session: Session, command: Command): Promise<[object, unknown[]]> {
  const options: Record<string, unknown> = { ...command.opts() };
  const args: unknown[] = [...command.processedArgs];
  let sandboxId: string | undefined;
  const whole = async (name: string, given: string) => {
    if (!isIdKind(name)) return given;
    const id = await wholeId(() => session.connect(), name, given, sandboxId);
    if (name === 'sandbox') sandboxId = id;
    return id;
  };
  for (const [index, argument] of command.registeredArguments.entries()) {
    const given = args[index];
    // Several ids have the name in the plural: `<command...>` are the words of a command line.
    const name = argument.variadic ? singular(argument.name()) : argument.name();
    if (typeof given === 'string') args[index] = await whole(name, given);
    else if (Array.isArray(given) && name !== argument.name())
      args[index] = await Promise.all(given.map((each: string) => whole(name, each)));
  }
  for (const name of ['sandbox', 'context', 'project']) {
    const given = options[name];
    if (typeof given === 'string') options[name] = await whole(name, given);
  }
  return [options, args];
}
