import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Api } from '../support/api.ts';
import { SandboxCommands } from '../support/commands.ts';
import { sharedService, type TestService } from '../support/service.ts';

type Body = Record<string, unknown>;

let service: TestService;
let commands: SandboxCommands;
before(async () => {
  service = await sharedService();
  commands = new SandboxCommands(service, (await service.api.readySandbox()).id);
});
after(() => service.close());

describe('the aliases', () => {
  it('the deprecated routes of commands wait for the command or not, and name their successor also when they fail', async () => {
    const waited = await service.api.post(`${commands.path}/run`, { command: 'echo waited' });
    assert.deepEqual([waited.status, waited.body.command.stdout], [201, 'waited\n']);
    const started = await service.api.post(`${commands.path}/start`, { command: 'sleep 300' });
    assert.deepEqual([started.status, started.body.command.status], [201, 'running']);
    await commands.kill(started.body.command.id);
    const refused = await service.api.post(`${commands.path}/run`, { command: '' });
    const unkeyed = await service.api.request('POST', `${commands.path}/start`, { body: { command: 'true' } });
    assert.deepEqual([refused.status, unkeyed.status], [400, 400]);
    for (const { headers } of [waited, started, refused, unkeyed]) {
      assert.match(headers.get('deprecation') ?? '', /^@\d+$/);
      assert.equal(headers.get('sunset'), 'Sat, 10 Jul 2027 00:00:00 GMT');
      assert.match(headers.get('link') ?? '', new RegExp(`^<${commands.path}>; rel="canonical"`));
    }
  });
});

describe('bad input', () => {
  const cases: [string, Body, string][] = [
    ['nothing', {}, 'body.command'],
    ['an empty line', { command: '' }, 'body.command'],
    ['an empty list', { command: [] }, 'body.command'],
    ['an empty program', { command: [''] }, 'body.command.0'],
    ['a number', { command: 7 }, 'body.command'],
    ['a NUL in the line', { command: 'echo \0' }, 'body.command'],
    ['a NUL in an argument', { command: ['echo', 'a\0b'] }, 'body.command.1'],
    ['an argument that no program can take', { command: ['echo', 'x'.repeat(131_072)] }, 'body.command.1'],
    ['a line that no shell can take', { command: `: ${'x'.repeat(131_072)}` }, 'body.command'],
    ['too many arguments', { command: Array(65_537).fill('x') }, 'body.command'],
    ['too much in all', { command: Array(100).fill('x'.repeat(24_000)) }, 'body.command'],
    ['an unknown user', { command: 'true', user: 'nobody' }, 'body.user'],
    ['a name that is none', { command: 'true', env: { 'A=B': 'c' } }, 'body.env'],
    ['a NUL in the environment', { command: 'true', env: { A: '\0' } }, 'body.env.A'],
    ['too large an environment', { command: 'true', env: { A: 'x'.repeat(33_000) } }, 'body.env'],
    [
      'too many variables',
      { command: 'true', env: Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`V${n}`, ''])) },
      'body.env',
    ],
    ['too much input', { command: 'true', stdin: 'x'.repeat(1_048_577) }, 'body.stdin'],
    ['no time', { command: 'true', timeoutMs: 0 }, 'body.timeoutMs'],
    ['more than an hour', { command: 'true', timeoutMs: 3_600_001 }, 'body.timeoutMs'],
    ['a folder that does not exist', { command: 'true', cwd: '/no/such' }, 'body.cwd'],
    ['a file as folder', { command: 'true', cwd: '/etc/passwd' }, 'body.cwd'],
    ['a folder that the user may not enter', { command: 'true', cwd: '/root' }, 'body.cwd'],
    ['an unknown field', { command: 'true', shell: 'zsh' }, 'body.shell'],
  ];
  for (const [what, body, path] of cases) {
    it(`commands refuse ${what}, and name ${path}`, async () => {
      const before = (await service.api.get(commands.path)).body.data.length;
      const answer = await commands.post(body);
      assert.equal(answer.status, 400, JSON.stringify(answer.body).slice(0, 300));
      assert.equal(answer.body.error.code, 'invalid_request');
      const paths = answer.body.error.details.issues.map((issue: { path: string }) => issue.path);
      assert.ok(
        paths.some((found: string) => found.startsWith(path)),
        JSON.stringify(paths),
      );
      assert.ok(JSON.stringify(answer.body).length < 2000);
      assert.equal((await service.api.get(commands.path)).body.data.length, before);
    });
  }

  it('commands take ten thousand arguments', async () => {
    const { stdout } = await commands.run(['bash', '-c', 'echo $#', 'x', ...Array(10_000).fill('argument')]);
    assert.equal(stdout, '10000\n');
  });

  it('a request finds no command of another sandbox or organization', async () => {
    const command = await commands.run('true');
    const other = await service.api.readySandbox();
    const elsewhere = `/v1/sandboxes/${other.id}/commands/${command.id}`;
    assert.equal((await service.api.get(elsewhere)).body.error.code, 'not_found');
    assert.equal((await service.api.post(`${elsewhere}/kill`)).body.error.code, 'not_found');
    await service.api.delete(`/v1/sandboxes/${other.id}`);
  });

  it('each operation on commands needs its scope', async () => {
    const org = await service.createOrg('commands');
    for (const [scope, path, method] of [
      ['command:read', commands.path, 'POST'],
      ['command:run', commands.path, 'GET'],
    ] as const) {
      const api = new Api(service.url, await service.createKey({ org, scopes: [scope] }));
      const answer = await api.request(
        method,
        path,
        method === 'POST' ? { body: { command: 'true' }, key: 'auto' } : {},
      );
      assert.deepEqual([answer.status, answer.body.error.code], [403, 'forbidden']);
    }
  });
});
