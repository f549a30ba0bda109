/** Sandboxes of an imported image of Debian packages, with a Python and a Node of its own, and the user 0. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { TemplateBuild, TemplateRecipe } from '@cloche/contract';
import { Cloche, type Sandbox } from '@cloche/sdk';
import { debianRoot } from '../support/image-root.ts';
import { buildTemplateOf } from '../support/image-template.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let cloche: Cloche;
before(async () => {
  service = await sharedService();
  cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
});
after(() => service?.close());

function importImage(
  slug: string,
  recipe: Omit<TemplateRecipe, 'from'>,
  config: Record<string, unknown>,
): Promise<TemplateBuild> {
  const layers = [debianRoot('python3', 'nodejs')];
  return buildTemplateOf({ layers, config }, slug, recipe, service);
}

describe('an imported image of Debian packages', () => {
  let sandbox: Sandbox;

  before(async () => {
    const config = { Env: ['PATH=/usr/bin:/bin', 'GREETING=hi'], User: '0' };
    const recipe: Omit<TemplateRecipe, 'from'> = { languages: ['python', 'javascript'], resources: { memoryMb: 1024 } };
    const build = await importImage('debian', recipe, config);
    assert.equal(build.status, 'succeeded', JSON.stringify(build));
    sandbox = await cloche.sandboxes.create({ template: 'debian', ttlMs: 600_000 });
  });
  after(() => sandbox?.kill());

  it("an imported image of Debian packages runs code in its own Python, whose context keeps variables and knows the image's environment", async () => {
    await sandbox.run('import os, sys, IPython\nx = 41', { language: 'python' });
    const code = 'print(sys.executable, IPython.version_info[0], os.environ["GREETING"], os.getuid())\nx + 1';
    const { stdout, outputs, error } = await sandbox.run(code, { language: 'python' });
    assert.equal(error, undefined);
    assert.equal(stdout, '/usr/bin/python3 9 hi 1000\n');
    assert.equal(outputs[0]?.value, '42');
    const html = 'from IPython.display import HTML; HTML("<b>x</b>")';
    const shown = (await sandbox.run(html, { language: 'python' })).outputs;
    assert.ok(shown.some(({ format }) => format === 'html'));
    const failed = await sandbox.run('1 / 0', { language: 'python' });
    assert.equal(failed.error?.name, 'ZeroDivisionError');
  });

  it("an imported image of Debian packages runs code in the service's Node, and commands with the image's own Python and Node", async () => {
    const { outputs, error } = await sandbox.run('[1, 2].map((n) => n * 2).join()', { language: 'javascript' });
    assert.equal(error, undefined);
    assert.match(outputs[0]?.value ?? '', /2,4/);
    const script = `python3 -c 'import sys, ssl; print(sys.version_info[:2])'; node -p 'process.version.split(".")[0]'; cat /etc/debian_version || busybox | head -c 7`;
    const { stdout, stderr, exitCode } = await sandbox.commands.run(script);
    assert.equal(exitCode, 0, stderr ?? '');
    assert.equal(stdout, '(3, 11)\nv18\nBusyBox');
  });

  it('an imported image of Debian packages has the user 1000 for code and root on demand, although its own user is 0', async () => {
    const id = async (user: 'user' | 'root') => (await sandbox.commands.run('id -u', { user })).stdout;
    assert.deepEqual([await id('user'), await id('root')], ['1000\n', '0\n']);
  });
});
