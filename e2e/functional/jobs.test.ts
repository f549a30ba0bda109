import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Cloche } from '@cloche/sdk';
import { execa } from 'execa';
import { sharedService, type TestService } from '../support/service.ts';

/** A project of other authors whose package has its tests, which need no further package. */
const PROJECT = '@fastify/error@4.2.1';

let service: TestService;
let cloche: Cloche;
let folder: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-jobs-e2e-'));
  service = await sharedService();
  cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service?.close();
});

const cli = (...args: string[]) =>
  execa('packages/clients/cli/bin/cloche.mjs', args, {
    env: { CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey },
    reject: false,
  });
const job = (...args: string[]) => cli('job', ...args);

/** A Dockerfile for the project: what its tests need is in the template, and the job has only the project itself. */
const DOCKERFILE = `FROM node
ENV NODE_ENV=test CHECKED=/opt/checked
WORKDIR /opt/checked
COPY package.json .
RUN node -p "require('./package.json').name" > name && chown user:user .
RUN printf '#!/bin/sh\\ncat $CHECKED/name\\nexec node --test --test-reporter=tap "$@"\\n' > /usr/local/bin/check && chmod 755 /usr/local/bin/check
USER user
RUN id -un >> /opt/checked/user
`;

describe('the tests of a project of other authors', () => {
  let project: string;
  /** Why the project could not be fetched. */
  let missing: string | undefined;
  before(async () => {
    const args = ['pack', PROJECT, '--pack-destination', folder, '--silent'];
    const { exitCode, stdout, stderr } = await execa('npm', args, { reject: false, timeout: 60_000 });
    if (exitCode !== 0) missing = `npm cannot fetch ${PROJECT}: ${stderr.slice(0, 200)}`;
    else await execa('tar', ['-C', folder, '-xzf', join(folder, stdout.trim())]);
    project = join(folder, 'package');
  });

  it('the tests of a project of other authors run as a job, with their output and exit code', async (t) => {
    if (missing !== undefined) return t.skip(missing);
    const passed = await job('run', '--dir', project, '--', 'node', '--test', '--test-reporter=tap');
    assert.equal(passed.exitCode, 0, passed.stderr);
    assert.match(passed.stdout, /^# pass 29$/m);
    assert.match(passed.stdout, /^# fail 0$/m);
  });

  it('the tests of a project of other authors run as a job in a template that its Dockerfile makes', async (t) => {
    if (missing !== undefined) return t.skip(missing);
    writeFileSync(join(project, 'Dockerfile'), DOCKERFILE);
    const built = await cli('template', 'build', '--slug', 'error-tests', project);
    assert.equal(built.exitCode, 0, built.stderr);
    const passed = await job('run', '--dir', project, '--template', 'error-tests', '--', 'check');
    assert.equal(passed.exitCode, 0, passed.stderr);
    assert.match(passed.stdout, /^@fastify\/error$/m);
    assert.match(passed.stdout, /^# pass 29$/m);
    assert.match(passed.stdout, /^# fail 0$/m);
  });

  it('fail as a job when the project is broken', async (t) => {
    if (missing !== undefined) return t.skip(missing);
    const file = join(project, 'index.js');
    const source = readFileSync(file, 'utf8');
    writeFileSync(file, source.replace('this.statusCode = ', 'this.statusCode = 1 + '));
    const failed = await job('run', '--dir', project, '--', 'node', '--test', '--test-reporter=tap');
    assert.equal(failed.exitCode, 1, failed.stderr);
    assert.match(failed.stdout, /^# fail [1-9]/m);
  });
});

describe('a job', () => {
  it('a job gets the files of a directory with their modes, and gives its artifacts back', async () => {
    const directory = join(folder, 'work');
    mkdirSync(join(directory, 'node_modules'), { recursive: true });
    writeFileSync(join(directory, '.gitignore'), 'node_modules\n');
    writeFileSync(join(directory, 'node_modules/x'), '');
    writeFileSync(join(directory, 'tool'), '#!/bin/sh\nmkdir -p out/sub && ls > out/sub/list\n', { mode: 0o755 });
    const run = await cloche.workspaceRuns.run({ directory, command: './tool', artifacts: ['out/**'] });
    assert.equal(run.info.status, 'succeeded', (await run.output()).stderr);
    const results = join(folder, 'results');
    const { exitCode, stderr } = await job('artifacts', run.id, '--download', results);
    assert.equal(exitCode, 0, stderr);
    assert.equal(readFileSync(join(results, 'out/sub/list'), 'utf8'), 'out\ntool\n');
  });

  it('a job of more than 100 MiB is uploaded to a signed URL', async () => {
    const directory = join(folder, 'large');
    mkdirSync(directory);
    // Random, so that it stays as large when it is compressed.
    const large = randomBytes(101 * 1024 * 1024);
    writeFileSync(join(directory, 'data'), large);
    const run = await cloche.workspaceRuns.run({ directory, command: 'sha256sum data' });
    const { stdout } = await run.output();
    assert.equal(stdout, `${createHash('sha256').update(large).digest('hex')}  data\n`);
    assert.ok((run.info.archive?.sizeBytes ?? 0) > 100 * 1024 * 1024);
  });

  it('a job is canceled with its sandbox when the caller aborts', async () => {
    const directory = join(folder, 'slow');
    mkdirSync(directory);
    const abort = new AbortController();
    let id = '';
    const running = cloche.workspaceRuns.run({
      directory,
      command: 'echo started; exec sleep 600',
      signal: abort.signal,
      onCreated: (run) => {
        id = run.id;
      },
      onEvent: ({ type }) => {
        if (type === 'stdout') abort.abort(new Error('enough'));
      },
    });
    await assert.rejects(running, /enough/);
    const run = await (await cloche.workspaceRuns.get(id)).wait({ timeoutMs: 60_000 });
    assert.equal(run.info.status, 'canceled');
    const sandbox = await cloche.sandboxes.get(run.info.sandboxId ?? '');
    assert.equal(sandbox.info.status, 'destroyed');
  });
});
