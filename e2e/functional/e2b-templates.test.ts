/** Holds builds of templates by E2B's own clients for JavaScript. Those for Python build in `e2b-python.test.ts`. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import * as newest from 'e2b';
import * as older from 'e2b-older';
import { Api } from '../support/api.ts';
import { type E2bOptions, e2bOptions, LASTING } from '../support/e2b-options.ts';
import { sharedService, type TestService } from '../support/service.ts';

/** The folder that templates copy files of. */
const CONTEXT = mkdtempSync(join(tmpdir(), 'e2b-template-'));
const BINARY = Buffer.from([0, 255, 10, 13]);

let service: TestService;
let options: E2bOptions;
before(async () => {
  mkdirSync(join(CONTEXT, 'app/inner'), { recursive: true });
  writeFileSync(join(CONTEXT, 'app/.hidden'), 'dot');
  writeFileSync(join(CONTEXT, 'app/inner/data.bin'), BINARY);
  symlinkSync('inner/data.bin', join(CONTEXT, 'app/link'));
  for (const name of ['a.py', 'b.py', 'c.txt']) writeFileSync(join(CONTEXT, name), name);
  service = await sharedService();
  options = e2bOptions(service);
});
after(async () => {
  rmSync(CONTEXT, { recursive: true });
  await service?.close();
});

/** Runs a line as root in a new sandbox of a template. */
async function outputIn(template: string, line: string): Promise<string> {
  const sandbox = await newest.Sandbox.create(template, { ...options, ...LASTING });
  try {
    return (await sandbox.commands.run(line, { user: 'root' })).stdout;
  } finally {
    await sandbox.kill();
  }
}

const CLIENTS = { newest, older: older as unknown as typeof newest };
for (const [name, { Template, Sandbox }] of Object.entries(CLIENTS)) {
  describe(`the ${name} client of E2B builds a template`, () => {
    const from = () => Template({ fileContextPath: CONTEXT }).fromTemplate('base');

    it('with files, variables, a directory and commands of both users', async () => {
      const template = from()
        .copy('app', '/opt/app')
        .copy('c.txt', 'notes/')
        .copy('*.py', '/srv/code', { user: 'root', mode: 0o600 })
        .setEnvs({ COLOR: 'teal', BOTH: '$COLOR-$HOME' })
        .setWorkdir('work/deep')
        .runCmd('echo "$COLOR $BOTH $(pwd) $(id -un)" > seen')
        .setUser('root')
        .makeDir('/opt/made')
        .runCmd('id -un > /opt/made/owner');
      const said: string[] = [];
      const built = await Template.build(template, `all-${name}`, {
        ...options,
        memoryMB: 384,
        onBuildLogs: ({ message }) => said.push(message),
      });
      assert.equal(built.name, `all-${name}`);
      const status = await Template.getBuildStatus(built, options);
      assert.equal(status.status, 'ready');
      assert.ok(
        said.some((message) => message.includes('The build of')),
        said.join('\n'),
      );
      assert.equal(
        await outputIn(
          `all-${name}`,
          'cd /home/user; cat work/deep/seen /opt/made/owner notes/c.txt /opt/app/.hidden; readlink /opt/app/link; ' +
            'base64 /opt/app/inner/data.bin; stat -c "%U %a %n" /srv/code/* /opt/app/link notes/c.txt',
        ),
        'teal teal-/home/user /home/user/work/deep user\nroot\nc.txtdotinner/data.bin\nAP8KDQ==\n' +
          'root 600 /srv/code/a.py\nroot 600 /srv/code/b.py\nuser 777 /opt/app/link\nuser 644 notes/c.txt\n',
      );
      const sandbox = await Sandbox.create(`all-${name}`, { ...options, ...LASTING });
      assert.equal((await sandbox.getInfo()).memoryMB, 384);
      await sandbox.kill();
    });

    it('again: files that are there are not sent, and steps run again only without the cache', async () => {
      const template = () => from().copy('c.txt', '/opt/c').runCmd('date +%s%N > ~/built');
      const build = async (skipCache: boolean) => {
        const said: string[] = [];
        await Template.build(template(), `again-${name}`, {
          ...options,
          skipCache,
          onBuildLogs: ({ message }) => said.push(message),
        });
        return { said: said.join('\n'), built: await outputIn(`again-${name}`, 'cat /home/user/built') };
      };
      const [first, second, fresh] = [await build(false), await build(false), await build(true)];
      assert.match(second.said, /Skipping upload of 'c\.txt'/);
      assert.equal(second.built, first.built);
      assert.notEqual(fresh.built, first.built);
    });

    it('in the background, and says which command failed', async () => {
      const template = from().runCmd('echo working; echo broken >&2; exit 3');
      const built = await Template.buildInBackground(template, `bad-${name}`, options);
      const said: string[] = [];
      let offset = 0;
      for (;;) {
        const { status, logEntries, reason } = await Template.getBuildStatus(built, { ...options, logsOffset: offset });
        offset += logEntries.length;
        said.push(...logEntries.map(({ level, message }) => `${level} ${message}`));
        if (status === 'error') {
          assert.match(reason?.message ?? '', /step_failed: .*exit code 3.*echo working/);
          if (logEntries.length === 0) break;
        }
      }
      assert.ok(said.includes('info working') && said.includes('warn broken'), said.join('\n'));
      assert.equal(new Set(said).size, said.length);
      await assert.rejects(Template.build(template, `bad-${name}`, options), /step_failed/);
    });
  });
}

describe('a template that E2B’s clients built', () => {
  it('a template that E2B’s clients built is found, listed and deleted', async () => {
    const { Template } = newest;
    await Template.build(Template().fromBaseImage().runCmd('true'), 'short-lived', options);
    assert.equal(await Template.exists('short-lived:default', options), true);
    const call = (method: string, path: string) =>
      fetch(options.apiUrl + path, { method, headers: { 'x-api-key': options.apiKey } });
    const listed = (await (await call('GET', '/templates')).json()) as { templateID: string; public: boolean }[];
    assert.deepEqual(
      listed.filter(({ templateID }) => templateID === 'short-lived').map((each) => each.public),
      [false],
    );
    assert.equal((await call('DELETE', '/templates/short-lived')).status, 204);
    assert.equal(await Template.exists('short-lived', options), false);
  });
});

describe('of builds of E2B’s clients is refused', () => {
  const AWS = { accessKeyId: 'a', secretAccessKey: 'b', region: 'c' };
  const { Template } = newest;
  const base = () => Template({ fileContextPath: CONTEXT }).fromTemplate('base');

  it('what recipes cannot do, in plain words', async () => {
    const refused: [newest.TemplateClass, RegExp][] = [
      [base().setStartCmd('sleep 1', 'true'), /501: .*start commands of a template.*yet/],
      [base().setReadyCmd('true'), /501: .*start commands of a template.*yet/],
      [Template().fromImage('a//b'), /body\.from\.image must be a template, or an image/],
      [Template().fromImage('a//b', { username: 'me', password: 'p' }), /400: .*not the name of an image/],
      [Template().fromAWSRegistry('a/b', AWS), /501: .*asks AWS for no passwords/],
      [Template().fromGCPRegistry('a/b', { serviceAccountJSON: { a: 'x'.repeat(9000) } }), /400: /],
      [base().setUser('nobody'), /501: .*as "nobody" yet/],
      [base().setEnvs({ 'a b': 'c' }), /400: "a b" is not the name/],
      [Template().fromTemplate('base:v2'), /501: .*no tags/],
      [Template().fromTemplate('no-such'), /not found|not_found/],
    ];
    for (const [template, message] of refused)
      await assert.rejects(Template.build(template, 'refused', options), message);
    const tagged = { ...options, tags: ['v1'] };
    await assert.rejects(Template.build(base(), 'refused', tagged), /501: .*no tags/);
    await assert.rejects(Template.build(base(), 'Not A Slug', options), /invalid_request/);
    await assert.rejects(Template.build(base(), 'node', options), /403: .*choose another name/);
    const many = Array.from({ length: 100 }).reduce<newest.TemplateBuilder>((all) => all.runCmd('true'), base());
    await assert.rejects(Template.build(many, 'refused', options), /400: .*at most 99 steps/);
    assert.equal(await Template.exists('refused', options), false);
  });

  it('a build, its files and its state without the scope, and those of another organization', async () => {
    const built = await Template.build(base().copy('c.txt', '/opt/c'), 'mine', options);
    const reading = { ...options, apiKey: await service.createKey({ scopes: ['template:read', 'artifact:read'] }) };
    await assert.rejects(Template.build(base(), 'mine', reading), /403: .*template:write/);
    await assert.rejects(Template.build(base().copy('a.py', '/a'), 'mine', reading), /upload/i);
    const org = await service.createOrg('e2b-templates');
    const foreign = { ...options, apiKey: await service.createKey({ org, scopes: ['*'] }) };
    await assert.rejects(Template.getBuildStatus(built, foreign), /not found|not_found/);
    assert.equal(await Template.exists('mine', foreign), false);
    // Files count for the organization that has sent them, so this client sends them itself.
    const said: string[] = [];
    const template = base().copy('c.txt', '/opt/c');
    await Template.build(template, 'mine', { ...foreign, onBuildLogs: ({ message }) => said.push(message) });
    assert.ok(said.includes("Uploaded 'c.txt'"), said.join('\n'));
    const { body } = await new Api(service.url, foreign.apiKey).get('/v1/audit-events?limit=100');
    const actions = body.data.map(({ action }: { action: string }) => action);
    assert.ok(actions.includes('template.created') && actions.includes('artifact.created'), actions.join());
  });

  it('an upload without its token, too large or cut off', async () => {
    const hash = 'a'.repeat(64);
    const link = async (path: string) =>
      fetch(`${options.apiUrl}/templates/base/files/${path}`, { headers: { 'x-api-key': options.apiKey } });
    assert.equal((await link('../../etc')).status, 501);
    assert.equal((await link('short')).status, 400);
    const { url, present } = (await (await link(hash)).json()) as { url: string; present: boolean };
    assert.equal(present, false);
    const put = async (to: string, headers: Record<string, string> = {}) =>
      (await fetch(to, { method: 'PUT', body: 'x', headers })).status;
    const sandbox = await newest.Sandbox.create({ ...options, ...LASTING });
    const { envdAccessToken } = sandbox as unknown as { envdAccessToken: string };
    assert.equal(await put(url.replace(/[^=]+$/, envdAccessToken)), 403);
    assert.equal(await put(`${url}x`), 403);
    const chunked = { method: 'PUT', body: new Blob(['x']).stream(), duplex: 'half' } as RequestInit;
    assert.equal((await fetch(url, chunked)).status, 411);
    assert.equal((await answerTo(url, 2 ** 31)).statusCode, 413);
    await assert.rejects(answerTo(url, 100, true), /socket hang up/);
    await eventually(async () => !(await hasUploadSandbox()));
    assert.deepEqual((await service.api.get(`/v1/artifacts?name=e2b-copy-${hash}.tar`)).body.data, []);
    const started = await fetch(`${options.apiUrl}/v2/templates/refused/builds/none`, {
      method: 'POST',
      headers: { 'x-api-key': options.apiKey, 'content-type': 'application/json' },
      body: '{"fromTemplate":"base"}',
    });
    assert.equal(started.status, 404);
    await sandbox.kill();
  });
});

/** Begins a PUT, of which only one byte is sent, and returns its answer. `ends`: goes away without waiting for it. */
async function answerTo(url: string, length: number, ends = false): Promise<IncomingMessage> {
  const sent = request(url, { method: 'PUT', headers: { 'content-length': length } });
  try {
    sent.write('x');
    if (ends) {
      await eventually(() => hasUploadSandbox());
      sent.destroy();
    }
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    return answer;
  } finally {
    sent.destroy();
  }
}

async function hasUploadSandbox(): Promise<boolean> {
  const { body } = await service.api.get('/v1/sandboxes?metadata.purpose=template-build');
  return body.data.some(({ status }: { status: string }) => status !== 'destroyed');
}
