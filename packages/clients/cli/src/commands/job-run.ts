import { once } from 'node:events';
import { LIMITS } from '@cloche/contract/client';
import type { StartWorkspaceOptions, WorkspaceRun } from '@cloche/sdk';
import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import { InterruptedError, watchForInterruption } from '../interruption.ts';
import { durationUpTo, list, withRaw } from '../option-values.ts';
import type { Session } from '../session.ts';
import { printEvent, reportEnd } from './job-output.ts';
import { JobPhases } from './job-phases.ts';
import { PackingProgress } from './packing-progress.ts';
import { addEnvironmentOptions, type EnvironmentOptions, environmentBody, present } from './sandbox-options.ts';

interface RunFlags extends EnvironmentOptions {
  dir: string;
  cwd?: string;
  artifact?: string[];
  timeout?: number;
  detach?: boolean;
}

export function addJobRunCommand(job: Command): void {
  const run = leaf(job, 'run <command...>', 'Run a command on a directory and exit with its exit code', [
    'cloche job run -- make test',
    "cloche job run --artifact 'reports/*.xml' -- npm test",
    "cloche job run --dir app --timeout 30m 'npm ci && npm run build'",
  ])
    // Options after the command's name belong to the command.
    .passThroughOptions()
    .option('--dir <folder>', 'directory to upload, without what .gitignore and .clocheignore leave out', '.')
    .option('--cwd <folder>', 'working directory (default: /workspace, where the directory is unpacked)')
    .option('--artifact <pattern>', 'files to keep, such as dist/**; repeatable', list)
    .option(
      '--timeout <duration>',
      'end the command after this long, at most 1d (default: 10m)',
      durationUpTo(LIMITS.workspaceRunTimeoutMaxMs),
    )
    .option('-d, --detach', 'leave the job running and print its id');
  perform(addEnvironmentOptions(withRaw(run)), runJob);
}

async function runJob(session: Session, flags: RunFlags, given: string[]): Promise<void> {
  const cloche = await session.connect();
  using interruption = watchForInterruption();
  const { signal } = interruption;
  const progress = new PackingProgress(session);
  using phases = new JobPhases(session, cloche);
  let job: WorkspaceRun | undefined;
  const options: StartWorkspaceOptions = {
    ...bodyOf(flags, given),
    directory: flags.dir,
    signal,
    onProgress: (step) => progress.show(step),
    onNote: (note) => progress.note(note),
    onCreated: async (run) => {
      job = run;
      if (!flags.detach) await session.note(`${run.id} created`);
      announceCancel(session, run, signal).catch(() => undefined);
    },
  };
  try {
    if (flags.detach) {
      const { info } = await cloche.workspaceRuns.start(options).finally(() => progress.end());
      return await session.show(info, () => info.id);
    }
    const run = await cloche.workspaceRuns.run({
      ...options,
      onEvent: async (event) => {
        await progress.end();
        if (job) await phases.note(job, event);
        await printEvent(session, event);
      },
    });
    await reportEnd(session, run);
  } catch (error) {
    await progress.end();
    if (job) await explain(session, job, error);
    throw error;
  }
}

function bodyOf(flags: RunFlags, given: string[]) {
  const words = given[0] === '--' ? given.slice(1) : given;
  const [line = '', ...others] = words;
  return {
    // One word is a line for the shell.
    command: others.length === 0 ? line : words,
    ...environmentBody(flags),
    ...present({ cwd: flags.cwd, timeoutMs: flags.timeout, artifacts: flags.artifact }),
  };
}

/**
 * Prints at the first interruption that the job is being canceled. Neither the wait nor the write to the terminal
 * rejects.
 */
async function announceCancel(session: Session, { id }: WorkspaceRun, signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
  const isInterruption = signal.reason instanceof InterruptedError && signal.reason.signal !== 'SIGPIPE';
  if (isInterruption) await session.note(`Canceling ${id}. A second Ctrl-C leaves at once.`);
}

/** Prints what happens to a job that this process no longer follows. */
async function explain(session: Session, { id, info, isFinished }: WorkspaceRun, error: unknown): Promise<void> {
  if (info.status === 'canceled' || info.cancelRequestedAt !== undefined) await session.note(`${id} is canceled.`);
  else if (error instanceof InterruptedError)
    await session.note(`${id} could not be canceled: cloche job cancel ${id}`);
  else if (!isFinished) await session.note(`${id} goes on; to follow it: cloche job logs -f ${id}`);
}
