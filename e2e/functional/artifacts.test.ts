import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { Artifact, CodeOutput } from '@cloche/contract';
import { lentService } from '../support/lent-service.ts';
import { residentBytes } from '../support/process.ts';
import type { LentService } from '../support/service.ts';

const MIB = 2 ** 20;
const PLOT = 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()';
const PNG = Buffer.from('89504e470d0a1a0a', 'hex');

let service: LentService;
let sandboxId: string;
before(async () => {
  service = await lentService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service.close());

async function keep(path: string, more: Record<string, unknown> = {}): Promise<Artifact> {
  const answer = await service.api.post(`/v1/sandboxes/${sandboxId}/artifacts`, { path, ...more });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body.artifact;
}

function download({ id }: { id: string }): Promise<Response> {
  const headers = { authorization: `Bearer ${service.apiKey}` };
  return fetch(`${service.url}/v1/artifacts/${id}/content`, { headers });
}

async function run(code: string, artifactPolicy: string): Promise<CodeOutput[]> {
  const body = { code, language: 'python', artifactPolicy };
  const answer = await service.api.post(`/v1/sandboxes/${sandboxId}/code/runs`, body);
  assert.equal(answer.body.run?.error, undefined, JSON.stringify(answer.body).slice(0, 2000));
  return answer.body.run.outputs;
}

describe('an artifact of a sandbox', () => {
  it('an artifact of 100 MB is kept and downloaded in constant memory', async () => {
    const code = `
import hashlib
digest = hashlib.sha256()
with open('/workspace/large', 'wb') as file:
    for number in range(100):
        chunk = bytes([number]) * ${MIB}
        digest.update(chunk)
        file.write(chunk)
print(digest.hexdigest())`;
    const { stdout } = await service.api.run(sandboxId, code);
    await keep('large');
    const before = residentBytes(service.pid('server'));
    let most = before;
    const timer = setInterval(() => {
      most = Math.max(most, residentBytes(service.pid('server')));
    }, 20);
    const artifact = await keep('large');
    const digest = createHash('sha256');
    for await (const chunk of (await download(artifact)).body ?? []) digest.update(chunk);
    clearInterval(timer);
    assert.deepEqual([artifact.sizeBytes, artifact.sha256], [100 * MIB, stdout.trim()]);
    assert.equal(digest.digest('hex'), stdout.trim());
    assert.ok(most - before < 75 * MIB, `the server grew by ${Math.round((most - before) / MIB)} MiB`);
  });

  it('an artifact of a directory is an archive that tar reads', async () => {
    const code = `import os; os.makedirs('site/deep', exist_ok=True); open('site/deep/page.html', 'w').write('hello')`;
    await service.api.run(sandboxId, code);
    const archive = Buffer.from(await (await download(await keep('site'))).arrayBuffer());
    const page = execFileSync('tar', ['-xzO', '--wildcards', '*page.html'], { input: archive });
    assert.equal(String(page), 'hello');
  });

  it('an artifact cannot be of a folder or file outside of the sandbox, whatever links say', async () => {
    await service.api.run(sandboxId, `import os; os.symlink('/proc/1/root/etc/shadow', 'shadow')`);
    const { body, status } = await service.api.post(`/v1/sandboxes/${sandboxId}/artifacts`, { path: 'shadow' });
    // If the export succeeds, it contains only the sandbox's own file.
    const content = status === 201 ? await (await download(body.artifact)).text() : '';
    assert.ok(!content.includes('$y$') && !content.includes('$6$'), content);
  });
});

describe('outputs that are promoted', () => {
  it('promoted outputs are pictures of their own, waited for and streamed alike', async () => {
    const [promoted] = (await run(PLOT, 'promote')).filter(({ format }) => format === 'png');
    assert.deepEqual([promoted?.kind, promoted?.value], ['artifact', undefined]);
    const picture = Buffer.from(await (await download({ id: promoted?.artifactId ?? '' })).arrayBuffer());
    assert.deepEqual([picture.subarray(0, 8), picture.length], [PNG, promoted?.sizeBytes]);
    assert.equal(createHash('sha256').update(picture).digest('hex'), promoted?.sha256);

    const body = { code: PLOT, language: 'python', artifactPolicy: 'promote' };
    const answer = await service.api.post(`/v1/sandboxes/${sandboxId}/code/runs/stream`, body);
    const outputs = [...String(answer.body).matchAll(/^data: (\{"type":"output".*)$/gm)].map(([, data = '']) =>
      JSON.parse(data),
    );
    assert.ok(outputs.some(({ data }) => data.kind === 'artifact' && data.format === 'png'));
  });

  it('promoted outputs may be as large as no answer can be', async () => {
    const code = `from IPython.display import HTML, display\ndisplay(HTML('x' * ${20 * MIB}))`;
    const large = (await run(code, 'promote')).find(({ format }) => format === 'html');
    assert.deepEqual([large?.kind, large?.sizeBytes], ['artifact', 20 * MIB]);
    const [said] = (await run(code, 'inline_only')).filter(({ value = '' }) => value.includes('left out'));
    assert.equal(said?.kind, 'inline');
  });

  it('promoted outputs that are larger than the limit are left out, and the run says so', async () => {
    for (const policy of ['promote', 'inline_only']) {
      const all = await run(`from IPython.display import HTML, display\ndisplay(HTML('x' * ${49 * MIB}))`, policy);
      assert.deepEqual(
        all.map(({ format }) => format),
        ['text'],
      );
      const words = new RegExp(`HTML object>\n\\[cloche: text/html output of ${49 * MIB} bytes left out`);
      assert.match(all[0]?.value ?? '', words);
    }
  });

  it('promoted outputs need the scope to create artifacts', async () => {
    const key = await service.createKey({ scopes: ['code:run'] });
    const response = await fetch(`${service.url}/v1/sandboxes/${sandboxId}/code/runs`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': 'scope' },
      body: JSON.stringify({ code: '1', language: 'python', artifactPolicy: 'promote' }),
    });
    assert.equal(response.status, 403);
  });
});

describe('artifacts', () => {
  it('artifacts are there when their sandbox is gone and the server was killed', async () => {
    await service.api.run(sandboxId, `open('kept', 'w').write('kept')`);
    const artifact = await keep('kept');
    await service.api.delete(`/v1/sandboxes/${sandboxId}`);
    await service.kill('server');
    await service.restart('server');
    assert.equal(await (await download(artifact)).text(), 'kept');
  });
});
