import { once } from 'node:events';
import type { Language, SandboxInfo } from '@cloche/sdk';
import { type Cloche, streamCode } from '@cloche/sdk';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { leaf, perform } from '../command.ts';
import { hangUp, isTerminalGone, madeDespite, watchForInterruption } from '../interruption.ts';
import { language } from '../option-values.ts';
import { imagesOption, type PictureChoice } from '../pictures/output-drawer.ts';
import { isComplete } from '../repl/is-complete.ts';
import { DISCARDED, LineInput } from '../repl/line-input.ts';
import { RunPresenter } from '../run-presenter.ts';
import type { Session } from '../session.ts';
import { addSandboxOptions, createWithTtl, type SandboxOptions, sandboxBody, takeBack } from './sandbox-options.ts';

interface ReplFlags extends SandboxOptions {
  language: Language;
  context?: string;
  images?: PictureChoice;
}

const PROMPTS: Readonly<Record<Language, readonly [first: string, next: string]>> = {
  python: ['>>> ', '... '],
  javascript: ['> ', '... '],
  typescript: ['> ', '... '],
};

export function addReplCommand(program: Command): void {
  const repl = leaf(program, 'repl [sandbox]', 'Type code that runs in a sandbox line by line, with its variables', [
    'cloche repl',
    'cloche repl sbx_… --language typescript',
  ])
    .option('-l, --language <language>', 'python, javascript or typescript', language, 'python')
    .option('--context <id>', 'run in this context of the sandbox')
    .addOption(imagesOption())
    .addHelpText(
      'after',
      '\nCtrl-C ends what runs, or discards the line; Ctrl-D ends the session. A sandbox that it made ends with it.',
    );
  perform(addSandboxOptions(repl), runRepl);
}

async function runRepl(session: Session, flags: ReplFlags, given?: string): Promise<void> {
  if (!process.stdin.isTTY || session.json)
    throw new UsageError('A session needs a terminal; `cloche run -` runs code from standard input.');
  const cloche = await session.connect();
  using interruption = watchForInterruption();
  const { signal } = interruption;
  const making = given === undefined ? createWithTtl(cloche, sandboxBody(flags)) : undefined;
  const own = making && (await madeDespite(signal, making));
  const sandboxId = own?.id ?? (given as SandboxInfo['id']);
  await session.note(`${flags.language} in ${sandboxId}; Ctrl-D ends`);
  let run = new AbortController();
  using input = new LineInput(flags.language, () => run.abort());
  const onInterruption = () => {
    run.abort();
    input[Symbol.dispose]();
  };
  try {
    signal.throwIfAborted();
    once(signal, 'abort').then(onInterruption, () => undefined);
    for (
      let code = await readCode(input, flags.language);
      code !== undefined;
      code = await readCode(input, flags.language)
    ) {
      run = new AbortController();
      if (code.trim() !== '') await runCode(session, cloche, sandboxId, code, flags, run.signal);
    }
    if (isTerminalGone()) hangUp();
    await session.terminal.out.write('\n');
    signal.throwIfAborted();
  } finally {
    if (own) await takeBack(session, own, signal);
  }
}

/** Reads lines until they are complete; undefined at the end of the input. */
async function readCode(input: LineInput, language: Language): Promise<string | undefined> {
  const [first, next] = PROMPTS[language];
  let code: string | undefined;
  for (;;) {
    const line = await input.read(code === undefined ? first : next);
    if (line === undefined) return undefined;
    if (line === DISCARDED) code = undefined;
    else {
      code = code === undefined ? line : `${code}\n${line}`;
      if (isComplete(language, code)) return code;
    }
  }
}

async function runCode(
  session: Session,
  cloche: Cloche,
  sandboxId: SandboxInfo['id'],
  code: string,
  { language, context, images }: ReplFlags,
  signal: AbortSignal,
): Promise<void> {
  const presenter = new RunPresenter(session.terminal, { images });
  try {
    for await (const event of streamCode(cloche, sandboxId, code, { language, context, signal }))
      await presenter.present(event);
  } catch (error) {
    if (!signal.aborted) throw error;
    await session.note('Interrupted.');
  }
}
