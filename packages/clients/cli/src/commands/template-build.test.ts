import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventStream, json, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-build-'));
});
after(() => rmSync(folder, { recursive: true }));

const SETTINGS = { name: 'debian:12', digest: 'sha256:0', env: {}, user: '', workdir: '/', onBuild: [] };

/** Builds a Dockerfile, one of whose steps fails as the service says it. */
async function built(lines: readonly string[], step: number, how: string): Promise<string> {
  const file = join(folder, 'Dockerfile');
  writeFileSync(file, lines.join('\n'));
  const build = { id: 'bld_1', templateId: 'tpl_1', templateSlug: 'own', steps: [], status: 'running' };
  const error = { code: 'step_failed', message: `Step ${step} (exec /bin/sh -c …) failed. ${how}`, step };
  const ended = { type: 'complete', data: { ...build, status: 'failed', error } };
  await using server = await startScriptedServer(({ method, path }) => {
    if (path === '/v1/images/inspect') return json(200, { image: SETTINGS });
    if (path === '/v1/templates/python-node') return json(200, { template: { id: 'tpl_1', slug: 'python-node' } });
    return method === 'POST' ? json(201, { build }) : eventStream([`data: ${JSON.stringify(ended)}\n\n`]);
  });
  const { stderr } = await runInProcess(['template', 'build', '--slug', 'own', folder], { url: server.url });
  return stderr.replaceAll(`${file}:`, 'Dockerfile:');
}

describe('cloche template build', () => {
  it('cloche template build names the line of the Dockerfile that failed, and how', async () => {
    const log = '`cloche template logs own bld_1` prints its log.';
    const own = ['FROM python-node', '', 'RUN true', 'WORKDIR /srv', 'RUN ls \\', '  /nope'];
    const image = ['FROM debian:12', 'RUN true', 'RUN false'];
    for (const [lines, step, how, is] of [
      [own, 1, 'It ended with exit code 2.', 'Dockerfile:3: RUN true: exit code 2.'],
      [own, 2, 'It ended with exit code 1.', 'Dockerfile:4: WORKDIR /srv: exit code 1.'],
      [own, 3, 'It was ended by SIGKILL.', 'Dockerfile:5: RUN ls   /nope: ended by SIGKILL.'],
      [own, 3, 'The program does not exist.', 'Dockerfile:5: RUN ls   /nope: The program does not exist.'],
      // The image is a step, too.
      [image, 1, 'It ended with exit code 1.', 'Dockerfile:1: FROM debian:12: exit code 1.'],
      [image, 3, 'It ended with exit code 1.', 'Dockerfile:3: RUN false: exit code 1.'],
    ] as const) {
      const stderr = await built(lines, step, how);
      assert.equal(stderr.split('\n').at(-2), `error: ${is} ${log}`, `${lines} ${step}`);
    }
  });

  it('cloche template build builds a template that another client has created meanwhile', async () => {
    const build = { id: 'bld_1', templateId: 'tpl_1', templateSlug: 'own', steps: [], status: 'running' };
    const ended = { ...build, status: 'succeeded', templateVersionId: 'tplv_1' };
    const refusal = (status: number, code: string) => json(status, { error: { code, message: code } });
    const sent: string[] = [];
    writeFileSync(join(folder, 'template.json'), JSON.stringify({ from: 'node', setup: [] }));
    await using server = await startScriptedServer(({ method, path }) => {
      if (method !== 'POST') return eventStream([`data: ${JSON.stringify({ type: 'complete', data: ended })}\n\n`]);
      sent.push(path);
      if (path === '/v1/templates') return refusal(409, 'conflict');
      return sent.length === 1 ? refusal(404, 'not_found') : json(201, { build });
    });
    const recipe = join(folder, 'template.json');
    const { stdout } = await runInProcess(['template', 'build', '--slug', 'own', '-f', recipe], { url: server.url });
    assert.equal(stdout, 'own tplv_1\n');
    assert.deepEqual(sent, ['/v1/templates/own/builds', '/v1/templates', '/v1/templates/own/builds']);
  });
});
