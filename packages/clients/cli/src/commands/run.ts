import { LIMITS } from '@cloche/contract/client';
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
import { madeDespite, watchForInterruption } from '../interruption.ts';
import { duration, language, withRaw } from '../option-values.ts';
import { imagesOption, type PictureChoice } from '../pictures/output-drawer.ts';
import { exitCodeOf, RunPresenter } from '../run-presenter.ts';
import type { Session } from '../session.ts';
import { readSource } from '../source.ts';
import { formatEnd } from '../terminal/duration.ts';
import { addSandboxOptions, createWithTtl, type SandboxOptions, sandboxBody, takeBack } from './sandbox-options.ts';

/** Added to the run's timeout: the sandbox must outlive its run, but should expire soon if this process dies. */
const SPARE_TTL_MS = 120_000;

interface RunFlags extends SandboxOptions {
  code?: string;
  language?: Language;
  sandbox?: string;
  context?: string;
  timeout?: number;
  keep?: boolean;
  saveOutputs?: string;
  images?: PictureChoice;
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
    .addOption(imagesOption())
    .option('--sandbox <id>', 'run in this sandbox, with the variables of earlier runs')
    .option('--context <id>', 'run in this context of the sandbox')
    .addOption(new Option('--keep', 'keep the new sandbox alive and print its id').conflicts('sandbox'));
  perform(addSandboxOptions(withRaw(run)), runCommand);
}

async function runCommand(session: Session, flags: RunFlags, file?: string): Promise<void> {
  const source = await readSource(file, flags.code);
  const cloche = await session.connect();
  using interruption = watchForInterruption();
  const { signal } = interruption;

  // Does not take the signal: an aborted creation could leave a sandbox whose id is unknown.
  const own = flags.sandbox === undefined ? await madeDespite(signal, createOwn(cloche, flags)) : undefined;
  try {
    signal.throwIfAborted();
    // The wait for the sandbox would count against the timeout, but an explicit timeout is meant for the code.
    if (flags.timeout !== undefined) await own?.waitUntilReady({ signal });
    const sandboxId = own?.id ?? (flags.sandbox as SandboxInfo['id']);
    const events = streamCode(cloche, sandboxId, source.code, {
      language: flags.language ?? source.language ?? (await contextLanguage(cloche, sandboxId, flags.context)),
      context: flags.context,
      timeoutMs: flags.timeout,
      signal,
    });
    const run = await present(session, events, flags);
    if (run?.error) process.exitCode = exitCodeOf(run.error) ?? 1;
  } finally {
    if (own) await endOwn(session, own, flags.keep ?? false, signal);
  }
  signal.throwIfAborted();
}

function createOwn(cloche: Cloche, flags: RunFlags): Promise<Sandbox> {
  const body = sandboxBody(flags);
  const ttlMs = Math.min((flags.timeout ?? LIMITS.runTimeoutDefaultMs) + SPARE_TTL_MS, LIMITS.createTtlMaxMs);
  return createWithTtl(cloche, flags.keep ? body : { ttlMs, ...body });
}

async function endOwn(session: Session, sandbox: Sandbox, keep: boolean, signal: AbortSignal): Promise<void> {
  if (!keep) return takeBack(session, sandbox, signal);
  const left = formatEnd(sandbox.info.expiresAt);
  await session.note(`Kept ${sandbox.id}, which ends in ${left}: cloche run --sandbox ${sandbox.id}`);
}

/** Returns the language of a context, because only code in that language can run in it. */
async function contextLanguage(
  cloche: Cloche,
  sandboxId: SandboxInfo['id'],
  contextId: string | undefined,
): Promise<Language | undefined> {
  if (contextId === undefined) return undefined;
  const params = { sandboxId, contextId: contextId as CodeRun['contextId'] };
  return (await cloche.call('getContext', { params })).context.language;
}

/** Prints the events as they arrive: for people, or as one JSON value per line. */
async function present(
  session: Session,
  events: AsyncIterable<CodeRunEvent>,
  { saveOutputs: saveDir, images }: RunFlags,
): Promise<CodeRun | undefined> {
  const presenter = new RunPresenter(session.terminal, { saveDir, images, asJson: session.json });
  for await (const event of events) {
    await presenter.present(event);
    if (event.type === 'complete') return event.data;
  }
  return undefined;
}
