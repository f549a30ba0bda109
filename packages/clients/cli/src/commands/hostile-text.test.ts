/** Names and reasons come from a sandbox, whose agent may send anything. None of them may control the terminal. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  eventStream,
  frame,
  json,
  type ScriptedServer,
  sampleCommand,
  sampleContext,
  sampleRun,
  sampleSandbox,
  startScriptedServer,
} from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

/** Sets the title, clears the screen in two ways, changes the text direction, and starts a new line. */
const HOSTILE = 'a\u001b]0;title\u0007\u001b[2J\u009b2J\u202etxt.exe\u200b\u2028\r\nfake';
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const modifiedAt = '2026-01-01T00:00:00.000Z';
const file = { path: HOSTILE, name: HOSTILE, type: 'symlink', target: HOSTILE, mode: '0644', sizeBytes: 1, modifiedAt };
const artifact = { id: 'art_1', name: `.${HOSTILE}`, sizeBytes: 7, contentType: HOSTILE, createdAt: modifiedAt };

let server: ScriptedServer;
let folder: string;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-cli-'));
  server = await startScriptedServer(({ method, path }) => {
    if (path.includes('denied'))
      return json(409, { error: { code: 'conflict', message: HOSTILE, requestId: 'req_1' } });
    if (path.endsWith('/stream')) return eventStream([picture, frame('complete', sampleRun())]);
    if (path.includes('/artifacts')) {
      return json(200, path.endsWith('/artifacts') && method === 'GET' ? { data: [artifact] } : { artifact });
    }
    if (path.includes('/contexts')) return json(200, { data: [sampleContext({ cwd: HOSTILE })] });
    if (path.endsWith('/commands'))
      return json(200, { data: [sampleCommand({ command: HOSTILE, failureReason: HOSTILE })] });
    if (path.includes('/files')) return json(200, { data: [file], file, hasMore: false });
    return json(200, { sandbox: sampleSandbox({ status: 'ready', failureReason: HOSTILE }) });
  });
});
after(async () => {
  rmSync(folder, { recursive: true });
  await server[Symbol.asyncDispose]();
});

const picture = frame('output', {
  ...{ kind: 'inline', format: 'png', value: 'iVBORw0KGgo=', mimeType: '-', role: 'result', bundle: 0 },
});
const cloche = (...args: string[]) => runInProcess(args, { env: { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'k' } });

describe('text of a sandbox', { concurrency: true }, () => {
  for (const line of [
    'files ls sbx_1:x',
    'files mkdir sbx_1:x',
    'files mv sbx_1:x y',
    'files rm sbx_1:x',
    'files rm sbx_1:denied',
    'cp sbx_1:denied -',
    'sandbox get sbx_1',
    'context list sbx_1',
    'command list sbx_1',
    'artifact list',
    'artifact export sbx_1 x',
    'artifact get art_1',
  ]) {
    it(`text of a sandbox does not control the terminal of \`cloche ${line}\`, with --json or without`, async () => {
      for (const more of [[], ['--json']]) {
        const { stdout, stderr } = await cloche(...line.split(' '), ...more);
        const printed = `${stdout}${stderr}`;
        if (more.length === 0) assert.match(printed, /./);
        for (const each of printed.trimEnd().split('\n')) assert.doesNotMatch(each, CONTROLS);
        if (stdout !== '' && more.length > 0) assert.ok(JSON.stringify(JSON.parse(stdout)).length > 0);
      }
    });
  }

  it('text of a sandbox is the same value in JSON', async () => {
    assert.equal(JSON.parse((await cloche('files', 'mkdir', 'sbx_1:x', '--json')).stdout).path, HOSTILE);
  });
});

describe('a name that a sandbox chose', () => {
  it('a name that a sandbox chose does not become a hidden file', async () => {
    const { exitCode, stderr } = await cloche('artifact', 'download', 'art_1');
    assert.equal(exitCode, 1);
    assert.match(stderr, /hidden file; give a file name: cloche artifact download art_1 FILE\n$/);
  });

  it('a name that a sandbox chose does not lead rich outputs through a link that is there', async () => {
    const [own, link] = [join(folder, 'own'), join(folder, 'output-1.png')];
    writeFileSync(own, 'of the user');
    symlinkSync(own, link);
    const { exitCode, stderr } = await cloche('run', '--sandbox', 'sbx_1', '-c', '1', '--save-outputs', folder);
    assert.equal(exitCode, 0, stderr);
    assert.equal(readFileSync(own, 'utf8'), 'of the user');
    assert.equal(readFileSync(link).length, 8);
  });
});
