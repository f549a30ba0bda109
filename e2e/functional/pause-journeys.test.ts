/** Pauses and wakes by clients and by policies. With three servers, each request goes to the next one. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Cloche } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { SandboxCommands } from '../support/commands.ts';
import { COUNT, PausedSandbox } from '../support/paused-sandbox.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

const PAUSE_MS = 1_500;
const LINES = 300;

/** Tests run at the same time, each with a sandbox of its own: they wait for most of their time. */
const AT_ONCE = { concurrency: 3 };

const sdkOf = ({ id }: PausedSandbox) => new Cloche({ url: service.url, apiKey: service.apiKey }).sandboxes.get(id);

/** The fields of a sandbox that a pause and a wake change. */
const CHANGED = ['status', 'paused', 'resumed', 'sessionStartedAt', 'expiresAt', 'updatedAt'];
const unchangedOf = (sandbox: object) =>
  JSON.stringify(Object.entries(sandbox).filter(([field]) => !CHANGED.includes(field)));

describe('a sandbox that is paused and resumed', AT_ONCE, () => {
  it('idle/P1: a sandbox that is paused and resumed keeps its variables, labels, policy and previews', async () => {
    const name = `journey-${randomUUID()}`;
    const metadata = { journey: 'first' };
    const sandbox = await PausedSandbox.create(service, { name, metadata, pause: { wake: 'explicit' } });
    await sandbox.value('x = 41');
    await service.api.post(`${sandbox.path}/previews`, { port: 3000 });
    const previews = async () => (await service.api.get(`${sandbox.path}/previews`)).body.data.map(unchangedOf);
    const [before, previewsBefore] = [await sandbox.get(), await previews()];

    const { paused, ...rest } = await sandbox.pause();
    assert.deepEqual([rest.status, paused?.by, paused?.memory, paused?.place], ['idle', 'request', 'kept', 'memory']);
    assert.equal(unchangedOf(rest), unchangedOf(before));
    assert.deepEqual(await previews(), previewsBefore);
    for (const filter of [`name=${name}`, 'paused=true', 'status=idle']) {
      const { data } = (await service.api.get(`/v1/sandboxes?${filter}`)).body;
      assert.ok(
        data.some(({ id }: { id: string }) => id === sandbox.id),
        filter,
      );
    }

    const resumed = await sandbox.resume();
    assert.deepEqual([resumed.paused, resumed.resumed?.memory], [undefined, 'kept']);
    assert.equal(unchangedOf(resumed), unchangedOf(before));
    assert.ok((resumed.sessionStartedAt ?? '') > (before.sessionStartedAt ?? ''));
    const run = await service.api.run(sandbox.id, 'x + 1');
    assert.deepEqual([run.outputs[0]?.value, run.stateLost], ['42', undefined]);
    await sandbox.delete();
  });

  it('idle/P2: a sandbox that is paused and resumed has background processes that stood still and go on', async () => {
    const sandbox = await PausedSandbox.create(service);
    await new SandboxCommands(service, sandbox.id).start(['python3', '-c', COUNT]);
    const counted = async () =>
      JSON.parse((await service.api.run(sandbox.id, "print(open('/tmp/counted').read())")).stdout);
    await eventually(async () => (await counted().catch(() => [0]))[0] > 0);
    await delay(PAUSE_MS);
    const [awake, usualGap] = await counted();
    assert.ok(awake > 1 && usualGap < PAUSE_MS / 1_000, 'the control: without a pause it counts');
    await sandbox.pause();
    await delay(PAUSE_MS);
    await sandbox.resume();
    const [first, gap] = await counted();
    assert.ok(gap >= PAUSE_MS / 1_000, `it stood still for ${gap} s of ${PAUSE_MS} ms`);
    assert.ok(first >= awake, 'the count is not reset');
    await eventually(async () => (await counted())[0] > first);
    await sandbox.delete();
  });

  it('idle/P3: a sandbox that is paused and resumed 100 times at once is paused and resumed once', async () => {
    const sandbox = await PausedSandbox.create(service);
    await sandbox.value('x = 41');
    const times = Array.from({ length: 100 });
    const pauses = await Promise.all(times.map(() => sandbox.pause()));
    assert.equal(new Set(pauses.map(({ paused }) => paused?.at)).size, 1);
    assert.ok(pauses[0]?.paused && sandbox.isFrozen());
    const wakes = await Promise.all(times.map(() => sandbox.resume()));
    assert.deepEqual([...new Set(wakes.map(({ resumed, paused }) => `${resumed?.at} ${paused}`))].length, 1);
    assert.ok(!sandbox.isFrozen());
    assert.deepEqual(await sandbox.events(), ['sandbox.paused', 'sandbox.resumed']);
    assert.equal(await sandbox.value('x + 1'), '42');
    await sandbox.delete();
  });

  it('idle/P7: a sandbox that is paused while it runs code is refused, and with force ends the run', async () => {
    const sandbox = await PausedSandbox.create(service);
    await sandbox.value('import os, time');
    const code = "open('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('done')";
    const begin = async () => {
      const run = service.api.run(sandbox.id, code);
      run.catch(() => undefined);
      const file = `${sandbox.path}/files/content?path=begun`;
      await eventually(async () => (await service.api.get(file)).status === 200);
      return { run };
    };
    const first = await begin();
    const refused = await service.api.post(`${sandbox.path}/pause`, {});
    assert.deepEqual(
      [refused.status, refused.body.error.code, refused.body.error.details.running],
      [409, 'conflict', 1],
    );
    await new SandboxCommands(service, sandbox.id).run(['touch', 'go']);
    assert.equal((await first.run).stdout, 'done\n');
    await new SandboxCommands(service, sandbox.id).run(['rm', 'go', 'begun']);
    const second = await begin();
    assert.ok((await sandbox.pause({ force: true })).paused);
    assert.equal((await second.run).error?.name, 'CanceledError');
    await sandbox.delete();
  });

  it('idle/P8: a sandbox that is paused and resumed loses no line of a stream, and shows none twice', async () => {
    const sandbox = await PausedSandbox.create(service);
    const commands = new SandboxCommands(service, sandbox.id);
    const command = await commands.start(`for n in $(seq ${LINES}); do echo "line $n"; sleep 0.01; done`);
    let text = '';
    let lastId: string | undefined;
    const isRunning = Promise.withResolvers<void>();
    const follow = async () => {
      for await (const { id, event } of commands.follow(command.id, lastId)) {
        lastId = id ?? lastId;
        if (event.type === 'log') text += event.data.data;
        if (text.includes('line 20\n')) isRunning.resolve();
        // The error that ends a stream is no event of a command.
        const { type, data } = event as { type: string; data: { name?: string } };
        if (type === 'error') return data.name;
      }
      return 'ended';
    };
    const first = follow();
    await isRunning.promise;
    await sandbox.pause();
    assert.equal(await first, 'sandbox_paused');
    const seen = text.split('\n').length;
    assert.ok(seen < LINES, `${seen} lines before the pause`);
    await delay(PAUSE_MS);
    assert.equal(await follow(), 'ended');
    assert.deepEqual(
      text.trim().split('\n'),
      Array.from({ length: LINES }, (_, index) => `line ${index + 1}`),
    );
    await sandbox.delete();
  });

  it('idle/P8: a sandbox that is paused ends terminals with sandbox_paused, and these go on', async () => {
    const sandbox = await PausedSandbox.create(service);
    const { pty } = await sdkOf(sandbox);
    let screen = '';
    const onData = (data: Uint8Array) => {
      screen += Buffer.from(data).toString();
    };
    const terminal = await pty.open({ onData });
    terminal.write('kept=$((40 + 1)); (sleep 0.5; echo later) & echo be$(echo gun)\n');
    const socket = sandbox.openTerminal();
    await Promise.all([once(socket, 'message'), eventually(() => screen.includes('begun'))]);
    const closed = once(socket, 'close');
    await sandbox.pause();
    const [{ code, reason }] = await closed;
    assert.deepEqual([code, reason], [4410, 'sandbox_paused']);
    // Longer than a client waits before it tries again.
    await delay(2_000);
    assert.ok((await sandbox.get()).paused, 'no client that had a connection wakes it');
    const again = await pty.open({ id: terminal.id, onData });
    again.write('echo "it is $((kept + 1))"\n');
    await eventually(() => screen.includes('it is 42') && screen.includes('later'));
    again.close();
    await sandbox.delete();
  });

  it('idle/P15: a sandbox that is paused, resumed and used at the same time is in the end as its record says', async () => {
    const sandbox = await PausedSandbox.create(service);
    await sandbox.value('count = 0');
    const acts = [() => sandbox.pause({ force: true }), () => sandbox.resume(), () => sandbox.value('count += 1')];
    for (let round = 0; round < 10; round += 1) {
      const begun = acts.map(async (_, index) => {
        await delay((index * 7 + round * 5) % 20);
        return acts[(index + round) % acts.length]?.();
      });
      await Promise.all(begun);
      // A run that reached the agent when it was frozen wakes the sandbox a moment later.
      await eventually(async () => ((await sandbox.get()).paused !== undefined) === sandbox.isFrozen());
    }
    await sandbox.delete();
    for (const act of ['pause', 'resume'] as const) {
      const ending = await PausedSandbox.create(service);
      if (act === 'resume') await ending.pause();
      const moved = service.api.post(`${ending.path}/${act}`, {});
      assert.equal((await ending.delete()).status, 'destroyed');
      const { status, body } = await moved;
      assert.ok(status === 200 || body.error.code === 'sandbox_destroyed', JSON.stringify(body));
      await eventually(() => ending.hasNoInstance());
    }
  });

  it('idle/P19: a sandbox that is paused is woken once by 50 runs with one key, of which one is executed', async () => {
    const sandbox = await PausedSandbox.create(service);
    await sandbox.value('count = 0');
    await sandbox.pause();
    const key = randomUUID();
    const send = () =>
      service.api.post(`${sandbox.path}/code/runs`, { code: 'count += 1; count', language: 'python' }, key);
    const answers = await Promise.all(Array.from({ length: 50 }, send));
    const codes = new Set(answers.flatMap(({ status, body }) => (status === 200 ? [] : [body.error.code])));
    assert.deepEqual(
      [...codes].filter((code) => code !== 'idempotency_request_in_progress'),
      [],
    );
    assert.equal((await send()).body.run.outputs[0].value, '1');
    assert.equal(await sandbox.value('count'), '1');
    assert.deepEqual(await sandbox.events(), ['sandbox.paused', 'sandbox.resumed']);
    await sandbox.delete();
  });

  it('idle/P20: a sandbox that is paused is not there for another organization, and a key without the scope wakes it by a run alone', async () => {
    const sandbox = await PausedSandbox.create(service);
    await sandbox.pause();
    const scopes = ['sandbox:read', 'code:run'];
    const keys = {
      narrow: await service.createKey({ scopes } as never),
      other: await service.createKey({ org: await service.createOrg(randomUUID()), scopes: ['*'] } as never),
    };
    const answer = async (key: keyof typeof keys, path: string, body: object) => {
      const init = { method: 'POST', body: JSON.stringify(body) };
      const headers = { authorization: `Bearer ${keys[key]}`, 'content-type': 'application/json' };
      const response = await fetch(new URL(`${sandbox.path}/${path}`, service.url), {
        ...init,
        headers: { ...headers, 'idempotency-key': randomUUID() },
      });
      const { error } = (await response.json()) as { error?: { code: string } };
      return error?.code ?? response.status;
    };
    for (const act of ['pause', 'resume']) {
      assert.equal(await answer('other', act, {}), 'not_found');
      assert.equal(await answer('narrow', act, {}), 'forbidden');
    }
    assert.ok((await sandbox.get()).paused);
    assert.equal(await answer('narrow', 'code/runs', { code: '1', language: 'python' }), 200);
    assert.equal((await sandbox.get()).paused, undefined);
    await sandbox.delete();
  });
});
