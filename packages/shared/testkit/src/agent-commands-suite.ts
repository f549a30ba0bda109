import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { AgentCommandEvent, StartCommand } from '@cloche/protocol';
import type { AgentCommands } from '@cloche/runtime';

export interface AgentCommandsSubject {
  readonly commands: AgentCommands;
  /** Programs, passed as the last argument of `shell`. */
  readonly programs: {
    /** Prints a line. */
    print(text: string): string;
    /** Prints a line on standard error. */
    warn(text: string): string;
    exit(code: number): string;
    /** Prints the first line of its standard input, which may be empty. */
    readonly echoLine: string;
    /** Prints a variable of its environment. */
    env(name: string): string;
    /** Never ends by itself. */
    readonly hang: string;
  };
  /** Arguments before a program. */
  readonly shell: readonly string[];
  close(): Promise<void>;
}

const PATIENCE_MS = 60_000;
const CAPTURE = { stdoutBytes: 2 ** 20, stderrBytes: 2 ** 20 };

/** Declares the tests that every implementation of `AgentCommands` must pass, fake or real. */
export function describeAgentCommands(name: string, open: () => Promise<AgentCommandsSubject>): void {
  describe(`the commands of ${name}`, () => {
    let subject: AgentCommandsSubject;
    let commands: AgentCommands;
    let count = 0;
    const patience = () => AbortSignal.timeout(PATIENCE_MS);
    const request = (programs: string[], more: Partial<StartCommand> = {}): StartCommand => ({
      argv: [...subject.shell, programs.join('; ')],
      cwd: '/workspace',
      env: {},
      user: 'user',
      stdinOpen: false,
      capture: CAPTURE,
      logBytes: 2 ** 20,
      ...more,
    });
    const start = async (programs: string[], more: Partial<StartCommand> = {}): Promise<string> => {
      count += 1;
      const { id } = await commands.start(`cmd_${count}`, request(programs, more), patience());
      return id;
    };
    const result = (id: string) => commands.result(id, patience());
    const follow = async (id: string, afterSeq = 0): Promise<AgentCommandEvent[]> => {
      const events: AgentCommandEvent[] = [];
      for await (const event of commands.follow(id, afterSeq, patience())) events.push(event);
      return events;
    };

    before(async () => {
      subject = await open();
      commands = subject.commands;
    });
    after(() => subject?.close());

    it(`the commands of ${name} tell what they printed, and how they ended`, async () => {
      const { print, warn, exit } = subject.programs;
      const { command, stdout, stderr, truncated } = await result(await start([print('out'), warn('err'), exit(3)]));
      assert.deepEqual([command.status, command.exitCode, stdout, stderr], ['exited', 3, 'out\n', 'err\n']);
      assert.equal(truncated, undefined);
      assert.equal((await commands.end(command.id, patience())).exitCode, 3);
      assert.deepEqual((await commands.get(command.id, patience())).status, 'exited');
    });

    it(`the commands of ${name} are started once, however often they are asked for`, async () => {
      const again = request([subject.programs.print('once')]);
      for (const _ of [1, 2]) await commands.start('cmd_again', again, patience());
      await commands.end('cmd_again', patience());
      await commands.start('cmd_again', again, patience());
      assert.equal((await result('cmd_again')).stdout, 'once\n');
      const { entries } = await commands.readLog('cmd_again', 0, 10, patience());
      assert.equal(entries.map(({ data }) => data).join(''), 'once\n');
    });

    it(`the commands of ${name} have their environment, and read what they are given`, async () => {
      const { env, echoLine } = subject.programs;
      const given = await start([env('GREETING'), echoLine], { env: { GREETING: 'hello' }, stdin: 'first\nsecond\n' });
      assert.equal((await result(given)).stdout, 'hello\nfirst\n');
      const asked = await start([echoLine], { stdinOpen: true });
      await commands.writeStdin(asked, Buffer.from('later\n'), true, patience());
      assert.equal((await result(asked)).stdout, 'later\n');
      const closed = commands.writeStdin(asked, Buffer.from('x'), false, patience());
      await assert.rejects(closed, { kind: 'conflict' });
    });

    it(`the commands of ${name} have a terminal if it was asked for, which is resized while they run`, async () => {
      const { hang } = subject.programs;
      const size = { columns: 80, rows: 24 };
      const shown = await start([hang], { terminal: size, stdinOpen: true });
      await commands.resize(shown, { columns: 120, rows: 40 }, patience());
      const piped = await start([hang]);
      await assert.rejects(commands.resize(piped, size, patience()), { kind: 'conflict' });
      for (const id of [shown, piped]) await commands.kill(id, 'SIGKILL', patience());
      await assert.rejects(commands.resize(shown, size, patience()), { kind: 'conflict' });
    });

    it(`the commands of ${name} have a log, read in pages and followed to the end`, async () => {
      const { print, hang } = subject.programs;
      const id = await start([print('line'), hang]);
      for await (const event of commands.follow(id, 0, patience())) {
        if (event.type === 'log') break;
      }
      await commands.kill(id, 'SIGKILL', patience());
      const page = await commands.readLog(id, 0, 1, patience());
      const [entry] = page.entries;
      assert.deepEqual([entry?.seq, entry?.stream, entry?.data], [1, 'stdout', 'line\n']);
      assert.equal((await commands.readLog(id, 1, 10, patience())).hasMore, false);
      const events = await follow(id);
      assert.deepEqual([events[0]?.type, events.at(-1)?.type], ['log', 'exit']);
      assert.ok((await follow(id, 1)).every((event) => event.type !== 'log' || event.entry.seq > 1));
    });

    it(`the commands of ${name} end when they are killed or their time is up`, async () => {
      const { hang } = subject.programs;
      const killed = await start([hang]);
      const ending = commands.end(killed, patience());
      const told = await commands.kill(killed, 'SIGKILL', patience());
      assert.deepEqual([told.status, told.signal], ['killed', 'SIGKILL']);
      assert.equal((await ending).status, 'killed');
      const { command } = await result(await start([hang], { timeoutMs: 300 }));
      assert.equal(command.status, 'timed_out');
    });

    it(`the commands of ${name} are not changed when a waiting client leaves`, async () => {
      const id = await start([subject.programs.hang]);
      const abort = new AbortController();
      const waits = [commands.end(id, abort.signal), commands.result(id, abort.signal)];
      abort.abort(new Error('enough'));
      await Promise.all(waits.map((wait) => assert.rejects(wait)));
      assert.equal((await commands.get(id, patience())).status, 'running');
      await commands.kill(id, 'SIGKILL', patience());
    });

    it(`the commands of ${name} that cannot be, or are unknown, are named so`, async () => {
      const cwd = commands.start('cmd_cwd', request([], { cwd: '/missing/folder' }), patience());
      await assert.rejects(cwd, { kind: 'invalid_cwd' });
      const missing = await commands.start('cmd_missing', request([], { argv: ['missing'] }), patience());
      assert.deepEqual([missing.status, missing.exitCode], ['failed', 127]);
      for (const act of [
        () => commands.get('cmd_unknown', patience()),
        () => commands.end('cmd_unknown', patience()),
        () => result('cmd_unknown'),
        () => follow('cmd_unknown'),
        () => commands.readLog('cmd_unknown', 0, 1, patience()),
        () => commands.writeStdin('cmd_unknown', Buffer.from('x'), true, patience()),
        () => commands.kill('cmd_unknown', 'SIGKILL', patience()),
        () => commands.openTerminal('cmd_unknown', undefined, patience()),
      ])
        await assert.rejects(act, { kind: 'not_found' });
    });
  });
}
