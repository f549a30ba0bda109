import type { Command } from 'commander';
import { CliError } from './cli-error.ts';
import type { Session } from './session.ts';

/** Package with the commands for the host of a service. It is not part of this one, which is a client alone. */
const PACKAGE = '@cloche/setup/commands';

/** Commands of the package, with what the help says of them where it is not installed. */
const SUMMARIES = {
  admin: { admin: 'Operate an installation' },
  migrate: { migrate: 'Migrate the database of an installation' },
  doctor: { doctor: 'Check whether a machine can run Cloche' },
  start: { start: 'Prepare a machine and serve' },
  template: {
    export: 'Write curated templates for a machine without registries',
    refresh: 'Build curated templates anew',
    revert: 'Make an earlier version of a curated template the newest one again',
  },
} as const;
type HostCommandName = keyof typeof SUMMARIES;

/** A setting of this machine, with a secret left out. */
interface HostSetting {
  readonly name: string;
  readonly value: string | undefined;
  readonly source: string;
  readonly doc: string;
  /** Leaves out another value of the setting if it is a secret. */
  readonly redact: (value: string) => string | undefined;
}

interface HostCommands {
  readonly hostCommands: Readonly<Record<HostCommandName, () => Promise<(program: Command) => void>>>;
  readonly hostSettings: (env: NodeJS.ProcessEnv) => HostSetting[];
  readonly importTemplateArchive: (session: Session, file: string) => Promise<void>;
  /** Returns the command that starts a service on this machine. */
  readonly startCommand: () => string;
}

/** Returns the package with commands for the host; undefined where it is not installed beside this one. */
export async function findHostCommands(): Promise<HostCommands | undefined> {
  let url: string;
  try {
    url = import.meta.resolve(PACKAGE);
  } catch {
    return undefined;
  }
  return import(url);
}

/** Loads commands for the host, or others in their place that say where to run them. */
export async function loadHostCommand(name: HostCommandName): Promise<(parent: Command) => void> {
  const found = await findHostCommands();
  if (found) return found.hostCommands[name]();
  return (parent) => {
    for (const [own, summary] of Object.entries(SUMMARIES[name])) addMissingCommand(parent, own, summary);
  };
}

/** Returns the failure of a command that needs the host of a service. */
export function elsewhere(command: string): CliError {
  const reason = `\`${command}\` is for the machine that runs the service, and @cloche/setup is not installed here`;
  return new CliError(`${reason}; run it on that machine.`);
}

function addMissingCommand(parent: Command, name: string, summary: string): void {
  const command = parent
    .command(name)
    .description(`${summary}; run it on its machine`)
    .argument('[arguments...]')
    .helpOption(false)
    .allowUnknownOption();
  command.action(() => {
    throw elsewhere(parent.parent ? `cloche ${parent.name()} ${name}` : `cloche ${name}`);
  });
}
