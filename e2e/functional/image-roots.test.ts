/** Sandboxes whose root file system comes from an image without the GNU C library, Node.js and bash. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cloche, type Sandbox } from '@cloche/sdk';
import { busyboxRoot } from '../support/image-root.ts';
import { buildTemplateOf } from '../support/image-template.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let sandbox: Sandbox;

before(async () => {
  service = await sharedService();
  const config = { Env: ['PATH=/opt/app/bin:/bin', 'GREETING=hi'], User: '0' };
  const image = { layers: [busyboxRoot('musl')], config };
  const build = await buildTemplateOf(image, 'busybox', { languages: ['javascript'] }, service);
  assert.equal(build.status, 'succeeded', JSON.stringify(build));
  const cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
  sandbox = await cloche.sandboxes.create({ template: 'busybox', ttlMs: 600_000 });
});
after(async () => {
  await sandbox?.kill();
  await service?.close();
});

describe('a root file system of musl and busybox', () => {
  it('a root file system of musl and busybox runs commands as the user of every sandbox, and as root, with the variables of the image', async () => {
    const script = 'echo "$(id -u) $(id -un) $HOME $PATH $GREETING $SHELL"; touch x ~/y && echo written';
    assert.equal(
      (await sandbox.commands.run(script)).stdout,
      '1000 user /home/user /home/user/.local/bin:/opt/app/bin:/bin hi /bin/sh\nwritten\n',
    );
    assert.equal((await sandbox.commands.run('id -u', { user: 'root' })).stdout, '0\n');
    assert.equal((await sandbox.commands.run(['sh', '-c', 'exit 7'])).exitCode, 7);
  });

  it('a root file system of musl and busybox runs JavaScript with the Node.js of the guest folder, whose libraries programs of the image do not get', async () => {
    const script = 'env | grep -c LD_; cat /proc/self/maps | grep -c libc.so.6; true';
    const code = `[...require('child_process').execSync('${script}').toString().trim().split('\\n'), process.execPath].join()`;
    const { outputs, error } = await sandbox.run(code, { language: 'javascript' });
    assert.equal(error, undefined);
    assert.match(outputs[0]?.value ?? '', /^.?0,0,node/);
  });

  it('says that it has no Python', async () => {
    await assert.rejects(sandbox.run('1', { language: 'python' }), {
      code: 'invalid_request',
      message: /which has javascript/,
    });
  });
});

describe('the log of the build of an image', () => {
  /** Programs in place of Python, and what the log says; undefined without any. */
  const PYTHONS: Record<string, [program: string | undefined, reason: RegExp]> = {
    none: [undefined, /no folder of its PATH has a python3$/],
    broken: [
      '#!/bin/sh\necho "libpython3.so: not found" >&2; exit 127\n',
      /exited with code 127 .*: libpython3\.so: not found/,
    ],
  };

  it('the log of the build of an image says once why its Python will run no code', async () => {
    const built = Object.entries(PYTHONS).map(async ([slug, [program, reason]]) => {
      const image = { layers: [busyboxRoot('musl')], config: { Env: ['PATH=/usr/local/bin:/bin'] } };
      const files = program === undefined ? [] : [{ path: '/usr/local/bin/python3', content: program, mode: '0755' }];
      const build = await buildTemplateOf(image, `python-${slug}`, { languages: ['python'], files }, service);
      assert.equal(build.status, 'succeeded', JSON.stringify(build));
      const { body } = await service.api.get(`/v1/templates/python-${slug}/builds/${build.id}/logs?limit=1000`);
      const log: string = body.data.map(({ data }: { data: string }) => data).join('');
      const said = log.split('\n').filter((line) => line.startsWith('Python will run no code in this version: '));
      assert.equal(said.length, 1, log);
      assert.match(said[0] ?? '', reason);
    });
    await Promise.all(built);
  });
});
