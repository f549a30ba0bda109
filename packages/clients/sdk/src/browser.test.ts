import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { json, sampleSandbox, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './index.ts';

describe('the package', () => {
  it('bundles for a browser with nothing of Node in it, and works from there', async () => {
    const { outputFiles } = await build({
      entryPoints: [fileURLToPath(new URL('./index.ts', import.meta.url))],
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'browser',
      target: 'es2022',
    });
    const text = outputFiles[0]?.text ?? '';
    assert.doesNotMatch(text, /["']node:/);
    await using server = await startScriptedServer([json(201, { sandbox: sampleSandbox() })]);
    const url = `data:text/javascript;base64,${Buffer.from(text).toString('base64')}`;
    const { Cloche: Bundled } = (await import(url)) as typeof import('./index.ts');
    const sandbox = await new Bundled({ url: server.url, apiKey: 'clk_test' }).sandboxes.create();
    assert.equal(sandbox.id, 'sbx_1');
  });

  it('the package makes keys of its own where a page has no randomUUID', async (context) => {
    await using server = await startScriptedServer(() => json(201, { sandbox: sampleSandbox() }));
    Object.defineProperty(crypto, 'randomUUID', { value: undefined, configurable: true });
    context.after(() => Reflect.deleteProperty(crypto, 'randomUUID'));
    const cloche = new Cloche({ url: server.url, apiKey: 'clk_test' });
    await cloche.sandboxes.create();
    await cloche.sandboxes.create();
    const keys = server.requests.map(({ headers }) => headers['idempotency-key']);
    assert.match(String(keys[0]), /^[0-9a-f]{32}$/);
    assert.notEqual(keys[0], keys[1]);
  });
});
