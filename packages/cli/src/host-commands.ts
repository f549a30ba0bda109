import type { Command } from 'commander';
import { CliError } from './cli-error.ts';

/** Package with the commands for the host of a service. It is not part of this one, which is a client alone. */
const PACKAGE = '@cloche/setup/commands';

/** Commands of the package, with what the help says of them where it is not installed. */
const SUMMARIES = {
  admin: 'Operate an installation',
  migrate: 'Migrate the database of an installation',
  doctor: 'Check whether a machine can run Cloche',
  start: 'Prepare a machine and serve',
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

/** Loads a command for the host, or one in its place that says where to run it. */
export async function loadHostCommand(name: HostCommandName): Promise<(program: Command) => void> {
  const found = await findHostCommands();
  return found ? found.hostCommands[name]() : (program) => addMissingCommand(program, name);
}

function addMissingCommand(program: Command, name: HostCommandName): void {
  const command = program
    .command(name)
    .description(`${SUMMARIES[name]}; run it in the checkout of Cloche on its machine`)
    .argument('[arguments...]')
    .helpOption(false)
    .allowUnknownOption();
  command.action(() => {
    const reason = `\`cloche ${name}\` is for the machine that runs the service, and @cloche/setup is not installed here`;
    throw new CliError(`${reason}; run \`npx cloche ${name}\` in the checkout of Cloche on that machine.`);
  });
}
