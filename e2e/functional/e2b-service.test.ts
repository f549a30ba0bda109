/** E2B as it is: what its service does with the same input, which its clients rely on. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Sandbox as CodeSandbox } from '@e2b/code-interpreter';
import * as e2b from 'e2b';
import { type E2bOptions, e2bOptions, LASTING } from '../support/e2b-options.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let options: E2bOptions;
let sandbox: CodeSandbox;
before(async () => {
  service = await sharedService();
  options = e2bOptions(service);
  sandbox = await CodeSandbox.create({ ...options, ...LASTING });
});
after(async () => {
  await sandbox?.kill();
  await service?.close();
});

const shell = async (line: string) => (await sandbox.commands.run(line, { user: 'root' })).stdout.trim();
const tokenOf = (box: e2b.Sandbox) => (box as unknown as { envdAccessToken: string }).envdAccessToken;

describe('files are worked on as root, and what is made belongs to the user:', () => {
  before(() => shell('mkdir /closed && chmod 700 /closed && echo old > /closed/old && echo x > /root/mine'));
  const cases: Readonly<Record<string, readonly [act: () => Promise<unknown>, look: string, found: string]>> = {
    'a file in a new folder of the root': [
      () => sandbox.files.write('/app/x', '1'),
      'stat -c %U:%G /app /app/x',
      'user:user\nuser:user',
    ],
    'a folder of the root': [
      () => sandbox.files.makeDir('/code/a/b'),
      'stat -c %U /code /code/a /code/a/b',
      'user\nuser\nuser',
    ],
    'a file in a folder of root': [() => sandbox.files.write('/root/new', '1'), 'stat -c %U /root/new', 'user'],
    'a file that was root’s': [
      () => sandbox.files.write('/closed/old', 'new'),
      'stat -c %U /closed/old; cat /closed/old',
      'user\nnew',
    ],
    'many files': [
      () =>
        sandbox.files.write([
          { path: '/m/1', data: 'a' },
          { path: '/m/n/2', data: 'b' },
        ]),
      'stat -c %U /m/1 /m/n /m/n/2',
      'user\nuser\nuser',
    ],
    'a file of the user root': [
      () => sandbox.files.write('/of-root', '1', { user: 'root' }),
      'stat -c %U /of-root',
      'root',
    ],
    'a file that is renamed keeps its owner': [
      () => sandbox.files.rename('/root/mine', '/moved/here'),
      'stat -c %U /moved /moved/here',
      'user\nroot',
    ],
  };
  for (const [name, [act, look, found]] of Object.entries(cases)) {
    it(name, async () => {
      await act();
      assert.equal(await shell(look), found);
    });
  }

  it('files are worked on as root, and what is made belongs to the user: reads, lists, finds and removes what only root may see', async () => {
    await shell('echo secret > /closed/seen');
    assert.equal(await sandbox.files.exists('/closed/seen'), true);
    assert.equal(await sandbox.files.exists('/closed/unseen'), false);
    assert.equal(await sandbox.files.read('/closed/seen'), 'secret\n');
    assert.ok((await sandbox.files.list('/closed')).some(({ name }) => name === 'seen'));
    await sandbox.files.remove('/closed/seen');
    assert.equal(await shell('ls /closed/seen 2>&1 | wc -l; test -e /closed/seen || echo gone'), '1\ngone');
  });
});

describe('a picture is a result where code saves it to a path', () => {
  const image = 'from PIL import Image; Image.new("RGB", (2, 2))';
  const figure = 'import matplotlib.pyplot as plt; plt.plot([1]); plt.';
  const cases: Readonly<Record<string, readonly [code: string, shown: number]>> = {
    'by Pillow': [`${image}.save("/tmp/a.png")`, 1],
    'by Pillow, in a format that is named': [`${image}.save("/tmp/a", "PNG")`, 1],
    'by Pillow, twice': [`${image}.save("/tmp/a.jpg"); ${image}.save("/tmp/a.gif")`, 2],
    'by Matplotlib': [`${figure}savefig("/tmp/b.png"); plt.close()`, 1],
    'by Matplotlib, which also shows it': [`${figure}savefig("/tmp/b.png"); plt.show()`, 2],
    'but not in memory': [`import io; ${image}.save(io.BytesIO(), "PNG")`, 0],
    'but not by an object of a path': [`import pathlib; ${image}.save(pathlib.Path("/tmp/a.png"))`, 0],
    'but not as SVG': [`${figure}savefig("/tmp/b.svg"); plt.close()`, 0],
  };
  const pictures = (code: string, more = {}) =>
    sandbox.runCode(code, more).then(({ results }) => results.filter(({ png }) => png).length);
  for (const [name, [code, shown]] of Object.entries(cases)) {
    it(name, async () => assert.equal(await pictures(code), shown));
  }

  it('a picture is a result where code saves it to a path in a context of its own', async () => {
    const context = await sandbox.createCodeContext({ language: 'python' });
    assert.equal(await pictures(`${image}.save("/tmp/c.png")`, { context }), 1);
  });
});

describe('removing what is not there is no error:', () => {
  for (const path of ['gone', '/tmp/gone', '/no/such/folder/gone', '~/gone', '/closed/none', '/tmp/gone/']) {
    it(path, () => sandbox.files.remove(path));
  }
});

describe('the information of a link is of what it leads to:', () => {
  before(() =>
    sandbox.commands.run(
      'mkdir -p links/deep /tmp/far && cd links && echo x > file && ln -s file relative && ln -s $PWD/file absolute' +
        ' && ln -s relative chain && ln -s deep folder && ln -s nothing dangling && ln -s loop loop && ln -s /tmp/far far' +
        ' && ln -s ../up far/up && echo y > /tmp/up && ln -s /root/closed closed',
    ),
  );
  const home = '/home/user/links';
  const cases: Readonly<Record<string, readonly [type: string, target: string]>> = {
    relative: ['file', `${home}/file`],
    absolute: ['file', `${home}/file`],
    chain: ['file', `${home}/file`],
    folder: ['dir', `${home}/deep`],
    'far/up': ['file', '/tmp/up'],
    dangling: ['symlink', 'nothing'],
    loop: ['symlink', 'loop'],
    closed: ['symlink', '/root/closed'],
  };
  for (const [name, [type, target]] of Object.entries(cases)) {
    it(name, async () => {
      const info = await sandbox.files.getInfo(`links/${name}`);
      assert.deepEqual([info.type, info.symlinkTarget], [type, target]);
    });
  }
});

describe('metadata of files', () => {
  const infoOf = async (path: string) => (await sandbox.files.getInfo(path)).metadata;
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`k${index}`, `v${index}`]));
  const cases: Readonly<Record<string, Record<string, string>>> = {
    'one value': { author: 'mish' },
    'an empty value': { author: '' },
    'punctuation, commas and quotes': { 'a-b.c_d': 'one, two; "three" = {4}' },
    'a value with blanks inside': { note: 'a  b   c' },
    'twenty values': many,
    'a long value': { long: 'x'.repeat(3000) },
  };
  for (const [name, metadata] of Object.entries(cases)) {
    for (const useOctetStream of [true, false]) {
      it(`${name}, ${useOctetStream ? 'as bytes' : 'in a form'}`, async () => {
        const written = await sandbox.files.write('tagged', 'x', { metadata, useOctetStream });
        assert.deepEqual(written.metadata, metadata);
        assert.deepEqual(await infoOf('tagged'), metadata);
        const listed = (await sandbox.files.list('.')).find((entry) => entry.name === 'tagged');
        assert.deepEqual(listed?.metadata, metadata);
        assert.deepEqual((await sandbox.files.rename('tagged', 'renamed')).metadata, metadata);
        await sandbox.files.write('renamed', 'y');
        assert.equal(await infoOf('renamed'), undefined);
      });
    }
  }

  it('metadata of files is of each file of an upload, and is what programs set in the sandbox', async () => {
    const metadata = { source: 'suite' };
    await sandbox.files.writeFiles(
      [
        { path: 'one', data: '1' },
        { path: 'two', data: '2' },
      ],
      { metadata },
    );
    assert.deepEqual([await infoOf('one'), await infoOf('two')], [metadata, metadata]);
    await sandbox.commands.run(
      `python3 -c "import os; os.setxattr('one', 'user.e2b.by', b'program'); os.setxattr('one', 'user.other', b'x')"`,
    );
    assert.deepEqual(await infoOf('one'), { source: 'suite', by: 'program' });
    await shell(`python3 -c "import os; os.setxattr('/home/user/two', 'user.e2b.source', b'\\xff')"`);
    assert.deepEqual(Object.keys((await infoOf('two')) ?? {}), ['source']);
  });

  it('metadata of files is refused where it is too large or not printable', async () => {
    const send = (headers: Record<string, string>) =>
      fetch(`${options.sandboxUrl}/files?path=/tmp/refused`, {
        method: 'POST',
        headers: {
          'e2b-sandbox-id': sandbox.sandboxId,
          'x-access-token': tokenOf(sandbox),
          'content-type': 'application/octet-stream',
          ...headers,
        },
        body: 'x',
      });
    assert.equal((await send({ 'x-metadata-a': 'é' })).status, 400);
    assert.equal((await send({ 'x-metadata-a': 'x'.repeat(4097) })).status, 400);
    assert.equal((await send({ [`x-metadata-${'n'.repeat(247)}`]: 'x' })).status, 400);
    assert.equal((await send({ 'x-metadata-a': 'x' })).status, 200);
  });
});

describe('signed URLs', () => {
  const bytes = { 'content-type': 'application/octet-stream' };
  /** The same URL at the address of sandboxes. */
  const atBox = (url: string) => url.replace('/files?', '/e2b-box/files?');

  it('work at the address of sandboxes with the id of their own sandbox', async () => {
    const named = { 'e2b-sandbox-id': sandbox.sandboxId };
    const up = atBox(await sandbox.uploadUrl('/tmp/at-box'));
    assert.equal((await fetch(up, { method: 'POST', body: 'x', headers: { ...bytes, ...named } })).status, 200);
    const down = atBox(await sandbox.downloadUrl('/tmp/at-box'));
    assert.equal(await (await fetch(down, { headers: named })).text(), 'x');
    const other = await e2b.Sandbox.create({ ...options, ...LASTING });
    assert.equal((await fetch(down, { headers: { 'e2b-sandbox-id': other.sandboxId } })).status, 401);
    await other.kill();
    assert.equal((await fetch(down.replace('signature=v1_', 'signature=v1_A'))).status, 401);
    assert.equal((await fetch(up, { headers: named })).status, 401);
  });

  it('signed URLs are answered in E2B’s words when their time is over', async () => {
    const late = { useSignatureExpiration: -10 };
    const form = new FormData();
    form.append('file', 'without a file name');
    for (const [url, request] of [
      [await sandbox.downloadUrl('/tmp/at-box', late), {}],
      [await sandbox.uploadUrl('/tmp/at-box', late), { method: 'POST', body: form }],
      [atBox(await sandbox.downloadUrl('/tmp/at-box', late)), {}],
    ] as const) {
      const answer = await fetch(url, request);
      assert.deepEqual(
        [answer.status, await answer.json()],
        [401, { code: 401, message: 'signature is already expired' }],
      );
    }
  });

  it('store a form without a file name at the signed path, and refuse it with a wrong signature', async () => {
    const form = () => {
      const made = new FormData();
      made.append('file', 'unnamed');
      return made;
    };
    const url = await sandbox.uploadUrl('/tmp/unnamed');
    assert.equal((await fetch(url, { method: 'POST', body: form() })).status, 200);
    assert.equal(await sandbox.files.read('/tmp/unnamed'), 'unnamed');
    const wrong = url.replace('signature=v1_', 'signature=v1_A');
    assert.equal((await fetch(wrong, { method: 'POST', body: form() })).status, 401);
  });
});

describe('contexts', () => {
  it('contexts of Python and JavaScript are there from the beginning, and run by their ids', async () => {
    const fresh = await CodeSandbox.create({ ...options, ...LASTING });
    const listed = await fresh.listCodeContexts();
    assert.deepEqual(
      listed.map(({ language, cwd }) => `${language} ${cwd}`),
      ['python /home/user', 'javascript /home/user'],
    );
    for (const context of listed) assert.equal((await fresh.runCode('6 * 7', { context })).text, '42');
    const after = await fresh.listCodeContexts();
    assert.deepEqual(after.map(({ language }) => language).sort(), ['javascript', 'python']);
    await fresh.kill();
  });

  const folders: Readonly<Record<string, readonly [given: string, entered: string]>> = {
    'a folder outside of the workspace': ['/tmp', '/tmp'],
    'a folder that only root may enter': ['/root', '/home/user'],
    'a folder of the home': ['/home/user', '/home/user'],
    'a relative folder': ['.', '/home/user'],
    'the workspace': ['/workspace', '/workspace'],
    'a folder with a blank and a quote': ["/tmp/it's one", "/tmp/it's one"],
  };
  for (const [name, [given, entered]] of Object.entries(folders)) {
    for (const language of ['python', 'javascript'] as const) {
      it(`begin in ${name}, in ${language}, and again after a restart`, async () => {
        await sandbox.files.makeDir("/tmp/it's one");
        const context = await sandbox.createCodeContext({ language, cwd: given });
        const shown = given.startsWith('/') ? given : `/home/user/${given}`;
        assert.deepEqual([context.language, context.cwd], [language, shown]);
        const where = language === 'python' ? 'import os; print(os.getcwd())' : 'console.log(process.cwd())';
        const run = async () => (await sandbox.runCode(where, { context })).logs.stdout.join('').trim();
        assert.equal(await run(), entered);
        const listed = (await sandbox.listCodeContexts()).find(({ id }) => id === context.id);
        assert.deepEqual([listed?.language, listed?.cwd], [language, shown]);
        await sandbox.restartCodeContext(context);
        assert.equal(await run(), entered);
        await sandbox.removeCodeContext(context);
      });
    }
  }

  it('contexts of E2B are refused in a folder that is not there', async () => {
    await assert.rejects(sandbox.createCodeContext({ cwd: '/no/such/folder' }), /400/);
    await assert.rejects(sandbox.createCodeContext({ cwd: '/etc/hostname' }), /400/);
  });
});

describe('a run', () => {
  it('a run that prints nothing ends at the client’s own time limit, and the context goes on', async () => {
    for (const code of [
      'import time; time.sleep(300)',
      'while True: pass',
      'input_never = [__import__("time").sleep(9) for _ in range(30)]',
    ]) {
      const began = Date.now();
      await assert.rejects(sandbox.runCode(code, { timeoutMs: 1500, requestTimeoutMs: 120_000 }), e2b.TimeoutError);
      assert.ok(Date.now() - began < 20_000, 'the client does not wait for the head');
    }
    assert.equal((await sandbox.runCode('1 + 1', { requestTimeoutMs: 120_000 })).text, '2');
  });

  it('a run is refused with a status before it begins', async () => {
    const context = { id: `cctx_${'0'.repeat(20)}`, language: 'python', cwd: '/' };
    await assert.rejects(sandbox.runCode('1', { context }), e2b.NotFoundError);
    await assert.rejects(sandbox.runCode('1', { language: 'r' }), /400/);
    await assert.rejects(sandbox.runCode('1', { envs: { 'a=b': 'x' } }), /400/);
  });

  const RUNS: Readonly<Record<string, (box: CodeSandbox) => Promise<unknown>>> = {
    'of silent code': (box) => box.runCode('import time; time.sleep(300)', { timeoutMs: 200_000 }),
    'of code that prints': (box) =>
      box.runCode('import time\nwhile True: print(1); time.sleep(.2)', { timeoutMs: 200_000 }),
    'of JavaScript': (box) =>
      box.runCode('await new Promise(() => setInterval(() => {}, 1000))', { language: 'js', timeoutMs: 200_000 }),
    'of a command': async (box) => box.commands.run('sleep 300', { timeoutMs: 200_000 }),
    'of a command in the background': async (box) =>
      (await box.commands.run('sleep 300', { background: true, timeoutMs: 0 })).wait(),
    'of a terminal': async (box) =>
      (await box.pty.create({ cols: 80, rows: 24, onData: () => undefined, timeoutMs: 0 })).wait(),
  };
  for (const [name, run] of Object.entries(RUNS)) {
    it(`${name} rejects when its sandbox is killed, and says so`, async () => {
      const box = await CodeSandbox.create({ ...options, ...LASTING });
      const running = run(box).then(
        () => assert.fail('it resolved'),
        (error: Error) => error,
      );
      await new Promise((resolve) => setTimeout(resolve, 2000));
      await box.kill();
      const error = await running;
      // The names and the words differ between versions of the clients.
      assert.ok(error instanceof e2b.TimeoutError || error instanceof e2b.SandboxNotFoundError, String(error));
      assert.match(error.message, /sandbox was killed|not running anymore/);
    });
  }

  it('a run of bash is a command in the home of the user', async () => {
    const run = (code: string, more = {}) => sandbox.runCode(code, { language: 'bash', ...more });
    assert.deepEqual((await run('pwd; echo bad >&2')).logs, { stdout: ['/home/user\n'], stderr: ['bad\n'] });
    assert.equal((await run('echo $FOO', { envs: { FOO: 'bar' } })).logs.stdout.join(''), 'bar\n');
    assert.equal((await run('echo $FOO-none')).logs.stdout.join(''), '-none\n');
    assert.equal((await run('whoami')).logs.stdout.join(''), 'user\n');
    assert.equal((await run('exit 3')).error?.value, '3');
    assert.equal((await run('kill -9 $$')).error?.value, '137');
    assert.deepEqual((await run('')).logs, { stdout: [], stderr: [] });
  });
});

describe('the count of runs', () => {
  it('the count of runs is that of the client’s own, in the default context, in another one and with variables', async () => {
    const context = await sandbox.createCodeContext();
    const counts: unknown[] = [];
    for (const options of [{}, { envs: { A: '1' } }, {}, { envs: { A: '2' } }])
      counts.push((await sandbox.runCode('x = 1', { context, ...options })).executionCount);
    const fresh = await CodeSandbox.create({ ...options, ...LASTING });
    for (const code of ['!pwd', 'x']) counts.push((await fresh.runCode(code)).executionCount);
    await fresh.kill();
    assert.deepEqual(counts, [1, 2, 3, 4, 1, 2]);
  });
});

describe('a watch', () => {
  const EVENTS: Readonly<Record<string, readonly [act: () => Promise<unknown>, expected: readonly string[]]>> = {
    'a new file with content is created and written': [
      () => sandbox.files.write('/tmp/w/new', 'x'),
      ['create new', 'write new'],
    ],
    'an empty file is created': [() => sandbox.files.write('/tmp/w/empty', ''), ['create empty']],
    'a file that is changed is written': [() => sandbox.files.write('/tmp/w/old', 'changed'), ['write old']],
    'a file in a new folder': [
      async () => {
        await sandbox.files.makeDir('/tmp/w/folder');
        await sandbox.files.write('/tmp/w/folder/in', 'x');
      },
      ['create folder', 'create folder/in', 'write folder/in'],
    ],
    'a program that writes': [
      () => sandbox.commands.run('echo x > /tmp/w/by-program'),
      ['create by-program', 'write by-program'],
    ],
    'a file that is removed': [() => sandbox.files.remove('/tmp/w/old'), ['remove old']],
    'a file that is renamed': [() => sandbox.files.rename('/tmp/w/old', '/tmp/w/new'), ['rename old', 'create new']],
    permissions: [() => shell('chmod 600 /tmp/w/old'), ['chmod old']],
  };
  for (const [name, [act, expected]] of Object.entries(EVENTS)) {
    it(`tells of ${name}, with the entry if it is asked for`, async () => {
      await shell('rm -rf /tmp/w');
      await sandbox.files.makeDir('/tmp/w');
      await sandbox.files.write('/tmp/w/old', 'old');
      const seen: string[] = [];
      const all = Promise.withResolvers<void>();
      const note = ({ type, name: changed, entry }: e2b.FilesystemEvent) => {
        seen.push(`${type} ${changed}`);
        if (type !== 'remove' && type !== 'rename') assert.equal(entry?.path, `/tmp/w/${changed}`);
        if (expected.every((each) => seen.includes(each))) all.resolve();
      };
      const options = { recursive: true, includeEntry: true, allowNetworkMounts: true };
      const watch = await sandbox.files.watchDir('/tmp/w', note, options);
      await act();
      await all.promise;
      await watch.stop();
      assert.deepEqual(seen.filter((each) => expected.includes(each)).slice(0, expected.length), expected);
    });
  }
});

describe('sudo', () => {
  /** Code or a line of the user, and what it prints. */
  const CALLS: readonly [run: () => Promise<string>, printed: string][] = [
    [() => line('sudo id -u; sudo -u nobody id -un; A=1 sudo sh -c "echo [$A]"'), '0\nnobody\n[]'],
    [
      () => line('echo x | sudo tee /etc/of-root >/dev/null; stat -c %U /etc/of-root; sudo sh -c "exit 3"; echo $?'),
      'root\n3',
    ],
    [() => line('sudo -i pwd; sudo grep -c NoNewPrivs:.1 /proc/self/status'), '/root\n1'],
    [() => line('sudo -u nobody sudo id 2>&1 || true'), 'sudo: no answer: Permission denied'],
    [() => code('import subprocess; print(subprocess.check_output(["sudo", "whoami"], text=True))'), 'root'],
    [() => code('!sudo whoami'), 'root'],
    [() => code('console.log(String(require("child_process").execSync("sudo whoami")))', 'javascript'), 'root'],
  ];
  const line = async (text: string) => (await sandbox.commands.run(text)).stdout.trim();
  const code = async (text: string, language = 'python') =>
    (await sandbox.runCode(text, { language })).logs.stdout.join('').trim();
  for (const [index, [run, printed]] of CALLS.entries()) {
    it(`sudo is that of E2B: ${index}`, async () => assert.equal(await run(), printed));
  }

  it('says in a sandbox of /v1 why there is none', async () => {
    const { body } = await service.api.post('/v1/sandboxes', { ttlMs: 60_000 });
    const path = `/v1/sandboxes/${body.sandbox.id}`;
    const { body: ran } = await service.api.post(`${path}/commands`, { command: 'sudo id' });
    assert.equal(ran.command.exitCode, 1, JSON.stringify(ran));
    assert.match(ran.command.stderr, /^sudo: only sandboxes that E2B's clients have created have sudo/);
    await service.api.delete(path);
  });
});
