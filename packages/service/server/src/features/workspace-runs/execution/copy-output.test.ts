import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AgentCommandEvent } from '@cloche/protocol';
import { openSandboxes } from '../../../../testing/sandboxes.ts';
import { SequenceLog } from '../../../platform/sequence-log/sequence-log.ts';
import { copyOutput } from './copy-output.ts';

const ID = 'wrun_1';
const PIECE = 'x'.repeat(64 * 1024);
const entry = (seq: number, data: string, stream: 'stdout' | 'stderr' | 'system' = 'stdout'): AgentCommandEvent => ({
  type: 'log',
  entry: { seq, stream, data, at: 0 },
});
const EXIT: AgentCommandEvent = { type: 'exit', command: { id: 'cmd_1', status: 'exited', exitCode: 0 } };

async function* events(...all: readonly AgentCommandEvent[]): AsyncGenerator<AgentCommandEvent, void> {
  yield* all;
}

async function openLog(keptBytes = 100 * 2 ** 20) {
  const world = await openSandboxes();
  const log = new SequenceLog(world, { keptBytes });
  const output = async () => (await log.read(ID, 0, 1000)).data.map(({ data }) => data);
  return { log, output, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

describe('copying the output of a command', () => {
  it('copying the output of a command writes all of it before it returns the command, and notes how far it came', async () => {
    await using opened = await openLog();
    const { log, output } = opened;
    const many = Array.from({ length: 300 }, (_, index) => entry(index + 1, `${index}\n`));
    const command = await copyOutput(events(...many, EXIT), log, { id: ID, after: 0 });
    assert.equal(command.exitCode, 0);
    assert.deepEqual(
      await output(),
      many.map((_, index) => `${index}\n`),
    );
    assert.equal(await log.sourceSeq(ID), 300);
  });

  it('copying the output of a command reads no further while much of it is not written yet', async () => {
    await using opened = await openLog();
    const { log } = opened;
    let given = 0;
    let ahead = 0;
    async function* flood() {
      for (let seq = 1; seq <= 100; seq += 1) {
        given = seq;
        ahead = Math.max(ahead, given - (await log.sourceSeq(ID)));
        yield entry(seq, PIECE);
      }
      yield EXIT;
    }
    await copyOutput(flood(), log, { id: ID, after: 0 });
    assert.equal((await log.listOfType(ID, 'stdout')).length, 100);
    // 1 MiB waits and 256 KiB are being written, each passed by at most one piece of 64 KiB.
    assert.ok(ahead <= (1024 + 256) / 64 + 2, String(ahead));
  });

  it('copying the output of a command fails, and repeats nothing, where another server has written a part', async () => {
    await using opened = await openLog();
    const { log, output } = opened;
    await copyOutput(events(entry(1, 'a'), entry(2, 'b'), EXIT), log, { id: ID, after: 0 });
    await assert.rejects(copyOutput(events(entry(1, 'a'), EXIT), log, { id: ID, after: 0 }), /another server/);
    await copyOutput(events(entry(3, 'c', 'system'), EXIT), log, { id: ID, after: 2 });
    assert.deepEqual(await output(), ['a', 'b', 'c']);
  });

  it('copying the output of a command drops the oldest of what an agent calls messages of the system, too', async () => {
    const keptBytes = 10 * PIECE.length;
    await using opened = await openLog(keptBytes);
    const flood = Array.from({ length: 100 }, (_, index) => entry(index + 1, PIECE, 'system'));
    await copyOutput(events(...flood, EXIT), opened.log, { id: ID, after: 0 });
    const kept = (await opened.output()).join('');
    assert.ok(kept.length < keptBytes, `${kept.length} bytes`);
  });

  it('copying the output of a command fails where the events end before the command', async () => {
    await using opened = await openLog();
    await assert.rejects(copyOutput(events(entry(1, 'a')), opened.log, { id: ID, after: 0 }), /ended before/);
  });
});
