import { CliError, leaf, perform } from '@cloche/cli/kit';
import type { Command } from 'commander';
import { createProgress, describeFailure } from '../progress.ts';
import { start } from '../start.ts';

export function addStartCommand(program: Command): void {
  const command = leaf(
    program,
    'start',
    'Prepare this machine and serve until interrupted, as `npm start` does (root)',
  );
  perform(command, async () => {
    try {
      await start(process.env, createProgress(process.stdout));
    } catch (error) {
      throw new CliError(describeFailure(error));
    }
    // Sandboxes go on; nothing of this process may wait for them.
    process.exit(0);
  });
}
