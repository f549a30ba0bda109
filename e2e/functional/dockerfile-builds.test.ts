/** Tests files, owners and users of Dockerfiles that the real command line builds. The guide shows the rest. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Cloche } from '@cloche/sdk';
import { execa } from 'execa';
import { sharedService, type TestService } from '../support/service.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-dockerfile-'));
let service: TestService;
let cloche: Cloche;
before(async () => {
  service = await sharedService();
  cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
});
after(async () => {
  rmSync(folder, { recursive: true });
  await service?.close();
});

async function build(slug: string, ...lines: string[]) {
  writeFileSync(join(folder, 'Dockerfile'), lines.join('\n'));
  const env = { CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey };
  return execa(resolve('packages/clients/cli/bin/cloche.mjs'), ['template', 'build', '--slug', slug, folder], { env });
}

describe('a Dockerfile', () => {
  it('a Dockerfile copies small and large files with owners, and runs lines as other users', async () => {
    mkdirSync(join(folder, 'src/inner'), { recursive: true });
    writeFileSync(join(folder, 'src/inner/a.txt'), 'a');
    writeFileSync(join(folder, 'large'), Buffer.alloc(3_000_000, 'x'));
    await build(
      'owners',
      'FROM python-node',
      'RUN useradd --uid 1234 --create-home app && chmod 711 /srv',
      'COPY --chown=app src /srv/app/',
      'COPY large src/inner/a.txt /srv/',
      'USER app',
      'WORKDIR /srv/app',
      'RUN echo "$(id -un) $HOME" > inner/by && echo more >> inner/a.txt',
      'USER 4321',
      'RUN ["sh", "-c", "id -u; id -g; touch /tmp/numbered"]',
      'USER root',
      'COPY --chmod=640 --chown=4321 <<EOF /srv/inline',
      'text',
      'EOF',
    );
    const sandbox = await cloche.sandboxes.create({ template: 'owners' });
    const script =
      'cd /srv; stat -c "%n %U %u %g %a %s" . app app/inner/* large a.txt inline /tmp/numbered; cat app/inner/by; ls -A /tmp | grep cloche-copy || echo clean';
    const { stdout } = await sandbox.commands.run(script, { user: 'root' });
    assert.deepEqual((stdout ?? '').trim().split('\n'), [
      '. root 0 0 711 4096',
      'app app 1234 1234 755 4096',
      'app/inner/a.txt app 1234 1234 644 6',
      'app/inner/by app 1234 1234 644 14',
      'large root 0 0 644 3000000',
      'a.txt root 0 0 644 1',
      'inline UNKNOWN 4321 4321 640 5',
      '/tmp/numbered UNKNOWN 4321 0 644 0',
      'app /home/app',
      'clean',
    ]);
    await sandbox.kill();
    // The contents that the build stored are deleted at its end.
    assert.deepEqual(await cloche.artifacts.list(), []);
    assert.deepEqual(await cloche.sandboxes.list(), []);
  });
});
