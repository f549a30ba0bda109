import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compileCache } from '@cloche/testkit/compile-cache';
import { type TerminalEnd, type TerminalOptions, TerminalProcess } from '@cloche/testkit/terminal-process';
import { everyCommand } from '../testing/every-command.ts';
import { HeldService } from '../testing/held-service.ts';
import { runInProcess } from '../testing/run-in-process.ts';

const BIN = fileURLToPath(new URL('../bin/cloche.mjs', import.meta.url));
const ESCAPE = '\u001b';
/** No request of a command has such a number: all are answered. */
const NEVER = 1_000;
/** Time after which a command that does not end has failed. */
const LATE_MS = 150_000;
/** Requests at which a command is ended: top makes one every two seconds. */
const PHASES = 6;

/** Commands that make something before they go on, take over the terminal, or ask: they are ended at each request. */
const WITH_PHASES = ['run', 'exec', 'repl', 'shell', 'job run', 'sandbox create', 'top', 'cp', 'template build'];
/** Commands that go on after their answer. */
const LASTING = ['repl', 'shell', 'top', 'webhook listen', 'events'];
const FOLLOWING = ['events', 'logs', 'job logs', 'template logs'];
/** End of a question on the terminal. The cursor may be set after it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences of a terminal
const ASKS = /(?:: |\] |>>> .*)(?:\u001b\[\d+G)?$/;
/** Commands that ask for what must not be seen. */
const ASKING = ['login', 'secret create', 'secret update'];

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-ends-'));
  mkdirSync(join(folder, 'work'));
  writeFileSync(join(folder, 'work', 'Dockerfile'), 'FROM python-node\nRUN true\n');
});
after(() => rmSync(folder, { recursive: true, force: true }));

interface Situation extends Partial<TerminalOptions> {
  /** What ends the command when it waits for an answer of the service or of a person. */
  readonly end?: (terminal: TerminalProcess, service: HeldService) => unknown;
  readonly args?: readonly string[];
}

/** Runs a command until the request of this number, and ends it there. Resolves with whether it got that far, too. */
async function ended(name: string, line: readonly string[], holdAt: number, { end, args, ...options }: Situation) {
  await using service = new HeldService(holdAt);
  const url = await service.listen();
  const env = {
    PATH: process.env.PATH ?? '',
    ...compileCache(),
    ...{ HOME: folder, CLOCHE_URL: url, CLOCHE_API_KEY: 'clk_test', CLOCHE_DATA_DIR: '/nonexistent', ...options.env },
  };
  const more = end && FOLLOWING.includes(name) ? ['--follow'] : [];
  const command = [process.execPath, BIN, ...line, ...more, ...(args ?? [])];
  const terminal = new TerminalProcess(command, { cwd: join(folder, 'work'), ...options, env });
  const isAsked = ASKING.includes(name) || name === 'repl' || holdAt === NEVER;
  const waits = isAsked ? terminal.shows(ASKS, LATE_MS) : service.held;
  const late = setTimeout(() => terminal.hangUp(), LATE_MS);
  const isHeld = await Promise.race([waits.then(() => true), terminal.ended.then(() => false)]);
  if (isHeld) await end?.(terminal, service);
  const outcome = { ...(await terminal.ended), isHeld };
  clearTimeout(late);
  return outcome;
}

/** The screen is whole: no cursor is hidden, no other screen is shown, and the next prompt has a line of its own. */
function assertWhole({ text, hasSameSettings }: TerminalEnd, what: string): void {
  const balance = (on: string, off: string) => text.split(on).length - text.split(off).length;
  assert.equal(balance('[?25l', '[?25h'), 0, `${what}: cursor`);
  assert.equal(balance('[?1049h', '[?1049l'), 0, `${what}: screen`);
  assert.equal(hasSameSettings, true, `${what}: settings of the terminal`);
  // The screen of top gives way to what was there before.
  const left = (text.split('\u001b[?1049h')[0] ?? '') + (text.split('\u001b[?1049l')[1] ?? '');
  const [last = ''] = left
    .slice(left.lastIndexOf('\n') + 1)
    .split('\r\u001b[2K')
    .slice(-1);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: sequences of a terminal
  assert.equal(last.replace(/\r|\u001b\[[\d;?]*[A-Za-z]/g, ''), '', `${what}: line of the next prompt`);
}

const SITUATIONS: Readonly<Record<string, (name: string, line: readonly string[]) => Promise<void>>> = {
  'Ctrl-C at each request': async (name, line) => {
    for (let at = 1; at <= (WITH_PHASES.includes(name) ? PHASES : 1); at += 1) {
      // A session takes Ctrl-C for itself, and Ctrl-D for the end.
      const keys = name === 'repl' ? '\u0003\u0004' : '\u0003';
      const end = await ended(name, line, at, { end: (terminal) => terminal.type(keys), env: { NO_COLOR: '1' } });
      const what = `${name} at request ${at}`;
      const isQuiet = FOLLOWING.includes(name) || ['top', 'webhook listen', 'repl'].includes(name);
      // A shell begins a new line after a program that Ctrl-C ended.
      assertWhole(isQuiet ? { ...end, text: end.text.replace(/\^C$/, '') } : end, what);
      if (end.isHeld && name !== 'repl') {
        // The screen of top takes Ctrl-C as one of its keys.
        assert.equal(end.exitCode, name === 'top' && at > 1 ? 0 : 130, `${what}: ${end.text}`);
      }
      if (end.isHeld && !isQuiet) assert.match(end.text, /Interrupted\.\r\n$/, what);
      if (!end.isHeld || name === 'repl' || (name === 'top' && at === 2)) return;
    }
  },
  'a window that closes': async (name, line) => {
    const { isHeld, exitCode } = await ended(name, line, 1, { end: (terminal) => terminal.hangUp() });
    if (isHeld) assert.equal(exitCode, 129, name);
  },
  'a service that is killed, without an input': async (name, line) => {
    if (name === 'repl') return;
    const end = await ended(name, line, 1, {
      hasInput: false,
      args: ['--json'],
      end: (_terminal, service) => service[Symbol.asyncDispose](),
    });
    assertWhole(end, name);
    if (!end.isHeld) return;
    assert.equal(end.exitCode, 1, `${name}: ${end.text}`);
    assert.match(end.text, /"code":"unreachable"/, name);
  },
  'an output that nobody reads': async (name, line) => {
    // Commands that go on end when they find that nobody reads.
    const end = (terminal: TerminalProcess) =>
      FOLLOWING.includes(name) || name === 'webhook listen' ? undefined : terminal.type('\u0003\u0004');
    const { text, exitCode, ...rest } = await ended(name, line, NEVER, { hasClosedOutput: true, end });
    assertWhole({ text, exitCode, ...rest }, name);
    assert.doesNotMatch(text, /EPIPE|\n {4}at /, name);
  },
  'NO_COLOR and TERM=dumb': async (name, line) => {
    if (LASTING.includes(name) || ASKING.includes(name)) return;
    for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) {
      const end = await ended(name, line, NEVER, { env });
      assertWhole(end, name);
      // A bar is redrawn, without colours.
      assert.doesNotMatch(end.text, new RegExp(`${ESCAPE}\\[[\\d;]*m`), name);
    }
  },
};

const commands = [...(await everyCommand())];
const situations = Object.entries(SITUATIONS);
/** All commands in all situations take minutes. Without this, commands that only send a request take turns. */
const isWhole = process.env.CLOCHE_TEST_ALL_ENDS === '1';
const OWN_WAYS = [...WITH_PHASES, ...LASTING, ...FOLLOWING, ...ASKING];

describe('the terminal after a command', { concurrency: 3 }, () => {
  commands.forEach(([name, line], index) => {
    situations.forEach(([situation, check], number) => {
      const isTurn = index % situations.length === number && (OWN_WAYS.includes(name) || index % 4 === 0);
      if (isWhole || isTurn || (number === 0 && WITH_PHASES.includes(name)))
        it(`the terminal after a command is as before: cloche ${name}, ${situation}`, () => check(name, line));
    });
  });
});

/** Commands that read the terminal, and what is typed before its window closes. */
const READERS: readonly (readonly [line: string, typed: string])[] = [
  ['login', ''],
  ['secret create prod --hosts example.com', ''],
  ['secret update sec_1 --value', 'half a val'],
  ['repl', ''],
  ['repl', 'print('],
  ['shell', ''],
];

describe('a window that closes', { concurrency: 3 }, () => {
  for (const [line, typed] of READERS) {
    it(`a window that closes ends cloche ${line} by SIGHUP, though the input ends first, after "${typed}"`, async () => {
      const { exitCode } = await ended(line, line.split(' '), NEVER, {
        signalDelayMs: 1_500,
        end: (terminal) => {
          terminal.type(typed);
          terminal.hangUp();
        },
      });
      assert.equal(exitCode, 129);
    });
  }
});

describe('the output of a command', () => {
  it('the output of a command is text without sequences in a pipe, JSON where it is asked for, and whole lines everywhere', async () => {
    await using service = new HeldService(NEVER);
    const url = await service.listen();
    const env = { HOME: folder, CLOCHE_URL: url, CLOCHE_API_KEY: 'clk_test', CLOCHE_DATA_DIR: '/nonexistent' };
    const here = process.cwd();
    process.chdir(join(folder, 'work'));
    try {
      for (const [name, line] of commands) {
        if (LASTING.includes(name)) continue;
        const plain = await runInProcess(line, { env, input: 'value\n' });
        const shown = await runInProcess(line, { env, input: 'value\n', isTerminal: true, hasColors: true });
        const asJson = await runInProcess([...line, '--json'], { env, input: 'value\n' });
        for (const { stdout, stderr, exitCode } of [plain, shown, asJson]) {
          assert.ok([0, 1, 2].includes(exitCode ?? -1), name);
          assert.match(stdout, /^$|\n$/, name);
          assert.equal(exitCode === 0 || stderr !== '', true, name);
        }
        assert.ok(!(plain.stdout + plain.stderr).includes(ESCAPE), name);
        // Replaces no file.
        if (name !== 'artifact download') assert.equal(shown.exitCode, plain.exitCode, name);
        if (['completion', 'artifact download'].includes(name)) continue;
        for (const each of asJson.stdout.split('\n').filter(Boolean)) assert.doesNotThrow(() => JSON.parse(each), name);
        if (asJson.exitCode !== 0 && asJson.stdout === '') assert.ok(JSON.parse(asJson.stderr).error.code, name);
      }
    } finally {
      process.chdir(here);
    }
  });
});
