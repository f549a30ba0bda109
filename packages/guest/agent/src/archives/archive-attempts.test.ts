/** Attempts of several servers to unpack the archive of one workspace run. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { writeTarHeader } from '@cloche/archive';
import { eventually } from '@cloche/testkit/eventually';
import { needsRoot } from '@cloche/testkit/needs-root';
import { FileAgent } from '../../testing/file-agent.ts';

const RUN = 'wrun_1';

let agent: FileAgent;
before(async () => {
  if (needsRoot) return;
  agent = await FileAgent.start();
});
after(() => agent?.[Symbol.asyncDispose]());
afterEach(() => {
  for (const name of readdirSync(agent.workspace)) {
    rmSync(join(agent.workspace, name), { recursive: true, force: true });
  }
});

const inside = (name: string) => join(agent.workspace, name);
const queryOf = (attempt: number | undefined, runId = RUN) => ({
  path: '.',
  ...(attempt !== undefined && { runId, attempt: String(attempt) }),
});
const upload = (attempt: number | undefined, body: Buffer, runId = RUN) =>
  agent.call('PUT', '/archive', queryOf(attempt, runId), { body });

/** Returns a tar of the file `name`. */
function tarOf(name: string, content: string): Buffer {
  const header = { name, flag: '0', mode: 0o644, mtime: 0, linkName: '', size: content.length };
  const padding = Buffer.alloc((512 - (content.length % 512)) % 512);
  return Buffer.concat([writeTarHeader(header), Buffer.from(content), padding, Buffer.alloc(1024)]);
}

/** Begins an upload and sends all but the end of it. The server then stands still. */
async function beginUpload(attempt: number | undefined, tar: Buffer) {
  const asked = agent.open('PUT', '/archive', queryOf(attempt), { 'content-length': tar.length });
  const answer = agent.answerTo(asked);
  asked.write(tar.subarray(0, 600));
  const isStaged = () => readdirSync(agent.workspace).some((name) => name.startsWith('.'));
  await eventually(isStaged, { because: 'the agent has begun to unpack' });
  return {
    async goOn() {
      asked.end(tar.subarray(600));
      return answer;
    },
  };
}

describe('the archive of a workspace run', { skip: needsRoot }, () => {
  it('the archive of a workspace run is not unpacked by an earlier attempt that goes on after a later one, and the command keeps its files', async () => {
    const late = await beginUpload(1, tarOf('file', 'of the earlier attempt'));
    assert.equal((await upload(2, tarOf('file', 'of the later attempt'))).status, 200);
    assert.deepEqual(readdirSync(agent.workspace), ['file'], 'the earlier attempt has left nothing');
    writeFileSync(inside('file'), 'of the command');
    const { status, json } = await late.goOn();
    assert.deepEqual([status, json.error.code], [409, 'conflict']);
    assert.equal(readFileSync(inside('file'), 'utf8'), 'of the command');
  });

  it('the archive of a workspace run is refused from an attempt that begins after a later one', async () => {
    assert.equal((await upload(2, tarOf('kept', 'x'))).status, 200);
    rmSync(inside('kept'));
    const { status, json } = await upload(1, tarOf('kept', 'x'));
    assert.deepEqual([status, json.error.code], [409, 'conflict']);
    assert.match(json.error.message, /a later attempt/);
    assert.equal(existsSync(inside('kept')), false);
    assert.equal((await upload(3, tarOf('kept', 'x'))).status, 200);
  });

  it('the archive of a workspace run is unpacked by a repeated attempt, and an attempt of another run changes nothing about it', async () => {
    assert.equal((await upload(4, tarOf('one', 'x'), 'wrun_2')).status, 200);
    assert.equal((await upload(4, tarOf('two', 'x'), 'wrun_2')).status, 200);
    assert.equal((await upload(1, tarOf('three', 'x'), 'wrun_3')).status, 200);
    assert.deepEqual(readdirSync(agent.workspace).sort(), ['one', 'three', 'two']);
    const wrong = await upload(0, tarOf('four', 'x'));
    assert.deepEqual([wrong.status, wrong.json.error.code], [400, 'bad_request']);
  });

  it('the archive of a workspace run without a number is unpacked however late it goes on: the control', async () => {
    const late = await beginUpload(undefined, tarOf('file', 'of the earlier attempt'));
    assert.equal((await upload(undefined, tarOf('file', 'of the later attempt'))).status, 200);
    writeFileSync(inside('file'), 'of the command');
    assert.equal((await late.goOn()).status, 200);
    assert.equal(readFileSync(inside('file'), 'utf8'), 'of the earlier attempt');
  });
});
