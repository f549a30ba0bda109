import { buildWholeProgram } from '../../packages/clients/cli/src/program.ts';
import { processTerminal } from '../../packages/clients/cli/src/terminal/terminal.ts';

type Command = Awaited<ReturnType<typeof buildWholeProgram>>;
type Option = Command['options'][number];

const HELP = ['help', '--help'];

/** Returns the manual page of `cloche`, from the help of its commands, in the language of man(7). */
export async function manualPage(version: string, seconds: number): Promise<string> {
  const program = await buildWholeProgram(version, processTerminal());
  const date = new Date(seconds * 1000).toISOString().slice(0, 10);
  return [
    `.TH CLOCHE 1 ${date} "Cloche ${version}"`,
    '.SH NAME',
    `cloche \\- ${text('run untrusted code in isolated sandboxes')}`,
    '.SH SYNOPSIS',
    `.B cloche\n${text('[options] COMMAND [arguments]')}`,
    '.SH OPTIONS',
    'Every command has these, and \\-\\-help.',
    ...optionLines(program.createHelp().visibleOptions(program)),
    '.SH COMMANDS',
    ...subcommands(program, 'cloche'),
    '.SH FILES',
    '.TP\n.I /etc/cloche/cloche.env\nSettings of the service on this machine.',
    '.TP\n.I ~/.config/cloche/config.json\nAddress and API key that commands use.',
    '',
  ].join('\n');
}

/** Returns the sections of all commands below a command that do something. */
function subcommands(parent: Command, path: string): string[] {
  const help = parent.createHelp();
  return help.visibleCommands(parent).flatMap((command) => {
    if (HELP.includes(command.name())) return [];
    if (command.commands.length > 0) return subcommands(command, `${path} ${command.name()}`);
    const own = help.visibleOptions(command).filter((option) => option.helpGroupHeading !== 'Common options:');
    return [
      `.SS ${text(`${path} ${help.subcommandTerm(command)}`)}`,
      `${text(command.description())}.`,
      ...optionLines(own),
    ];
  });
}

function optionLines(options: readonly Option[]): string[] {
  const shown = options.filter(({ long }) => !HELP.includes(long ?? ''));
  return shown.map(({ flags, description }) => `.TP\n.B ${text(flags)}\n${text(description)}`);
}

/** Escapes what has a meaning in man(7): backslashes, hyphens, and a dot or quote at the start of a line. */
function text(plain: string): string {
  return plain.replaceAll('\\', '\\e').replaceAll('-', '\\-').replace(/^[.']/gm, '\\&$&');
}
