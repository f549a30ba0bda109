/** Streams that a pause of the sandbox ends go on after the wake, and wake nothing themselves. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FileEvent, SandboxId, Sandbox as SandboxInfo } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import {
  eventStream,
  failing,
  frame,
  json,
  type Reply,
  sampleCommand,
  sampleSandbox,
  startScriptedServer,
} from '../testing/index.ts';
import { Cloche } from './cloche.ts';
import { isClocheError } from './cloche-error.ts';
import { Command } from './command.ts';
import { Files } from './files.ts';

const PAUSED = { at: '2026-01-01T00:00:00.000Z', by: 'request', memory: 'kept', place: 'memory' } as const;
const ENDED_BY_PAUSE = frame('error', { name: 'sandbox_paused', message: 'The sandbox is paused.' });
const at = '2026-01-01T00:00:00.000Z';
const log = (seq: number, data: string) => frame('log', { seq, stream: 'stdout', data, at });
const exit = frame('exit', sampleCommand({ status: 'exited', exitCode: 0 }));

const sandbox = (changes: Partial<SandboxInfo>): Reply => json(200, { sandbox: sampleSandbox(changes) });
/** A sandbox that is about to be paused, is paused, and is resumed. */
const WAKE = [sandbox({ status: 'idle' }), sandbox({ status: 'idle', paused: PAUSED }), sandbox({ status: 'idle' })];

async function startService(...replies: Reply[]) {
  const server = await startScriptedServer(replies);
  const cloche = new Cloche({ url: server.url, apiKey: 'clk_test', retryDelayMs: 1 });
  const command = new Command(cloche, sampleCommand({ status: 'running' }));
  const paths = () => server.requests.map(({ path }) => path.replace('/v1/sandboxes/', ''));
  return Object.assign(server, { command, files: new Files(cloche, 'sbx_1' as SandboxId), paths });
}

describe('the output of a command over a pause', () => {
  it('the output of a command over a pause goes on after the last line, when something has resumed the sandbox', async () => {
    const opened = eventStream([log(1, 'a'), ENDED_BY_PAUSE]);
    await using service = await startService(opened, ...WAKE, eventStream([log(2, 'b'), exit]));
    let pauses = 0;
    const onPaused = () => {
      pauses += 1;
    };
    const text = [];
    for await (const { data } of service.command.logs({ onPaused })) text.push(data);
    assert.deepEqual([text, pauses], [['a', 'b'], 1]);
    const id = service.command.info.sandboxId;
    const stream = `${id}/commands/${service.command.id}/stream`;
    assert.deepEqual(service.paths(), [`${stream}?afterSeq=0`, id, id, id, `${stream}?afterSeq=1`]);
  });

  it('the output of a command over a pause is refused if the sandbox was paused before', async () => {
    await using service = await startService(failing('sandbox_paused'));
    await assert.rejects(service.command.logs().next(), { code: 'sandbox_paused' });
    assert.equal(service.requests.length, 1);
  });

  it('the output of a command over a pause ends with the sandbox, and with what the caller throws', async () => {
    const ended = sandbox({ status: 'destroyed' });
    const opened = eventStream([log(1, 'a'), ENDED_BY_PAUSE]);
    await using service = await startService(opened, ended, failing('sandbox_destroyed'), opened);
    const read = async (onPaused?: () => void) => {
      for await (const _ of service.command.logs({ onPaused }));
    };
    await assert.rejects(read(), { code: 'sandbox_destroyed' });
    const tired = new Error('no patience');
    const leave = () => {
      throw tired;
    };
    await assert.rejects(read(leave), (error) => error === tired);
  });

  it('the output of a command over a pause waits no longer than its signal', async () => {
    const paused = sandbox({ status: 'idle', paused: PAUSED });
    await using service = await startService(
      eventStream([ENDED_BY_PAUSE]),
      ...Array.from({ length: 50 }, () => paused),
    );
    const left = new AbortController();
    const reading = service.command.logs({ signal: left.signal }).next();
    await eventually(() => service.requests.length >= 3);
    left.abort(new Error('left'));
    await assert.rejects(reading, { message: 'left' });
  });
});

describe('a watch over a pause', () => {
  it('a watch over a pause goes on with the advice to list the directory again', async () => {
    const created = (path: string) => frame('created', { path });
    const opened = eventStream([created('/workspace/a'), ENDED_BY_PAUSE]);
    const again = eventStream([created('/workspace/b'), frame('complete', {})]);
    await using service = await startService(opened, ...WAKE, again);
    const seen: FileEvent[] = [];
    let opens = 0;
    const onOpen = () => {
      opens += 1;
    };
    for await (const event of service.files.watch('/workspace', { onOpen })) seen.push(event);
    assert.deepEqual(
      seen.map(({ type }) => type),
      ['created', 'overflow', 'created', 'complete'],
    );
    assert.equal(opens, 1);
  });

  it('a watch over a pause still ends with a stream that breaks off', async () => {
    await using service = await startService(eventStream([]));
    const watch = service.files.watch();
    await assert.rejects(watch.next(), (error) => isClocheError(error, 'stream_interrupted'));
  });
});
