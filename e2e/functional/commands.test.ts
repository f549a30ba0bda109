import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { Command, CommandEvent, CommandLogEntry } from '@cloche/contract';
import { createParser } from 'eventsource-parser';
import { Api } from '../support/api.ts';
import { eventually } from '../support/eventually.ts';
import { residentBytes } from '../support/process.ts';
import { type TestService, testService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await testService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service.close());

type Body = Record<string, unknown>;
const collection = () => `/v1/sandboxes/${sandboxId}/commands`;
const post = (body: Body, key?: string) => service.api.post(collection(), body, key ?? 'auto');

async function run(command: string | string[], options: Body = {}): Promise<Command> {
  const answer = await post({ command, ...options });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body.command;
}

const start = (command: string | string[], options: Body = {}) => run(command, { background: true, ...options });
const get = async (id: string, query = ''): Promise<Command> =>
  (await service.api.get(`${collection()}/${id}${query}`)).body.command;
const kill = (id: string, body?: Body) => service.api.post(`${collection()}/${id}/kill`, body);

async function logs(id: string, limit = 1000): Promise<CommandLogEntry[]> {
  const all: CommandLogEntry[] = [];
  for (let afterSeq = 0; ; ) {
    const { body } = await service.api.get(`${collection()}/${id}/logs?afterSeq=${afterSeq}&limit=${limit}`);
    all.push(...body.data);
    if (!body.hasMore) return all;
    afterSeq = body.nextSeq;
  }
}

/** Frames of a command's stream with their ids. */
async function* follow(
  id: string,
  lastEventId?: string,
): AsyncGenerator<{ id: string | undefined; event: CommandEvent }> {
  const headers = {
    authorization: `Bearer ${service.apiKey}`,
    ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
  };
  const response = await fetch(new URL(`${collection()}/${id}/stream`, service.url), { headers });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  const arrived: { id: string | undefined; event: CommandEvent }[] = [];
  const parser = createParser({ onEvent: (frame) => arrived.push({ id: frame.id, event: JSON.parse(frame.data) }) });
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* arrived.splice(0);
  }
}

async function printed(id: string, text: string): Promise<void> {
  for await (const { event } of follow(id)) if (event.type === 'log' && event.data.data.includes(text)) return;
  throw new Error(`it ended without ${text}`);
}

describe('a command that is waited for', () => {
  it('answers with its output and how it ended', async () => {
    const command = await run('echo out; echo err >&2; exit 3');
    assert.deepEqual([command.status, command.exitCode], ['exited', 3]);
    assert.deepEqual([command.stdout, command.stderr], ['out\n', 'err\n']);
    assert.equal(command.cwd, '/workspace');
    assert.ok((command.durationMs ?? -1) >= 0 && command.finishedAt);
    const { stdout: _, stderr: __, ...kept } = command;
    assert.deepEqual(await get(command.id), kept);
  });

  it('runs a line under a login shell, and a list as it is', async () => {
    assert.equal((await run('shopt -q login_shell && echo $0 $((6 * 7))')).stdout, 'bash 42\n');
    assert.equal((await run(['echo', '$HOME', 'a b\nc', ''])).stdout, '$HOME a b\nc \n');
  });

  it('takes environment, folder, input and user', async () => {
    const sandbox = await service.api.readySandbox({ env: { FROM: 'sandbox', BOTH: 'sandbox' } });
    const options = { env: { BOTH: 'command' }, cwd: '/tmp', stdin: 'input', user: 'root' };
    const line = { command: 'echo $FROM $BOTH $PWD $(cat) $(id -u) $HOME', ...options };
    const { body } = await service.api.post(`/v1/sandboxes/${sandbox.id}/commands`, line);
    assert.equal(body.command.stdout, 'sandbox command /tmp input 0 /root\n');
    assert.equal((await run('id -u; echo $HOME $USER')).stdout, '1000\n/home/user user\n');
    await service.api.delete(`/v1/sandboxes/${sandbox.id}`);
  });

  it('has the PATH that it is given, under a login shell as well, and else that of code', async () => {
    const ofCode = (await service.api.run(sandboxId, 'import os; print(os.environ["PATH"], end="")')).stdout;
    assert.match(ofCode, /^\/home\/user\/\.local\/bin:.*\/usr\/local\/bin/);
    assert.equal((await run('mkdir -p ~/.local/bin ~/bin && echo -n $PATH')).stdout, ofCode);
    assert.equal((await run(['printenv', 'PATH'])).stdout, `${ofCode}\n`);
    const env = { PATH: `/workspace/venv/bin:${ofCode}` };
    assert.equal((await run('echo -n $PATH', { env })).stdout, env.PATH);
  });

  it('has no more rights than code has, and none of its descriptors', async () => {
    const script = 'grep -E "^(CapEff|CapPrm|NoNewPrivs|Seccomp):" /proc/self/status; ls /proc/self/fd | wc -l';
    const { stdout } = await run(script);
    assert.match(stdout ?? '', /CapPrm:\t0+\nCapEff:\t0+\nNoNewPrivs:\t1\nSeccomp:\t2\n4\n/);
  });

  it('is cut where it prints too much', async () => {
    const { stdout, truncated } = await run('yes | head -c 9000000');
    assert.equal(truncated?.stdout, 9_000_000 - 8 * 1024 * 1024);
    assert.ok(stdout?.endsWith('bytes]\n'));
  });

  it('that cannot be started is failed and says why', async () => {
    const command = await run(['no-such-program']);
    assert.deepEqual([command.status, command.exitCode], ['failed', 127]);
    assert.match(command.failureReason ?? '', /No such file/);
  });

  it('runs once for one key', async () => {
    const key = randomUUID();
    const body = { command: 'echo x >> once; wc -l < once' };
    const first = await post(body, key);
    const again = await post(body, key);
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual(again.body, first.body);
    assert.equal((await run('cat once')).stdout, 'x\n');
    assert.equal((await post({ command: 'true' }, key)).body.error.code, 'idempotency_key_reused');
    assert.equal((await service.api.request('POST', collection(), { body })).status, 400);
  });

  it('waits for a sandbox that is still being made', async () => {
    const { body } = await service.api.post('/v1/sandboxes', {});
    const path = `/v1/sandboxes/${body.sandbox.id}/commands`;
    assert.equal((await service.api.post(path, { command: 'echo ready' })).body.command.stdout, 'ready\n');
    await service.api.delete(`/v1/sandboxes/${body.sandbox.id}`);
  });
});

describe('the time of a command', () => {
  const traps = 'trap "" TERM HUP INT';
  for (const [deed, script] of [
    ['ignores SIGTERM', `${traps}; echo $$; while :; do sleep 1; done`],
    [
      'forks twice, in a session of its own',
      `setsid bash -c '(${traps}; echo $BASHPID; exec sleep 301) &' & sleep 302`,
    ],
    [
      'clears its environment and closes its pipes too',
      `rm -f f; mkfifo f; (env -i setsid bash -c '(${traps}; echo $BASHPID > f; exec sleep 303 >/dev/null 2>&1 </dev/null) &'); cat f; sleep 304`,
    ],
  ]) {
    it(`ends every process of it, also one that ${deed}`, async () => {
      const { status, stdout } = await run(script ?? '', { timeoutMs: 700 });
      assert.equal(status, 'timed_out');
      const pid = Number(stdout);
      assert.ok(pid > 1, `${stdout}`);
      await eventually(async () => (await run(['test', '-d', `/proc/${pid}`])).exitCode === 1);
    });
  }

  it('does not count what holds its pipes open: it answers when it ends, and what it left goes on', async () => {
    const { status, stdout, durationMs } = await run('sleep 305 & echo $!', { timeoutMs: 20_000 });
    assert.equal(status, 'exited');
    assert.ok((durationMs ?? 0) < 10_000);
    assert.equal((await run(['test', '-d', `/proc/${Number(stdout)}`])).exitCode, 0);
  });
});

describe('a command in the background', () => {
  it('answers when it has started, makes its sandbox running, and is waited for', async () => {
    const command = await start('sleep 0.5; echo done');
    assert.deepEqual([command.status, command.background], ['running', true]);
    assert.equal((await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox.status, 'running');
    const ended = await get(command.id, '?waitMs=20000');
    assert.deepEqual([ended.status, ended.exitCode], ['exited', 0]);
    await eventually(async () => (await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox.status === 'idle');
  });

  it('survives a restart of the server with its log, and is heard of when it ends', async () => {
    const command = await start('for n in {1..40}; do echo line $n; sleep 0.1; done; exit 4');
    await printed(command.id, 'line 2');
    await service.kill('server');
    await service.restart('server');
    assert.equal((await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox.status, 'running');
    const ended = await get(command.id, '?waitMs=20000');
    assert.deepEqual([ended.status, ended.exitCode], ['exited', 4]);
    const text = (await logs(command.id)).map(({ data }) => data).join('');
    assert.equal(text, Array.from({ length: 40 }, (_, n) => `line ${n + 1}\n`).join(''));
  });

  it('is listed with the others, and code runs are not', async () => {
    await service.api.run(sandboxId, '1 + 1');
    const { data } = (await service.api.get(collection())).body as { data: Command[] };
    assert.ok(data.every(({ id }) => id.startsWith('cmd_')));
    assert.ok(data.some(({ background }) => background) && data.some(({ background }) => !background));
  });

  it('is killed with its sandbox, and its record stays', async () => {
    const { id } = await service.api.readySandbox();
    const path = `/v1/sandboxes/${id}/commands`;
    const background = (await service.api.post(path, { command: 'sleep 300', background: true })).body.command;
    const waited = service.api.post(path, { command: 'sleep 300' });
    await eventually(async () => (await service.api.get(path)).body.data.length === 2);
    await service.api.delete(`/v1/sandboxes/${id}`);
    assert.deepEqual([(await waited).status, (await waited).body.command.status], [201, 'killed']);
    const seen = (await service.api.get(`${path}/${background.id}`)).body.command;
    assert.deepEqual([seen.status, seen.signal], ['killed', 'SIGKILL']);
    assert.equal((await service.api.get(`${path}/${background.id}/logs`)).body.error.code, 'sandbox_destroyed');
    assert.equal((await service.api.post(path, { command: 'true' })).body.error.code, 'sandbox_destroyed');
  });
});

describe('killing a command', () => {
  it('ends its whole tree, and an ended one is returned as it is', async () => {
    const command = await start('(setsid sleep 306 &); echo started; sleep 307');
    await printed(command.id, 'started');
    const killed = (await kill(command.id)).body.command;
    assert.deepEqual([killed.status, killed.exitCode, killed.signal], ['killed', 137, 'SIGKILL']);
    assert.equal((await run('pgrep -fx "sleep 30[67]"')).exitCode, 1);
    const again = await kill(command.id, { signal: 'SIGTERM' });
    assert.deepEqual([again.status, again.body.command], [200, killed]);
  });

  it('sends the signal that is named', async () => {
    const command = await start('trap "echo got USR1; exit 9" USR1; echo ready; while :; do sleep 0.05; done');
    await printed(command.id, 'ready');
    await kill(command.id, { signal: 'SIGUSR1' });
    assert.equal((await get(command.id, '?waitMs=20000')).exitCode, 9);
    assert.equal((await kill(command.id, { signal: 'SIGPARTY' })).body.error.code, 'invalid_request');
  });
});

describe('standard input', () => {
  it('is written while the command runs, text or bytes, and ended', async () => {
    const command = await start('while IFS= read -r line; do echo "got $line"; done; echo end', { stdinOpen: true });
    const path = `${collection()}/${command.id}/stdin`;
    assert.equal((await service.api.post(path, { data: 'one\n' })).status, 200);
    await printed(command.id, 'got one');
    await service.api.post(path, { data: Buffer.from('two\n').toString('base64'), encoding: 'base64', close: true });
    await get(command.id, '?waitMs=20000');
    assert.equal((await logs(command.id)).map(({ data }) => data).join(''), 'got one\ngot two\nend\n');
    assert.equal((await service.api.post(path, { data: 'late' })).body.error.code, 'conflict');
  });

  it('that is not read is refused in time and costs bounded memory', async () => {
    const command = await start('sleep 300', { stdinOpen: true });
    const path = `${collection()}/${command.id}/stdin`;
    const data = 'x'.repeat(1_000_000);
    let status = 200;
    for (let count = 0; status === 200 && count < 20; count++) status = (await service.api.post(path, { data })).status;
    assert.equal(status, 503);
    await kill(command.id);
  });
});

describe('the log of a command', () => {
  it('has every line once and in order, read while it is written', async () => {
    const command = await start('for n in {1..2000}; do echo $n; [ $((n % 100)) = 0 ] && sleep 0.01; done');
    const seen: CommandLogEntry[] = [];
    for (;;) {
      const { status } = await get(command.id);
      const afterSeq = seen.at(-1)?.seq ?? 0;
      const page = (await service.api.get(`${collection()}/${command.id}/logs?afterSeq=${afterSeq}&limit=3`)).body;
      seen.push(...page.data);
      if (status !== 'running' && page.data.length === 0) break;
    }
    assert.deepEqual(
      seen.map(({ seq }) => seq),
      seen.map((_, index) => index + 1),
    );
    const text = seen.map(({ data }) => data).join('');
    assert.equal(text, Array.from({ length: 2000 }, (_, n) => `${n + 1}\n`).join(''));
  });

  it('is streamed, and a client that comes back goes on where it was', async () => {
    const command = await start('for n in 1 2 3 4 5 6; do echo $n; sleep 0.1; done; exit 2');
    const first: string[] = [];
    let last = '';
    for await (const { id, event } of follow(command.id)) {
      if (event.type === 'log') first.push(event.data.data);
      last = id ?? last;
      if (first.length === 3) break;
    }
    const rest: string[] = [];
    let exit: Command | undefined;
    for await (const { event } of follow(command.id, last)) {
      if (event.type === 'log') rest.push(event.data.data);
      else exit = event.data;
    }
    assert.equal([...first, ...rest].join(''), '1\n2\n3\n4\n5\n6\n');
    assert.deepEqual([exit?.status, exit?.exitCode], ['exited', 2]);
    assert.equal(
      (await service.api.request('GET', `${collection()}/${command.id}/stream`, { headers: { 'last-event-id': 'x' } }))
        .status,
      400,
    );
  });

  it('of a gigabyte keeps the latest, says what was dropped, and costs the server bounded memory', async () => {
    const before = residentBytes(service.pid('server'));
    const command = await run('yes 0123456789abcde | head -c 1000000000; echo; echo the end', { timeoutMs: 120_000 });
    assert.equal(command.exitCode, 0);
    assert.equal(command.truncated?.stdout, 1_000_000_009 - 8 * 1024 * 1024);
    const entries = await logs(command.id, 50);
    assert.equal(entries[0]?.stream, 'system');
    assert.match(entries[0]?.data ?? '', /bytes dropped/);
    assert.ok(entries.at(-1)?.data.endsWith('the end\n'));
    const bytes = entries.reduce((sum, { data }) => sum + data.length, 0);
    assert.ok(bytes > 14 << 20 && bytes < 18 << 20, `${bytes}`);
    const grown = residentBytes(service.pid('server')) - before;
    assert.ok(grown < 300 << 20, `${grown >> 20} MiB`);
  });

  it('goes on when the disk of the sandbox is full', async () => {
    const { id } = await service.api.readySandbox({ resources: { diskMb: 64 } });
    const path = `/v1/sandboxes/${id}/commands`;
    const command = 'head -c 200M /dev/zero > fill; yes 0123456789abcde | head -c 5000000; echo; echo the end';
    const { body } = await service.api.post(path, { command });
    assert.match(body.command.stderr, /No space left/);
    assert.ok(body.command.stdout.endsWith('the end\n'));
    const page = (await service.api.get(`${path}/${body.command.id}/logs?limit=1000`)).body;
    assert.ok(page.data.at(-1).data.endsWith('the end\n'));
    await service.api.delete(`/v1/sandboxes/${id}`);
  });
});

describe('the aliases', () => {
  it('wait or do not, and name their successor also when they fail', async () => {
    const waited = await service.api.post(`${collection()}/run`, { command: 'echo waited' });
    assert.deepEqual([waited.status, waited.body.command.stdout], [201, 'waited\n']);
    const started = await service.api.post(`${collection()}/start`, { command: 'sleep 300' });
    assert.deepEqual([started.status, started.body.command.status], [201, 'running']);
    await kill(started.body.command.id);
    const refused = await service.api.post(`${collection()}/run`, { command: '' });
    const unkeyed = await service.api.request('POST', `${collection()}/start`, { body: { command: 'true' } });
    assert.deepEqual([refused.status, unkeyed.status], [400, 400]);
    for (const { headers } of [waited, started, refused, unkeyed]) {
      assert.match(headers.get('deprecation') ?? '', /^@\d+$/);
      assert.equal(headers.get('sunset'), 'Sat, 10 Jul 2027 00:00:00 GMT');
      assert.match(headers.get('link') ?? '', new RegExp(`^<${collection()}>; rel="canonical"`));
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
    ['too many arguments', { command: Array(16_385).fill('x') }, 'body.command'],
    ['too much in all', { command: Array(100).fill('x'.repeat(12_000)) }, 'body.command'],
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
    it(`refuses ${what}, and names ${path}`, async () => {
      const before = (await service.api.get(collection())).body.data.length;
      const answer = await post(body);
      assert.equal(answer.status, 400, JSON.stringify(answer.body).slice(0, 300));
      assert.equal(answer.body.error.code, 'invalid_request');
      const paths = answer.body.error.details.issues.map((issue: { path: string }) => issue.path);
      assert.ok(
        paths.some((found: string) => found.startsWith(path)),
        JSON.stringify(paths),
      );
      assert.ok(JSON.stringify(answer.body).length < 2000);
      assert.equal((await service.api.get(collection())).body.data.length, before);
    });
  }

  it('takes ten thousand arguments', async () => {
    const { stdout } = await run(['bash', '-c', 'echo $#', 'x', ...Array(10_000).fill('argument')]);
    assert.equal(stdout, '10000\n');
  });

  it('knows no command of another sandbox or organization', async () => {
    const command = await run('true');
    const other = await service.api.readySandbox();
    const elsewhere = `/v1/sandboxes/${other.id}/commands/${command.id}`;
    assert.equal((await service.api.get(elsewhere)).body.error.code, 'not_found');
    assert.equal((await service.api.post(`${elsewhere}/kill`)).body.error.code, 'not_found');
    await service.api.delete(`/v1/sandboxes/${other.id}`);
  });

  it('needs the scopes, each for its own', async () => {
    const org = await service.createOrg('commands');
    for (const [scope, path, method] of [
      ['command:read', collection(), 'POST'],
      ['command:run', collection(), 'GET'],
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
