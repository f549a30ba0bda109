import { Readable, Writable } from 'node:stream';
import { buildProgram } from '../src/program.ts';
import { reportError } from '../src/report-error.ts';
import { type Output, outputTo } from '../src/terminal/terminal.ts';
import type { Invocation, Outcome } from './run-cloche.ts';

interface InvocationHere extends Omit<Invocation, 'nodeArgs'> {
  /** Address of the service, which then also gets an API key. */
  readonly url?: string;
  readonly isTerminal?: boolean;
  readonly hasColors?: boolean;
}

let previous: Promise<unknown> = Promise.resolve();

/**
 * Runs the command line in this process, which takes a fraction of the time of a process of its own: one command after
 * the other, as each has the environment of the process. For commands that get no signals, write no bytes other than
 * text, and need no process that ends.
 */
export function runInProcess(args: readonly string[], invocation: InvocationHere = {}): Promise<Outcome> {
  const outcome = previous.then(() => run(args, invocation));
  previous = outcome.catch(() => undefined);
  return outcome;
}

async function run(args: readonly string[], { url, env, input = '', isTerminal = false, hasColors }: InvocationHere) {
  const [out, err] = [recordedOutput(isTerminal, hasColors), recordedOutput(isTerminal, hasColors)];
  const terminal = { out: out.output, err: err.output };
  using _environment = withEnvironment(env ?? (url ? { CLOCHE_URL: url, CLOCHE_API_KEY: 'clk_test' } : {}));
  using _input = withInput(input);
  const exitCodeBefore = process.exitCode;
  process.exitCode = 0;
  try {
    await (await buildProgram('1', args, terminal)).parseAsync([...args], { from: 'user' });
  } catch (error) {
    process.exitCode = await reportError(error, args.includes('--json'), terminal);
  }
  const exitCode = Number(process.exitCode);
  process.exitCode = exitCodeBefore;
  return { exitCode, stdout: out.text(), stderr: err.text() };
}

/** Gives this process an environment without its own `CLOCHE_*` variables and client file, until disposed. */
function withEnvironment(env: Readonly<Record<string, string>>): Disposable {
  const before = { ...process.env };
  const replace = (changed: NodeJS.ProcessEnv) => {
    for (const name of Object.keys(process.env)) if (!(name in changed)) delete process.env[name];
    Object.assign(process.env, changed);
  };
  const kept = Object.entries(before).filter(([name]) => !name.startsWith('CLOCHE_'));
  replace({ ...Object.fromEntries(kept), HOME: '/nonexistent', ...env });
  return { [Symbol.dispose]: () => replace(before) };
}

/** Gives this process a standard input, until disposed. */
function withInput(input: string): Disposable {
  const before = Object.getOwnPropertyDescriptor(process, 'stdin') as PropertyDescriptor;
  Object.defineProperty(process, 'stdin', { ...before, get: () => stdin });
  const stdin = Readable.from(input === '' ? [] : [Buffer.from(input)]);
  return { [Symbol.dispose]: () => Object.defineProperty(process, 'stdin', before) };
}

export function recordedOutput(isTerminal: boolean, hasColors = false): { output: Output; text: () => string } {
  let written = '';
  const stream = new Writable({
    decodeStrings: false,
    write: (text: string, _encoding, done) => {
      written += text;
      done();
    },
  });
  const output = outputTo(Object.assign(stream, { isTTY: isTerminal, columns: 80 }), hasColors);
  return { output, text: () => written };
}
