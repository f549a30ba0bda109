import type { Command } from 'commander';
import { UsageError } from './cli-error.ts';
import { loadHostCommand } from './host-commands.ts';
import type { Terminal } from './terminal/terminal.ts';
import { UsageCommand } from './usage-command.ts';

/** Commands of the program: their names with what the help says of them, and the module that has them. */
interface CommandModule {
  readonly summaries: Readonly<Record<string, string>>;
  readonly load: () => Promise<(program: Command) => void>;
}

/** The modules by the heading of the help, in its order. Each is loaded only if the command line names a command of it. */
const MODULES: Readonly<Record<string, readonly CommandModule[]>> = {
  'Run code and programs:': [
    {
      summaries: { run: 'Run code in a new or existing sandbox and stream its output' },
      load: async () => (await import('./commands/run.ts')).addRunCommand,
    },
    {
      summaries: { repl: 'Type code that runs in a sandbox line by line, with its variables' },
      load: async () => (await import('./commands/repl.ts')).addReplCommand,
    },
    {
      summaries: { exec: 'Run a command in a sandbox and exit with its exit code' },
      load: async () => (await import('./commands/exec.ts')).addExecCommand,
    },
    {
      summaries: { shell: 'Open a shell in a sandbox and exit with its exit code' },
      load: async () => (await import('./commands/shell.ts')).addShellCommand,
    },
    {
      summaries: { logs: 'Print the output of a command', command: 'List and end commands of a sandbox' },
      load: async () => (await import('./commands/command.ts')).addCommandCommands,
    },
    {
      summaries: { job: 'Run commands on a directory of this machine, in sandboxes of their own' },
      load: async () => (await import('./commands/job.ts')).addJobCommands,
    },
    {
      summaries: { mcp: 'Serve sandboxes as tools to a host of the Model Context Protocol' },
      load: async () => (await import('./commands/mcp.ts')).addMcpCommand,
    },
  ],
  'Sandboxes and what is in them:': [
    {
      summaries: { sandbox: 'Create, list, pause and destroy sandboxes' },
      load: async () => (await import('./commands/sandbox.ts')).addSandboxCommands,
    },
    {
      summaries: { top: 'Show what live sandboxes use, refreshed until q is pressed' },
      load: async () => (await import('./commands/top.ts')).addTopCommand,
    },
    {
      summaries: { context: 'Manage contexts, which keep variables between runs' },
      load: async () => (await import('./commands/context.ts')).addContextCommands,
    },
    {
      summaries: { cp: 'Copy files and directories into, out of and between sandboxes' },
      load: async () => (await import('./commands/copy.ts')).addCopyCommand,
    },
    {
      summaries: { files: 'List, move and delete files of a sandbox' },
      load: async () => (await import('./commands/files.ts')).addFileCommands,
    },
    {
      summaries: { preview: 'Serve a port of a sandbox at a URL and print the URL' },
      load: async () => (await import('./commands/preview.ts')).addPreviewCommand,
    },
    {
      summaries: { artifact: 'Export, list, download and delete artifacts' },
      load: async () => (await import('./commands/artifact.ts')).addArtifactCommands,
    },
    {
      summaries: { template: 'Templates: what sandboxes start with' },
      load: async () => (await import('./commands/template.ts')).templateCommands(),
    },
  ],
  'The organization:': [
    {
      summaries: { project: 'Create, list, change and delete projects' },
      load: async () => (await import('./commands/project.ts')).addProjectCommands,
    },
    {
      summaries: { secret: 'Values that sandboxes use without having them' },
      load: async () => (await import('./commands/secret.ts')).addSecretCommands,
    },
    {
      summaries: { key: 'Create, list, rotate and revoke API keys' },
      load: async () => (await import('./commands/key.ts')).addKeyCommands,
    },
    {
      summaries: { quota: 'Show quotas with their limits and their use' },
      load: async () => (await import('./commands/quota.ts')).addQuotaCommand,
    },
    {
      summaries: { usage: 'Show what projects used, by default in this month (UTC)' },
      load: async () => (await import('./commands/usage.ts')).addUsageCommand,
    },
    {
      summaries: { events: 'Show what happened to sandboxes, artifacts and other resources' },
      load: async () => (await import('./commands/events.ts')).addEventsCommand,
    },
    {
      summaries: { webhook: 'Send events to URLs' },
      load: async () => (await import('./commands/webhook.ts')).addWebhookCommands,
    },
    {
      summaries: { audit: 'Show which key changed what, and which requests were refused' },
      load: async () => (await import('./commands/audit.ts')).addAuditCommand,
    },
  ],
  'This machine:': [
    {
      summaries: {
        login: 'Check an API key and save it for later commands of this user',
        whoami: 'Show the service and the API key in use, its organization and its project',
      },
      load: async () => (await import('./commands/login.ts')).addLoginCommands,
    },
    {
      summaries: { service: 'List and delete the services that `cloche login` has saved' },
      load: async () => (await import('./commands/service.ts')).addServiceCommands,
    },
    {
      summaries: { config: 'Show the current settings, with secrets redacted' },
      load: async () => (await import('./commands/config.ts')).addConfigCommand,
    },
    {
      summaries: { completion: 'Print a script that completes commands, options and ids in a shell' },
      load: async () => (await import('./commands/completion.ts')).addCompletionCommand,
    },
    { summaries: { doctor: 'Check whether a machine can run Cloche' }, load: () => loadHostCommand('doctor') },
    { summaries: { start: 'Prepare a machine and serve' }, load: () => loadHostCommand('start') },
    { summaries: { migrate: 'Migrate the database of an installation' }, load: () => loadHostCommand('migrate') },
    { summaries: { admin: 'Operate an installation' }, load: () => loadHostCommand('admin') },
  ],
};

/** Words that people type from habit, with the command that does it. */
const WORDS: Readonly<Record<string, string>> = {
  ps: 'sandbox list',
  ls: 'sandbox list',
  list: 'sandbox list',
  create: 'sandbox create',
  new: 'sandbox create',
  rm: 'sandbox delete',
  kill: 'sandbox delete',
  stop: 'sandbox delete',
  pause: 'sandbox pause',
  resume: 'sandbox resume',
  inspect: 'sandbox get',
  stats: 'top',
  attach: 'shell',
  connect: 'shell',
  ssh: 'shell',
  bash: 'shell',
  upload: 'cp',
  download: 'cp',
  build: 'template build',
  images: 'template list',
  services: 'service list',
  logout: 'service delete',
  version: '--version',
};

/**
 * Builds the part of the command line that `args` need: one command, or for the help the names of all. It writes to
 * `terminal`, and throws instead of exiting.
 */
export async function buildProgram(version: string, args: readonly string[], terminal: Terminal): Promise<Command> {
  const program = newProgram(version, terminal);
  if (args[0] === '--version' || args[0] === '-V') return program;
  const name = commandName(args);
  const meant = name === undefined ? undefined : WORDS[name];
  if (meant !== undefined) throw new UsageError(`There is no command '${name}'; use \`cloche ${meant}\`.`);
  const named = Object.values(MODULES)
    .flat()
    .find(({ summaries }) => name !== undefined && Object.hasOwn(summaries, name));
  if (named) (await named.load())(program);
  else addNames(program);
  return program;
}

/** Builds the whole command line. */
export async function buildWholeProgram(version: string, terminal: Terminal): Promise<Command> {
  const program = newProgram(version, terminal);
  for (const modules of Object.values(MODULES))
    for (const addCommands of await Promise.all(modules.map(({ load }) => load()))) addCommands(program);
  return program;
}

function newProgram(version: string, terminal: Terminal): UsageCommand {
  return new UsageCommand('cloche', terminal)
    .description('Run untrusted code in isolated sandboxes.')
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .option('--json', 'print JSON')
    .option('--service <name>', 'saved service to use (CLOCHE_SERVICE)')
    .option('--url <url>', 'address of the service (CLOCHE_URL)')
    .option('--api-key <key>', 'API key (CLOCHE_API_KEY)')
    .addHelpText(
      'after',
      '\nExamples:\n  cloche run script.py\n  cloche sandbox list\n  cloche doctor',
    ) as UsageCommand;
}

/** Adds the names of all commands, as the help and the suggestion for a wrong name need them. */
function addNames(program: Command): void {
  for (const [heading, modules] of Object.entries(MODULES))
    for (const { summaries } of modules)
      for (const [name, summary] of Object.entries(summaries))
        program.command(name).description(summary).helpGroup(heading);
}

/** Returns the command that is named: the first argument that is neither an option of the program nor its value. */
function commandName(args: readonly string[]): string | undefined {
  const [first, second] = args.filter(
    (arg, index) => !arg.startsWith('-') && !['--service', '--url', '--api-key'].includes(args[index - 1] ?? ''),
  );
  return first === 'help' ? second : first;
}
