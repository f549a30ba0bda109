import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { Cloche } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { isolation, sameWithEachRuntime } from '../support/claims.ts';
import { SandboxCommands } from '../support/commands.ts';
import { lentService } from '../support/lent-service.ts';
import { type LentService, TAKEN_OVER_MS } from '../support/service.ts';

let service: LentService;
let sandboxId: SandboxId;
let commands: SandboxCommands;
before(async () => {
  service = await lentService();
  sandboxId = (await service.api.readySandbox()).id;
  commands = new SandboxCommands(service, sandboxId);
});
after(() => service.close());

describe('a command that is waited for', () => {
  it('answers with its output and how it ended', async () => {
    const command = await commands.run('echo out; echo err >&2; exit 3');
    assert.deepEqual([command.status, command.exitCode], ['exited', 3]);
    assert.deepEqual([command.stdout, command.stderr], ['out\n', 'err\n']);
    assert.equal(command.cwd, '/workspace');
    assert.ok((command.durationMs ?? -1) >= 0 && command.finishedAt);
    const { stdout: _, stderr: __, ...kept } = command;
    assert.deepEqual(await commands.get(command.id), kept);
  });

  it('a waited command runs a line under a login shell, and a list as it is', async () => {
    assert.equal((await commands.run('shopt -q login_shell && echo $0 $((6 * 7))')).stdout, '/bin/bash 42\n');
    const { exitCode, stderr } = await commands.run('-weird');
    assert.deepEqual([exitCode, stderr], [127, '/bin/bash: line 1: -weird: command not found\n']);
    assert.equal(
      (await commands.run('echo $PATH', { env: { PATH: '/opt/venv/bin:$PATH' } })).stdout,
      '/opt/venv/bin:$PATH\n',
    );
    assert.equal((await commands.run(['echo', '$HOME', 'a b\nc', ''])).stdout, '$HOME a b\nc \n');
  });

  it('a waited command takes environment, folder, input and user', async () => {
    const sandbox = await service.api.readySandbox({ env: { FROM: 'sandbox', BOTH: 'sandbox' } });
    const options = { env: { BOTH: 'command' }, cwd: '/tmp', stdin: 'input', user: 'root' };
    const line = { command: 'echo $FROM $BOTH $PWD $(cat) $(id -u) $HOME', ...options };
    const { body } = await service.api.post(`/v1/sandboxes/${sandbox.id}/commands`, line);
    assert.equal(body.command.stdout, 'sandbox command /tmp input 0 /root\n');
    assert.equal((await commands.run('id -u; echo $HOME $USER')).stdout, '1000\n/home/user user\n');
    await service.api.delete(`/v1/sandboxes/${sandbox.id}`);
  });

  it('a waited command has the PATH that it is given, under a login shell as well, and else that of code', async () => {
    const ofCode = (await service.api.run(sandboxId, 'import os; print(os.environ["PATH"], end="")')).stdout;
    assert.match(ofCode, /^\/home\/user\/\.local\/bin:.*\/usr\/local\/bin/);
    assert.equal((await commands.run('mkdir -p ~/.local/bin ~/bin && echo -n $PATH')).stdout, ofCode);
    assert.equal((await commands.run(['printenv', 'PATH'])).stdout, `${ofCode}\n`);
    const env = { PATH: `/workspace/venv/bin:${ofCode}` };
    assert.equal((await commands.run('echo -n $PATH', { env })).stdout, env.PATH);
  });

  it('a waited command has no more rights than code has, and none of its descriptors', async () => {
    const script = 'grep -E "^(CapEff|CapPrm|NoNewPrivs|Seccomp):" /proc/self/status; ls /proc/self/fd | wc -l';
    const { stdout } = await commands.run(script);
    assert.match(stdout ?? '', /CapPrm:\t0+\nCapEff:\t0+\nNoNewPrivs:\t1\nSeccomp:\t2\n4\n/);
  });

  it('a waited command is cut where it prints too much', async () => {
    const { stdout, truncated } = await commands.run('yes | head -c 9000000');
    // Lines of `y`, which take three characters each in JSON.
    assert.equal(truncated?.stdout, 9_000_000 - Math.floor((8 * 1024 * 1024 * 2) / 3));
    assert.match(stdout?.slice(-100) ?? '', /bytes of stdout cut; the limit is \d+ bytes as JSON\]\n$/);
  });

  it('a waited command that cannot be started ends with 127 or 126 as in a shell, and says why', async () => {
    await commands.run('printf x > plain; printf "#!/no/such/interpreter\\n" > script; chmod +x script');
    const reasons = {
      'no-such-program': [127, /(No such file or directory|command not found)\n$/],
      '/workspace/plain': [126, /Permission denied\n$/],
      '/workspace': [126, /(Permission denied|Is a directory)\n$/],
      '/workspace/script': [127, /(No such file or directory|required file not found)\n$/],
    } as const;
    for (const [program, [exitCode, reason]] of Object.entries(reasons)) {
      const direct = await commands.run([program]);
      assert.deepEqual([direct.status, direct.exitCode], ['failed', exitCode], program);
      assert.match(direct.failureReason ?? '', /^\S+: \S/);
      assert.match(direct.stderr ?? '', reason, program);
      const byShell = await commands.run(program);
      assert.equal(byShell.exitCode, exitCode, program);
      assert.match(byShell.stderr ?? '', reason, program);
    }
  });

  it('a waited command takes as many bytes of arguments as the kernel does, and says so where there are more', async () => {
    const words = (bytes: number) => Array<string>(bytes / 100_000).fill('x'.repeat(100_000));
    const most = await commands.run(['bash', '-c', 'cat /proc/$$/cmdline | wc -c', 'x', ...words(2_000_000)]);
    assert.deepEqual([most.exitCode, Number(most.stdout) > 2_000_000], [0, true], most.stderr ?? '');
    // Too many together with the environment and with what Linux adds to it; gVisor's kernel has no such limit.
    const more = await commands.run(['true', ...words(2_000_000), 'x'.repeat(97_000)]);
    const refused = ['failed', 126, 'true: Argument list too long\n'];
    const isOwn = isolation.kernel === 'own';
    assert.deepEqual([more.status, more.exitCode, more.stderr], isOwn ? ['exited', 0, ''] : refused);
    const { status, body } = await commands.post({ command: ['true', ...words(2_100_000)] });
    assert.equal(status, 400);
    assert.match(body.error.message, /body\.command.* at most 2097152/);
  });

  it('a waited command runs once for one key', async () => {
    const key = randomUUID();
    const body = { command: 'echo x >> once; wc -l < once' };
    const first = await commands.post(body, key);
    const again = await commands.post(body, key);
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual(again.body, first.body);
    assert.equal((await commands.run('cat once')).stdout, 'x\n');
    assert.equal((await commands.post({ command: 'true' }, key)).body.error.code, 'idempotency_key_reused');
    assert.equal((await service.api.request('POST', commands.path, { body })).status, 400);
  });

  it('a waited command waits for a sandbox that is still being made', async () => {
    const { body } = await service.api.post('/v1/sandboxes', {});
    const path = `/v1/sandboxes/${body.sandbox.id}/commands`;
    assert.equal((await service.api.post(path, { command: 'echo ready' })).body.command.stdout, 'ready\n');
    await service.api.delete(`/v1/sandboxes/${body.sandbox.id}`);
  });
});

/** Far longer than each command takes to print its number, even on a busy machine. */
const TIMEOUT_MS = 6000;

// These commands wait instead of computing, and are independent, so they run concurrently.
describe('a command', { concurrency: true }, () => {
  describe('the time of it', () => {
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
      it(`the timeout of a command ends every process of it, also one that ${deed}`, async () => {
        const { status, stdout } = await commands.run(script ?? '', { timeoutMs: TIMEOUT_MS });
        assert.equal(status, 'timed_out');
        const pid = Number(stdout);
        assert.ok(pid > 1, `${stdout}`);
        await eventually(async () => (await commands.run(['test', '-d', `/proc/${pid}`])).exitCode === 1);
      });
    }

    it('a waited command answers when it ends, even if other processes hold its pipes open, which continue', async () => {
      const { status, stdout, durationMs } = await commands.run('sleep 305 & echo $!', { timeoutMs: 20_000 });
      assert.equal(status, 'exited');
      assert.ok((durationMs ?? 0) < 10_000);
      assert.equal((await commands.run(['test', '-d', `/proc/${Number(stdout)}`])).exitCode, 0);
    });
  });

  describe('that is killed', { concurrency: 1 }, () => {
    it('a kill of a command ends its whole tree, and an ended one is returned as it is', async () => {
      const command = await commands.start('(setsid sleep 306 &); echo started; sleep 307');
      await commands.printed(command.id, 'started');
      const killed = (await commands.kill(command.id)).body.command;
      assert.deepEqual([killed.status, killed.exitCode, killed.signal], ['killed', 137, 'SIGKILL']);
      assert.equal((await commands.run('pgrep -fx "sleep 30[67]"')).exitCode, 1);
      const again = await commands.kill(command.id, { signal: 'SIGTERM' });
      assert.deepEqual([again.status, again.body.command], [200, killed]);
    });

    it('a kill of a command sends the signal that is named', async () => {
      const command = await commands.start(
        'trap "echo got USR1; exit 9" USR1; echo ready; while :; do sleep 0.05; done',
      );
      await commands.printed(command.id, 'ready');
      await commands.kill(command.id, { signal: 'SIGUSR1' });
      assert.equal((await commands.get(command.id, '?waitMs=20000')).exitCode, 9);
      assert.equal((await commands.kill(command.id, { signal: 'SIGPARTY' })).body.error.code, 'invalid_request');
    });
  });

  describe('standard input', () => {
    it('standard input is written while the command runs, text or bytes, and ended', async () => {
      const command = await commands.start('while IFS= read -r line; do echo "got $line"; done; echo end', {
        stdinOpen: true,
      });
      const path = `${commands.path}/${command.id}/stdin`;
      assert.equal((await service.api.post(path, { data: 'one\n' })).status, 200);
      await commands.printed(command.id, 'got one');
      await service.api.post(path, { data: Buffer.from('two\n').toString('base64'), encoding: 'base64', close: true });
      await commands.get(command.id, '?waitMs=20000');
      assert.equal((await commands.logs(command.id)).map(({ data }) => data).join(''), 'got one\ngot two\nend\n');
      assert.equal((await service.api.post(path, { data: 'late' })).body.error.code, 'conflict');
    });

    const refused = sameWithEachRuntime('the clock and the bound of the agent');
    it('standard input that is not read is refused in time and costs bounded memory', refused, async () => {
      const command = await commands.start('sleep 300', { stdinOpen: true });
      const path = `${commands.path}/${command.id}/stdin`;
      const data = 'x'.repeat(1_000_000);
      let status = 200;
      for (let count = 0; status === 200 && count < 20; count++)
        status = (await service.api.post(path, { data })).status;
      assert.equal(status, 503);
      await commands.kill(command.id);
    });
  });
});

describe('a command in a terminal', () => {
  it('a command in a terminal has the requested size, is typed to, and is resized while it runs', async () => {
    const terminal = { cols: 101, rows: 31 };
    const command = await commands.start('stty size; read -r; stty size', { terminal, stdinOpen: true });
    await commands.printed(command.id, '31 101');
    const path = `${commands.path}/${command.id}`;
    assert.equal((await service.api.post(`${path}/resize`, { cols: 77, rows: 22 })).status, 200);
    await service.api.post(`${path}/stdin`, { data: '\n' });
    await commands.get(command.id, '?waitMs=20000');
    const text = (await commands.logs(command.id)).map(({ data }) => data).join('');
    assert.match(text, /^31 101\r\n\s*22 77\r\n$/);
    assert.equal((await service.api.post(`${path}/resize`, { cols: 80, rows: 24 })).body.error.code, 'conflict');
  });

  it('a command is refused a size for a command without one, and a size out of range', async () => {
    const command = await commands.start('sleep 300');
    const path = `${commands.path}/${command.id}/resize`;
    assert.equal((await service.api.post(path, { cols: 80, rows: 24 })).body.error.code, 'conflict');
    for (const wrong of [{ cols: -1, rows: 24 }, { cols: 80, rows: 65_536 }, { cols: 1.5, rows: 24 }, { cols: 80 }])
      assert.equal((await service.api.post(path, wrong)).body.error.code, 'invalid_request');
    await commands.kill(command.id);
  });

  it('a command in a terminal has the default size for 0, and the largest one for more, when it starts and when it is resized', async () => {
    const sizes = [
      { cols: 0, rows: 0, is: '24 80' },
      { cols: 0, rows: 40, is: '40 80' },
      { cols: 5000, rows: 24, is: '24 1000' },
      { cols: 65_535, rows: 65_535, is: '1000 1000' },
      { cols: 1, rows: 1, is: '1 1' },
    ];
    for (const { is, ...terminal } of sizes) {
      const command = await commands.start('stty size; read -r; stty size', { terminal, stdinOpen: true });
      await commands.printed(command.id, is);
      const path = `${commands.path}/${command.id}`;
      assert.equal((await service.api.post(`${path}/resize`, { cols: 77, rows: 22 })).status, 200);
      assert.equal((await service.api.post(`${path}/resize`, terminal)).status, 200);
      await service.api.post(`${path}/stdin`, { data: '\n' });
      await commands.get(command.id, '?waitMs=20000');
      const text = (await commands.logs(command.id)).map(({ data }) => data).join('');
      assert.match(text, new RegExp(`^${is}\r\n\\s*${is}\r\n$`));
    }
  });
});

describe('commands that are many at once', () => {
  it('many commands at once answer each with its own output and end', async () => {
    const numbers = Array.from({ length: 40 }, (_, n) => n);
    const stdin = 'x'.repeat(500_000);
    const answers = await Promise.all(
      numbers.map((n) => commands.run(['sh', '-c', `echo ${n}; exit ${n}`], { stdin })),
    );
    assert.deepEqual(
      answers.map(({ status, exitCode, stdout, failureReason }) => [failureReason ?? status, exitCode, stdout]),
      numbers.map((n) => ['exited', n, `${n}\n`]),
    );
  });
});

describe('a command in the background', () => {
  // Of several servers, each learns a moment later what runs through the others.
  const isRunning = async () => (await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox.status === 'running';

  it('a command in the background answers when it has started, makes its sandbox running, and is waited for', async () => {
    const command = await commands.start('until [ -e seen ]; do sleep 0.05; done; echo done');
    assert.deepEqual([command.status, command.background], ['running', true]);
    await eventually(isRunning);
    await commands.run('touch seen');
    const ended = await commands.get(command.id, '?waitMs=20000');
    assert.deepEqual([ended.status, ended.exitCode], ['exited', 0]);
    await eventually(async () => (await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox.status === 'idle');
  });

  it('a command in the background survives a restart of the server with its log, and its end is recorded', async () => {
    const command = await commands.start('until [ -e end ]; do echo line $((++n)); sleep 0.1; done; exit 4');
    await commands.printed(command.id, 'line 2');
    await service.kill('server');
    await service.restart('server');
    await eventually(isRunning, { within: TAKEN_OVER_MS });
    await commands.run('touch end');
    const ended = await commands.get(command.id, '?waitMs=20000');
    assert.deepEqual([ended.status, ended.exitCode], ['exited', 4]);
    const text = (await commands.logs(command.id)).map(({ data }) => data).join('');
    const lines = text.split('\n').length - 1;
    assert.equal(text, Array.from({ length: lines }, (_, n) => `line ${n + 1}\n`).join(''));
  });

  it('a command in the background is listed with the others, and code runs are not', async () => {
    const before = (await commands.list()).map(({ id }) => id);
    const [started, waited] = [await commands.start('true'), await commands.run('true')];
    await service.api.run(sandboxId, '1 + 1\n!true');
    const listed = await commands.list();
    assert.deepEqual(
      listed.map(({ id }) => id),
      [...before, started.id, waited.id],
    );
    assert.deepEqual(
      listed.slice(-2).map(({ background }) => background),
      [true, false],
    );
  });

  it('a command in the background begins with its sandbox, which 100 requests for its name share, and goes on over a pause', async () => {
    const { sandboxes } = new Cloche({ url: service.url, apiKey: service.apiKey });
    const startCommand = { command: ['python3', '-m', 'http.server', '8000'] };
    const askFor = () => sandboxes.getOrCreate('web-app', { startCommand });
    const answers = await Promise.all(Array.from({ length: 100 }, askFor));
    assert.equal(answers.filter(({ created }) => created).length, 1);
    const [id, ...others] = new Set(answers.map(({ sandbox }) => sandbox.id));
    assert.ok(id && others.length === 0);
    const path = `/v1/sandboxes/${id}`;
    const fetched = `import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:8000').status)`;
    const answer = async () => (await service.api.run(id, fetched)).stdout;
    await eventually(async () => (await answer()) === '200\n', { because: 'the web app listens' });
    const begun = (await service.api.get(`${path}/commands`)).body.data;
    assert.deepEqual([begun.length, begun[0].status, begun[0].command], [1, 'running', startCommand.command]);

    await service.api.post(`${path}/pause`, {});
    const { sandbox, created } = await askFor();
    assert.deepEqual([sandbox.id, created], [id, false]);
    assert.ok(sandbox.info.paused, 'the request does not wake it');
    const other = { networkPolicy: { mode: 'deny-all' } } as const;
    const refusal = { code: 'conflict', details: { sandboxId: id, differs: ['networkPolicy'] } };
    await assert.rejects(sandboxes.getOrCreate('web-app', other), refusal);
    assert.equal(await answer(), '200\n');
    assert.deepEqual((await service.api.get(`${path}/commands`)).body.data, begun);

    await sandbox.kill();
    const next = await askFor();
    assert.ok(next.created && next.sandbox.id !== id);
    await next.sandbox.kill();
  });

  it('a command in the background is killed with its sandbox, and its record stays', async () => {
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
