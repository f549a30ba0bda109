import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { json, type Reply, type SeenRequest, sampleSandbox, startScriptedServer } from '@cloche/sdk/testing';
import { exitOf, startCloche } from '../../testing/run-cloche.ts';

const build = { id: 'bld_1', templateId: 'tpl_1', templateSlug: 'own', status: 'running', steps: [] };
const hanging: Reply = (response) =>
  void response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n\n');
const REPLIES: Readonly<Record<string, Reply>> = {
  'GET python-node': json(200, { template: { slug: 'python-node' } }),
  'POST sandboxes': json(201, { sandbox: sampleSandbox({ status: 'ready' }) }),
  'PUT content': json(200, { file: { path: '/tmp/upload-1' } }),
  'POST artifacts': json(201, { artifact: { id: 'art_1' } }),
  'DELETE sbx_1': json(200, { sandbox: sampleSandbox({ status: 'destroyed' }) }),
  'DELETE art_1': json(200, { artifact: { id: 'art_1' } }),
  'POST builds': json(201, { build }),
  'GET stream': hanging,
  'POST cancel': json(200, { build: { ...build, status: 'canceled' } }),
};
/** Resources that a request creates, and the calls that undo it. */
const TAKEN_BACK = [
  ['POST sandboxes', 'DELETE sbx_1'],
  ['POST artifacts', 'DELETE art_1'],
  ['POST builds', 'POST cancel'],
] as const;
const nameOf = ({ method, path }: SeenRequest) => `${method} ${path.replace(/\?.*/, '').split('/').at(-1)}`;

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-build-'));
  writeFileSync(join(folder, 'Dockerfile'), 'FROM python-node\nCOPY file /srv/\n');
  // Too large to be part of the recipe.
  writeFileSync(join(folder, 'file'), Buffer.alloc(3_000_000, 'x'));
});
after(() => rmSync(folder, { recursive: true }));

describe('cloche template build that is interrupted', { concurrency: 2 }, () => {
  for (const moment of ['POST sandboxes', 'PUT content', 'POST artifacts', 'POST builds', 'GET stream']) {
    it(`during ${moment} leaves no sandbox, no artifact and no build`, async () => {
      let interrupt = () => {};
      await using server = await startScriptedServer((request) => async (response, seen) => {
        if (nameOf(request) === moment) {
          interrupt();
          // What was asked for is made, and its answer comes after the signal.
          await delay(500);
        }
        await (REPLIES[nameOf(request)] ?? json(418, {}))(response, seen);
      });
      const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
      const child = startCloche(['template', 'build', '--slug', 'own', folder], { env });
      interrupt = () => child.kill('SIGINT');
      let stderr = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        stderr += text;
      });
      assert.equal(await exitOf(child), 130, stderr);
      const names = server.requests.map(nameOf);
      for (const [made, takenBack] of TAKEN_BACK)
        assert.equal(names.includes(takenBack), names.includes(made), `${made}: ${names}`);
      assert.ok(names.includes(moment), String(names));
    });
  }
});
