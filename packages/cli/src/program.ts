import type { Command } from 'commander';
import { loadHostCommand } from './host-commands.ts';
import type { Terminal } from './terminal/terminal.ts';
import { UsageCommand } from './usage-command.ts';

/**
 * Modules of the commands, in the order of the help. Each is loaded only if the command line names one of its commands.
 */
const MODULES: readonly { names: readonly string[]; load: () => Promise<(program: Command) => void> }[] = [
  { names: ['run'], load: async () => (await import('./commands/run.ts')).addRunCommand },
  { names: ['exec'], load: async () => (await import('./commands/exec.ts')).addExecCommand },
  { names: ['shell'], load: async () => (await import('./commands/shell.ts')).addShellCommand },
  { names: ['logs', 'command'], load: async () => (await import('./commands/command.ts')).addCommandCommands },
  { names: ['job'], load: async () => (await import('./commands/job.ts')).addJobCommands },
  { names: ['sandbox'], load: async () => (await import('./commands/sandbox.ts')).addSandboxCommands },
  { names: ['context'], load: async () => (await import('./commands/context.ts')).addContextCommands },
  { names: ['preview'], load: async () => (await import('./commands/preview.ts')).addPreviewCommand },
  { names: ['mcp'], load: async () => (await import('./commands/mcp.ts')).addMcpCommand },
  { names: ['artifact'], load: async () => (await import('./commands/artifact.ts')).addArtifactCommands },
  { names: ['events'], load: async () => (await import('./commands/events.ts')).addEventsCommand },
  { names: ['webhook'], load: async () => (await import('./commands/webhook.ts')).addWebhookCommands },
  { names: ['audit'], load: async () => (await import('./commands/audit.ts')).addAuditCommand },
  { names: ['cp'], load: async () => (await import('./commands/copy.ts')).addCopyCommand },
  { names: ['files'], load: async () => (await import('./commands/files.ts')).addFileCommands },
  { names: ['template'], load: async () => (await import('./commands/template.ts')).templateCommands() },
  { names: ['project'], load: async () => (await import('./commands/project.ts')).addProjectCommands },
  { names: ['secret'], load: async () => (await import('./commands/secret.ts')).addSecretCommands },
  { names: ['key'], load: async () => (await import('./commands/key.ts')).addKeyCommands },
  { names: ['login', 'whoami'], load: async () => (await import('./commands/login.ts')).addLoginCommands },
  { names: ['quota'], load: async () => (await import('./commands/quota.ts')).addQuotaCommand },
  { names: ['top'], load: async () => (await import('./commands/top.ts')).addTopCommand },
  { names: ['usage'], load: async () => (await import('./commands/usage.ts')).addUsageCommand },
  { names: ['admin'], load: () => loadHostCommand('admin') },
  { names: ['migrate'], load: () => loadHostCommand('migrate') },
  { names: ['doctor'], load: () => loadHostCommand('doctor') },
  { names: ['start'], load: () => loadHostCommand('start') },
  { names: ['config'], load: async () => (await import('./commands/config.ts')).addConfigCommand },
];

/**
 * Builds the part of the command line that `args` need, which is all of it for the help. It writes to `terminal`, and
 * throws instead of exiting.
 */
export async function buildProgram(version: string, args: readonly string[], terminal: Terminal): Promise<Command> {
  const program = new UsageCommand('cloche', terminal)
    .description('Run untrusted code in isolated sandboxes.')
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .option('--json', 'print JSON')
    .option('--url <url>', 'address of the service (CLOCHE_URL)')
    .option('--api-key <key>', 'API key (CLOCHE_API_KEY)')
    .addHelpText('after', '\nExamples:\n  cloche run script.py\n  cloche sandbox list\n  cloche doctor');
  for (const addCommands of await Promise.all(modulesFor(args).map(({ load }) => load()))) addCommands(program);
  return program;
}

function modulesFor(args: readonly string[]): typeof MODULES {
  if (args[0] === '--version' || args[0] === '-V') return [];
  const name = firstOperand(args);
  const found = MODULES.filter(({ names }) => names.includes(name ?? ''));
  return found.length > 0 ? found : MODULES;
}

/** Returns the first argument that is neither an option of the program nor the value of one. */
function firstOperand(args: readonly string[]): string | undefined {
  return args.find((arg, index) => !arg.startsWith('-') && !['--url', '--api-key'].includes(args[index - 1] ?? ''));
}
