import { CliError, leaf, perform } from '@cloche/cli/kit';
import type { Command } from 'commander';
import { createProgress, describeFailure } from '../progress.ts';
import { type StartOptions, start } from '../start.ts';

export function addStartCommand(program: Command): void {
  const command = leaf(program, 'start', 'Prepare this machine and serve until interrupted (root)').option(
    '--servers <number>',
    'servers on one PostgreSQL database, behind a load balancer (CLOCHE_SERVERS)',
  );
  perform<StartOptions>(command, async (_session, options) => {
    try {
      await start(process.env, createProgress(process.stdout), options);
    } catch (error) {
      throw new CliError(describeFailure(error));
    }
    // Sandboxes go on; nothing of this process may wait for them.
    process.exit(0);
  });
}
