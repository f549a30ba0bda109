import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { AgentRunEvent, Language } from '@cloche/protocol';
import {
  type AgentClient,
  AgentError,
  type Instance,
  type LaunchSpec,
  type RunCell,
  type RuntimeDriver,
} from '@cloche/runtime';
import { declareInstanceTests, listLive } from './driver-instances-suite.ts';
import { declareParkingTests } from './driver-parking-suite.ts';
import { eventually } from './eventually.ts';

/** A driver, and what the suite needs to use its instances. */
export interface RuntimeDriverSubject {
  readonly driver: RuntimeDriver;
  readonly spec: LaunchSpec;
  readonly language: Language;
  /** Programs in that language. */
  readonly programs: {
    /** Prints the text and a line feed. */
    print(text: string): string;
    set(name: string, value: string): string;
    /** Prints the value that `set` has stored. */
    get(name: string): string;
    /** Prints the text, then never ends by itself. */
    printAndHang(text: string): string;
    /** Starts an echo server on the loopback. The program ends once it listens. */
    echo(port: number): string;
  };
  close(): Promise<void>;
}

const LIMITS = { stdoutBytes: 2 ** 20, stderrBytes: 2 ** 20, outputBytes: 2 ** 20, outputsBytes: 2 ** 20 };
const PATIENCE_MS = 60_000;

/** Declares the tests that every driver must pass, fake or real. */
export function describeRuntimeDriver(name: string, open: () => Promise<RuntimeDriverSubject>): void {
  describe(`runtime driver ${name}`, () => {
    let subject: RuntimeDriverSubject;
    let instance: Instance;
    let agent: AgentClient;
    let runs = 0;
    const sandboxId = `sbx_suite${Date.now().toString(36)}`;
    const patience = () => AbortSignal.timeout(PATIENCE_MS);

    const start = (code: string, timeoutMs = PATIENCE_MS): RunCell => {
      runs += 1;
      return { runId: `run_${runs}`, code, timeoutMs, limits: LIMITS };
    };
    const run = async (contextId: string, code: string, timeoutMs?: number) => {
      const events: AgentRunEvent[] = [];
      for await (const event of agent.run(contextId, start(code, timeoutMs), patience())) events.push(event);
      const last = events.at(-1);
      assert.equal(last?.type, 'done', 'the last event is done');
      return { stdout: printed(events), done: last.data, events };
    };
    const openContext = (contextId: string) =>
      agent.openContext(
        contextId,
        { language: subject.language, cwd: '/workspace', timeoutMs: PATIENCE_MS },
        patience(),
      );

    before(async () => {
      subject = await open();
      ({ instance } = await subject.driver.launch(sandboxId, 1, subject.spec, patience()));
      agent = await subject.driver.connect(instance, patience());
    });
    after(async () => {
      await agent?.close();
      await subject?.driver.stop(sandboxId, 1);
      await subject?.close();
    });

    declareInstanceTests(sandboxId, () => ({ ...subject, instance }));
    declareParkingTests(`${sandboxId}p`, () => subject);

    it(`runtime driver ${name} runs code in a context that keeps its variables`, async () => {
      await openContext('cctx_vars');
      await run('cctx_vars', subject.programs.set('answer', 'forty-two'));
      const { stdout, done } = await run('cctx_vars', subject.programs.get('answer'));
      assert.equal(stdout, 'forty-two\n');
      assert.equal(done.executionCount, 2);
      assert.equal(done.error, undefined);
    });

    it(`runtime driver ${name} opens a context once, however often it is asked`, async () => {
      await openContext('cctx_again');
      await run('cctx_again', subject.programs.set('kept', 'yes'));
      await openContext('cctx_again');
      assert.equal((await run('cctx_again', subject.programs.get('kept'))).stdout, 'yes\n');
    });

    it(`runtime driver ${name} keeps the variables of one context from another`, async () => {
      await openContext('cctx_one');
      await openContext('cctx_two');
      await run('cctx_one', subject.programs.set('secret', 'mine'));
      assert.ok((await run('cctx_two', subject.programs.get('secret'))).done.error);
    });

    it(`runtime driver ${name} refuses a folder outside the workspace`, async () => {
      const request = { language: subject.language, cwd: '/etc', timeoutMs: PATIENCE_MS };
      await assert.rejects(agent.openContext('cctx_out', request, patience()), { kind: 'invalid_cwd' });
    });

    it(`runtime driver ${name} answers not_found for a run in a context that it does not know`, async () => {
      await assert.rejects(run('cctx_unknown', subject.programs.print('x')), { kind: 'not_found' });
    });

    it(`runtime driver ${name} ends a run at its time limit with what it printed, and the context keeps its variables`, async () => {
      await openContext('cctx_timeout');
      await run('cctx_timeout', subject.programs.set('kept', 'still here'));
      const { stdout, done } = await run('cctx_timeout', subject.programs.printAndHang('partial'), 1500);
      assert.equal(done.error?.name, 'TimeoutError');
      assert.equal(stdout, 'partial\n');
      assert.equal((await run('cctx_timeout', subject.programs.get('kept'))).stdout, 'still here\n');
    });

    it(`runtime driver ${name} rejects at once when a run is aborted, and the context takes the next run`, async () => {
      await openContext('cctx_abort');
      const abort = new AbortController();
      const events = agent.run('cctx_abort', start(subject.programs.printAndHang('begun')), abort.signal);
      await assert.rejects(async () => {
        for await (const event of events) if (event.type === 'stdout') abort.abort();
      });
      assert.equal((await run('cctx_abort', subject.programs.print('next'))).stdout, 'next\n');
    });

    it(`runtime driver ${name} tells whether anything runs`, async () => {
      const becomes = (running: boolean) =>
        eventually(async () => (await agent.isRunning(patience())) === running, {
          within: PATIENCE_MS,
          because: `the agent says that ${running ? 'something' : 'nothing'} runs`,
        });
      await openContext('cctx_activity');
      await becomes(false);
      for await (const event of agent.run('cctx_activity', start(subject.programs.printAndHang('begun')), patience())) {
        if (event.type !== 'stdout') continue;
        assert.equal(await agent.isRunning(patience()), true);
        break;
      }
      await becomes(false);
    });

    it(`runtime driver ${name} cancels a run whose events are no longer read`, async () => {
      await openContext('cctx_leave');
      for await (const event of agent.run('cctx_leave', start(subject.programs.printAndHang('begun')), patience())) {
        if (event.type === 'stdout') break;
      }
      assert.equal((await run('cctx_leave', subject.programs.print('next'))).stdout, 'next\n');
    });

    it(`runtime driver ${name} ends a run with CanceledError when its context is interrupted, restarted or closed`, async () => {
      for (const act of ['interrupt', 'restart', 'closeContext'] as const) {
        const contextId = `cctx_${act}`;
        await openContext(contextId);
        let done: AgentRunEvent | undefined;
        for await (const event of agent.run(contextId, start(subject.programs.printAndHang('begun')), patience())) {
          if (event.type === 'stdout') await agent[act](contextId, patience());
          done = event;
        }
        assert.ok(done?.type === 'done' && done.data.error?.name === 'CanceledError', `${act} cancels`);
      }
    });

    it(`runtime driver ${name} does not open a closed context again for a run that was decided before its end`, async () => {
      await openContext('cctx_closed');
      await agent.closeContext('cctx_closed', patience());
      const open = { language: subject.language, cwd: '/workspace', timeoutMs: PATIENCE_MS };
      const late = agent.run('cctx_closed', { ...start(subject.programs.print('late')), open }, patience());
      await assert.rejects(Array.fromAsync(late), { kind: 'not_found' });
      await assert.rejects(openContext('cctx_closed'), { kind: 'not_found' });
    });

    it(`runtime driver ${name} does not start a command that was given up, and returns one that has started`, async () => {
      const request = {
        argv: ['true'],
        cwd: '/workspace',
        env: {},
        user: 'user',
        stdinOpen: false,
        logBytes: 1000,
      } as const;
      const { commands } = agent;
      const startCommand = (id: string) => commands.start(id, { ...request, argv: [...request.argv] }, patience());
      await assert.rejects(commands.prevent('cmd_given_up', patience()), { kind: 'not_found' });
      await assert.rejects(startCommand('cmd_given_up'), { kind: 'not_found' });
      await assert.rejects(commands.get('cmd_given_up', patience()), { kind: 'not_found' });
      const { id } = await startCommand('cmd_started');
      assert.equal((await commands.prevent('cmd_started', patience())).id, id);
    });

    it(`runtime driver ${name} executes the run of the highest claim of a request: ends a lower one, and refuses one that comes late`, async () => {
      await openContext('cctx_claims');
      const claimed = (claim: number, code: string) => {
        const operation = { recordId: 'idem_suite', claim };
        return agent.run('cctx_claims', { ...start(code), operation }, patience());
      };
      let first: AgentRunEvent | undefined;
      let second: Promise<AgentRunEvent[]> | undefined;
      for await (const event of claimed(1, subject.programs.printAndHang('begun'))) {
        first = event;
        if (event.type === 'stdout') second ??= Array.fromAsync(claimed(2, subject.programs.print('again')));
      }
      assert.ok(first?.type === 'done' && first.data.error?.name === 'CanceledError');
      assert.equal(printed((await second) ?? []), 'again\n');
      const late = Array.fromAsync(claimed(1, subject.programs.print('late')));
      await assert.rejects(late, { kind: 'conflict' });
    });

    it(`runtime driver ${name} carries the bytes of a connection to a port of its loopback, both ways and to their ends`, async () => {
      await openContext('cctx_port');
      assert.equal((await run('cctx_port', subject.programs.echo(7000))).done.error, undefined);
      const tunnel = await agent.openTunnel(7000, patience());
      const sent = Buffer.alloc(3_000_000, 'cloche');
      tunnel.end(sent);
      assert.ok(Buffer.concat(await tunnel.toArray()).equals(sent));
    });

    it(`runtime driver ${name} reports a port without a listener`, async () => {
      await assert.rejects(agent.openTunnel(7001, patience()), { kind: 'port_closed' });
    });

    it('tells that no connection is left when the instance is stopped, and not after close', async () => {
      const { instance: other } = await subject.driver.launch(`${sandboxId}g`, 1, subject.spec, patience());
      const broken = Promise.withResolvers<void>();
      const closed = await subject.driver.connect(other, patience(), () => assert.fail('told after close'));
      await closed.close();
      const client = await subject.driver.connect(other, patience(), broken.resolve);
      await subject.driver.stop(`${sandboxId}g`, 1);
      await broken.promise;
      await client.close();
    });

    it(`runtime driver ${name} breaks runs with a fault of kind gone when the instance is stopped`, async () => {
      const { instance: other } = await subject.driver.launch(`${sandboxId}f`, 1, subject.spec, patience());
      const client = await subject.driver.connect(other, patience());
      await client.openContext(
        'cctx_1',
        { language: subject.language, cwd: '/workspace', timeoutMs: PATIENCE_MS },
        patience(),
      );
      await assert.rejects(
        async () => {
          for await (const event of client.run('cctx_1', start(subject.programs.printAndHang('begun')), patience())) {
            if (event.type === 'stdout') await subject.driver.stop(`${sandboxId}f`, 1);
          }
        },
        (error) => error instanceof AgentError && error.kind === 'gone',
      );
      await client.close();
      assert.ok(!(await listLive(subject.driver)).some((one) => one.sandboxId === `${sandboxId}f`));
    });
  });
}

function printed(events: readonly AgentRunEvent[]): string {
  return events.map((event) => (event.type === 'stdout' ? event.data : '')).join('');
}
