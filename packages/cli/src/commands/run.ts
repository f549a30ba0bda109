import { LIMITS } from '@cloche/contract';
import {
  type Cloche,
  type CodeRun,
  type CodeRunEvent,
  type Language,
  type Sandbox,
  type SandboxInfo,
  streamCode,
} from '@cloche/sdk';
import { type Command, Option } from 'commander';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { duration, language } from '../option-values.ts';
import { RunPresenter } from '../run-presenter.ts';
import type { Session } from '../session.ts';
import { readSource } from '../source.ts';
import { formatLeft } from '../terminal/duration.ts';
import { addSandboxOptions, type SandboxOptions, sandboxBody } from './sandbox-options.ts';

/** Added to the run's own time, so that a sandbox outlives its run, yet not by much if nobody is left to kill it. */
const SPARE_TTL_MS = 120_000;

interface RunFlags extends SandboxOptions {
  code?: string;
  language?: Language;
  sandbox?: string;
  context?: string;
  timeout?: number;
  keep?: boolean;
  saveOutputs?: string;
}

export function addRunCommand(program: Command): void {
  const run = leaf(program, 'run', 'Run code in a new or existing sandbox and stream its output', [
    'cloche run script.py',
    "cloche run -c 'import sys; print(sys.version)'",
    "echo 'console.log([1, 2].map((n) => n * 2))' | cloche run --language javascript -",
    'cloche run --network deny-all --timeout 10s untrusted.py',
    'cloche run --keep plot.py --save-outputs pictures',
    'cloche run --sandbox sbx_… --json cell.ts',
  ])
    .argument('[file]', 'file with the code; - for standard input')
    .option('-c, --code <code>', 'the code itself')
    .option(
      '-l, --language <language>',
      'python, javascript or typescript (default: by the file name, else python)',
      language,
    )
    .option('--timeout <duration>', 'interrupt the code after this long (default: 60s, at most 10m)', duration)
    .option('--save-outputs <folder>', 'save pictures and other rich outputs in this folder')
    .option('--sandbox <id>', 'run in this sandbox, with the variables of earlier runs')
    .option('--context <id>', 'run in this context of the sandbox')
    .addOption(new Option('--keep', 'keep the new sandbox alive and print its id').conflicts('sandbox'));
  perform(addSandboxOptions(run), runCommand);
}

async function runCommand(session: Session, flags: RunFlags, file?: string): Promise<void> {
  const source = await readSource(file, flags.code);
  const cloche = await session.connect();
  using interruption = watchForInterruption();
  const { signal } = interruption;

  // Not given the signal: a creation cut off would leave a sandbox that nobody knows.
  const own = flags.sandbox === undefined ? await createOwn(cloche, flags) : undefined;
  try {
    signal.throwIfAborted();
    // The creation would count: a time that somebody chose is meant for the code.
    if (flags.timeout !== undefined) await own?.waitUntilReady({ signal });
    const sandboxId = own?.id ?? (flags.sandbox as SandboxInfo['id']);
    const events = streamCode(cloche, sandboxId, source.code, {
      language: flags.language ?? source.language ?? (await contextLanguage(cloche, sandboxId, flags.context)),
      context: flags.context,
      timeoutMs: flags.timeout,
      signal,
    });
    const run = await present(session, events, flags.saveOutputs);
    if (run?.error) process.exitCode = 1;
  } finally {
    if (own) await endOwn(session, own, flags.keep ?? false);
  }
}

function createOwn(cloche: Cloche, flags: RunFlags): Promise<Sandbox> {
  const body = sandboxBody(flags);
  const ttlMs = Math.min((flags.timeout ?? LIMITS.runTimeoutDefaultMs) + SPARE_TTL_MS, LIMITS.createTtlMaxMs);
  return cloche.sandboxes.create(flags.keep ? body : { ttlMs, ...body });
}

async function endOwn(session: Session, sandbox: Sandbox, keep: boolean): Promise<void> {
  if (!keep) {
    await sandbox.kill();
    return;
  }
  const left = formatLeft(sandbox.info.expiresAt);
  await session.note(`Kept ${sandbox.id}, which ends in ${left}: cloche run --sandbox ${sandbox.id}`);
}

/** Only a context's own language can run in it. */
async function contextLanguage(
  cloche: Cloche,
  sandboxId: SandboxInfo['id'],
  contextId: string | undefined,
): Promise<Language | undefined> {
  if (contextId === undefined) return undefined;
  const params = { sandboxId, contextId: contextId as CodeRun['contextId'] };
  return (await cloche.call('getContext', { params })).context.language;
}

/** As it comes: for people, or one JSON value a line for each event. */
async function present(
  session: Session,
  events: AsyncIterable<CodeRunEvent>,
  saveDir: string | undefined,
): Promise<CodeRun | undefined> {
  const presenter = new RunPresenter(session.terminal, saveDir, session.json);
  for await (const event of events) {
    await presenter.present(event);
    if (event.type === 'complete') return event.data;
  }
  return undefined;
}
