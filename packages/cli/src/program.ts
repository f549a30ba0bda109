import type { Command } from 'commander';
import { addAdminCommands } from './commands/admin.ts';
import { addArtifactCommands } from './commands/artifact.ts';
import { addAuditCommand } from './commands/audit.ts';
import { addCommandCommands } from './commands/command.ts';
import { addConfigCommand } from './commands/config.ts';
import { addContextCommands } from './commands/context.ts';
import { addCopyCommand } from './commands/copy.ts';
import { addDoctorCommand } from './commands/doctor.ts';
import { addEventsCommand } from './commands/events.ts';
import { addExecCommand } from './commands/exec.ts';
import { addFileCommands } from './commands/files.ts';
import { addKeyCommands } from './commands/key.ts';
import { addLoginCommands } from './commands/login.ts';
import { addPreviewCommand } from './commands/preview.ts';
import { addProjectCommands } from './commands/project.ts';
import { addQuotaCommand } from './commands/quota.ts';
import { addRunCommand } from './commands/run.ts';
import { addSandboxCommands } from './commands/sandbox.ts';
import { addSecretCommands } from './commands/secret.ts';
import { addShellCommand } from './commands/shell.ts';
import { addTemplateCommands } from './commands/template.ts';
import { addTopCommand } from './commands/top.ts';
import { addUsageCommand } from './commands/usage.ts';
import { addWebhookCommands } from './commands/webhook.ts';
import { UsageCommand } from './usage-command.ts';

/** Builds the whole command line. It throws instead of exiting. */
export function buildProgram(version: string): Command {
  const program = new UsageCommand('cloche')
    .description('Run untrusted code in isolated sandboxes.')
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .option('--json', 'print JSON')
    .option('--url <url>', 'address of the service (CLOCHE_URL)')
    .option('--api-key <key>', 'API key (CLOCHE_API_KEY)')
    .addHelpText('after', '\nExamples:\n  cloche run script.py\n  cloche sandbox list\n  cloche doctor');
  addRunCommand(program);
  addExecCommand(program);
  addShellCommand(program);
  addCommandCommands(program);
  addSandboxCommands(program);
  addContextCommands(program);
  addPreviewCommand(program);
  addArtifactCommands(program);
  addEventsCommand(program);
  addWebhookCommands(program);
  addAuditCommand(program);
  addCopyCommand(program);
  addFileCommands(program);
  addTemplateCommands(program);
  addProjectCommands(program);
  addSecretCommands(program);
  addKeyCommands(program);
  addLoginCommands(program);
  addQuotaCommand(program);
  addTopCommand(program);
  addUsageCommand(program);
  addAdminCommands(program);
  addDoctorCommand(program);
  addConfigCommand(program);
  return program;
}
