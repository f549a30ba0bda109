import type { CreateSandboxBody } from '@cloche/sdk';
import { type Command, Option } from 'commander';
import { duration } from '../option-values.ts';
import { present } from './sandbox-options.ts';

const WAKE_MODES = ['explicit', 'requests', 'traffic'] as const;
export const MEMORY_MODES = ['keep', 'prefer', 'drop'] as const;

/** Options for when a sandbox is paused by itself, and what wakes it. */
export interface PauseOptions {
  pauseAfter?: number;
  pauseOnExpiry?: boolean;
  pauseMemory?: (typeof MEMORY_MODES)[number];
  wake?: (typeof WAKE_MODES)[number];
  wakeTtl?: number;
  retain?: number;
}

export function addPauseOptions(command: Command): Command {
  return command
    .optionsGroup('Pauses of the new sandbox:')
    .option('--pause-after <duration>', 'pause it when nothing has used it for this long (default: never)', duration)
    .option('--pause-on-expiry', 'pause it at the end of its lifetime in place of destroying it')
    .addOption(
      new Option(
        '--pause-memory <mode>',
        'what becomes of its memory (default: prefer, kept while there is room)',
      ).choices(MEMORY_MODES),
    )
    .addOption(new Option('--wake <mode>', 'what wakes it (default: requests)').choices(WAKE_MODES))
    .option('--wake-ttl <duration>', 'lifetime after a wake (default: that of the creation)', duration)
    .option('--retain <duration>', 'destroy it if it is paused for so long (default: as the operator set)', duration);
}

export function pauseBody(options: PauseOptions): Pick<CreateSandboxBody, 'pause'> {
  const pause = present({
    afterIdleMs: options.pauseAfter,
    onExpiry: options.pauseOnExpiry,
    memory: options.pauseMemory,
    wake: options.wake,
    wakeTtlMs: options.wakeTtl,
    retainMs: options.retain,
  });
  return Object.keys(pause).length === 0 ? {} : { pause };
}
