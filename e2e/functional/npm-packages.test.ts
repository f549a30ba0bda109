import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { build, transform } from 'esbuild';
import { execa } from 'execa';
import { releaseVersion } from '../../scripts/release/version.ts';
import { launchChromium } from '../support/chromium.ts';
import { programsOf, stepsOf } from '../support/guide.ts';
import { cleanEnvironment, machineNode, otherRuntimes } from '../support/js-runtimes.ts';
import { sharedService, type TestService } from '../support/service.ts';

const VERSION = releaseVersion();
const NODE = resolve('node_modules/.bin/node');
const [README_PROGRAM = ''] = programsOf(readFileSync('README.md', 'utf8'));
const README_PRINTS = /mean +2\.0.*0\n1\n2$/s;
/** How many times the processor time of `node -e 0` that of `cloche --version` may be. */
const MAX_START_RATIO = 2.5;

let service: TestService;
/** An empty folder that the packed packages were installed in, as a stranger has it. */
let app: string;
let env: Record<string, string>;
before(async () => {
  service = await sharedService();
  const folder = mkdtempSync(join(tmpdir(), 'cloche-npm-'));
  app = join(folder, 'app');
  mkdirSync(app);
  env = { ...cleanEnvironment(), HOME: app, CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey };
  await execa(NODE, ['scripts/pack.ts', '--out', folder]);
  writeFileSync(join(app, 'package.json'), '{"type":"module"}');
  // The packages have no dependencies, so npm needs no registry.
  const install = ['install', '--offline', '--no-audit', '--no-fund'];
  await execa('npm', [...install, `../cloche-sdk-${VERSION}.tgz`, `../cloche-${VERSION}.tgz`], {
    cwd: app,
    env: cleanEnvironment(),
  });
});
after(async () => {
  if (app !== undefined) rmSync(dirname(app), { recursive: true });
  await service?.close();
});

/** Writes a TypeScript program to the folder as JavaScript of Node 20. */
async function written(name: string, program: string): Promise<string> {
  const { code } = await transform(program, { loader: 'ts', target: 'node20.11', format: 'esm' });
  writeFileSync(join(app, name), code);
  return name;
}

/** Runs the installed `cloche` on one of the Nodes. */
function cloche(node: string, args: readonly string[], input = '') {
  const path = [dirname(node), env.PATH].join(delimiter);
  return execa(node, ['node_modules/.bin/cloche', ...args], {
    cwd: app,
    env: { ...env, PATH: path },
    extendEnv: false,
    input,
    reject: false,
  });
}

const NODES = { 'the Node of the machine': machineNode(), 'the Node of this repository': NODE };
for (const [name, node] of Object.entries(NODES)) {
  describe(`on ${name}, the packages for npm`, () => {
    it(`on ${name}, the packages for npm run the first program of the README`, async () => {
      const file = await written('first.js', README_PROGRAM);
      const { stdout } = await execa(node, [file], { cwd: app, env, extendEnv: false });
      assert.match(stdout, README_PRINTS);
    });

    it(`on ${name}, the packages for npm move files and directories of the disk`, async () => {
      const file = await written('disk.js', DISK_PROGRAM);
      const { stdout } = await execa(node, [file], { cwd: app, env, extendEnv: false });
      assert.equal(stdout, 'from the disk\npacked\nsucceeded packed');
    });

    it(`on ${name}, the packages for npm run code, commands, copies and shells from the command line`, async () => {
      const run = await cloche(node, ['run', '-c', 'print("hello from a sandbox")']);
      assert.deepEqual([run.exitCode, run.stdout], [0, 'hello from a sandbox'], run.stderr);
      const { stdout: id } = await cloche(node, ['sandbox', 'create', '--ttl', '5m']);
      await cloche(node, ['exec', id, '--', 'sh', '-c', 'echo copied > file']);
      assert.equal((await cloche(node, ['cp', `${id}:file`, '-'])).stdout, 'copied');
      const shell = await cloche(node, ['shell', id], 'echo "from $((40 + 2))"; exit 7\n');
      assert.equal(shell.exitCode, 7, shell.stderr);
      assert.match(shell.stdout, /from 42/);
      await cloche(node, ['sandbox', 'kill', id]);
    });

    it(`on ${name}, the packages for npm have help for every command, and say where to run those for a host`, async () => {
      const help = await cloche(node, ['--help']);
      for (const name of ['run', 'admin', 'start']) assert.match(help.stdout, new RegExp(`^ {2}${name} `, 'm'));
      for (const args of [['doctor'], ['start'], ['migrate'], ['admin', 'key', 'create', '--scopes', '*']]) {
        const { exitCode, stderr } = await cloche(node, args);
        assert.equal(exitCode, 1);
        assert.match(stderr, new RegExp(`\`cloche ${args[0]}\` is for the machine that runs the service`));
      }
      const { stdout } = await cloche(node, ['config', '--json']);
      assert.deepEqual(
        JSON.parse(stdout).data.map(({ name, value }: Record<string, string>) => [name, value]),
        [
          ['CLOCHE_URL', service.url],
          ['CLOCHE_API_KEY', '(redacted)'],
        ],
      );
    });
  });
}

const DISK_PROGRAM = `
import { writeFileSync, mkdirSync, readFileSync } from 'node:fs';
import { Cloche, fileBytes, packDirectory, saveFile } from '@cloche/sdk/node';
const cloche = new Cloche();
const sandbox = await cloche.sandboxes.create({ ttlMs: 600_000 });
writeFileSync('data.txt', 'from the disk');
await sandbox.files.write('data.txt', fileBytes('data.txt'));
await saveFile('downloads/data.txt', (await sandbox.files.stream('data.txt')).body);
console.log(readFileSync('downloads/data.txt', 'utf8'));
mkdirSync('site', { recursive: true });
writeFileSync('site/page', 'packed');
await using archive = await packDirectory('site');
await sandbox.files.unpack('/workspace/site', archive.bytes);
console.log(await sandbox.files.readText('site/page'));
await sandbox.kill();
const run = await cloche.workspaceRuns.run({ directory: 'site', command: 'cat page' });
console.log(run.info.status, (await run.output()).stdout);
`;

/** The hosts of adapters, which are linked from this repository with all that they import, so that npm needs no registry. */
const HOSTS: Readonly<Record<string, { readonly packages: readonly string[]; readonly prints: RegExp }>> = {
  'ai-sdk-cloche': { packages: ['@ai-sdk/harness', 'zod'], prints: /^42\s*$/ },
  'computesdk-cloche': { packages: ['@computesdk/provider'], prints: /^15\s*$/ },
};

for (const [adapter, { packages, prints }] of Object.entries(HOSTS)) {
  it(`${adapter} is installed beside its host, and does what its README says`, async () => {
    const folder = join(dirname(app), adapter);
    mkdirSync(folder);
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    const hosts = packages.map((name) => resolve('node_modules', name));
    const tarballs = [`../cloche-sdk-${VERSION}.tgz`, `../${adapter}-${VERSION}.tgz`];
    const install = ['install', '--offline', '--no-audit', '--no-fund', ...tarballs, ...hosts];
    await execa('npm', install, { cwd: folder, env: cleanEnvironment() });
    const readme = readFileSync(join(folder, 'node_modules', adapter, 'README.md'), 'utf8');
    const [program = ''] = programsOf(readme);
    const { code } = await transform(program, { loader: 'ts', target: 'node20.11', format: 'esm' });
    writeFileSync(join(folder, 'first.js'), code);
    const { stdout } = await execa(NODE, ['first.js'], { cwd: folder, env, extendEnv: false });
    assert.match(stdout, prints);
    const wrong = `${program}\nconst none: number = sandbox;\n`;
    assert.deepEqual(await problemsOf(folder, { 'first.ts': program, 'wrong.ts': wrong }), [
      `wrong.ts(${wrong.split('\n').length - 1}`,
    ]);
  });
}

/** Returns the places that the compiler refuses in programs of Node that use the installed packages. */
async function problemsOf(folder: string, programs: Readonly<Record<string, string>>): Promise<string[]> {
  for (const [name, program] of Object.entries(programs)) writeFileSync(join(folder, name), program);
  const compilerOptions = {
    target: 'es2022',
    lib: ['es2022', 'dom', 'dom.asynciterable'],
    module: 'nodenext',
    strict: true,
    noEmit: true,
    typeRoots: [resolve('node_modules/@types')],
    types: ['node'],
    // The declarations of hosts are not ours.
    skipLibCheck: true,
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: Object.keys(programs) }));
  const { stdout } = await execa(resolve('node_modules/.bin/tsc'), ['-p', '.', '--pretty', 'false'], {
    cwd: folder,
    reject: false,
  });
  return stdout.split('\n').flatMap((line) => /^(\S+?\.ts\(\d+)\S*: error/.exec(line)?.[1] ?? []);
}

describe('the packages for npm', () => {
  const others = otherRuntimes();
  for (const name of ['bun', 'deno'] as const) {
    it(`the packages for npm run the first program of the README on ${name}`, {
      skip: 'missing' in others && others.missing,
    }, async () => {
      assert.ok('bin' in others);
      const file = await written(`first-${name}.js`, README_PROGRAM);
      const args = name === 'deno' ? ['run', '--allow-all', '--no-prompt', file] : ['run', file];
      const { stdout } = await execa(join(others.bin, name), args, { cwd: app, env, extendEnv: false });
      assert.match(stdout, README_PRINTS);
    });
  }

  it('the packages for npm have types that a stranger’s compiler takes, in Node and with a bundler', async () => {
    const folder = join(app, 'typed');
    mkdirSync(folder);
    writeFileSync(join(folder, 'first.ts'), README_PROGRAM);
    writeFileSync(join(folder, 'disk.ts'), DISK_PROGRAM);
    writeFileSync(join(folder, 'wrong.ts'), WRONG_PROGRAM);
    const shared = {
      target: 'es2022',
      strict: true,
      noEmit: true,
      skipLibCheck: false,
      typeRoots: [resolve('node_modules/@types')],
      types: ['node'],
    };
    for (const how of [{ module: 'nodenext' }, { module: 'esnext', moduleResolution: 'bundler' }]) {
      const config = { compilerOptions: { ...shared, ...how, lib: ['es2022', 'dom', 'dom.asynciterable'] } };
      writeFileSync(
        join(folder, 'tsconfig.json'),
        JSON.stringify({ ...config, files: ['first.ts', 'disk.ts', 'wrong.ts'] }),
      );
      const { stdout } = await execa(resolve('node_modules/.bin/tsc'), ['-p', '.', '--pretty', 'false'], {
        cwd: folder,
        reject: false,
      });
      const problems = stdout.split('\n').filter((line) => /^\S.*error TS/.test(line));
      // Only the lines that are wrong on purpose, each marked by its number.
      assert.deepEqual(
        problems.map((line) => /^(\S+?\.ts\(\d+)/.exec(line)?.[1]),
        ['wrong.ts(3', 'wrong.ts(5'],
        stdout,
      );
    }
  });

  it('run in a page, whose bundle has nothing of Node', async () => {
    const { outputFiles } = await build({
      stdin: { contents: PAGE_PROGRAM, resolveDir: app, loader: 'ts' },
      bundle: true,
      format: 'esm',
      platform: 'browser',
      target: 'es2022',
      write: false,
      logLevel: 'error',
    });
    const script = outputFiles[0]?.text ?? '';
    assert.doesNotMatch(script, /["']node:|\brequire\(/);
    const browser = await launchChromium(service.url);
    try {
      const page = await browser.newPage();
      // On the service's own address, so that the page needs no permission of it to send requests.
      await page.route('**/first-page', (route) =>
        route.fulfill({ contentType: 'text/html', body: '<title>page</title>' }),
      );
      await page.goto(new URL('/first-page', service.url).href);
      await page.evaluate(`globalThis.options = ${JSON.stringify({ url: service.url, apiKey: service.apiKey })}`);
      await page.addScriptTag({ content: script, type: 'module' });
      await page.waitForFunction('globalThis.seen');
      assert.deepEqual(await page.evaluate('globalThis.seen'), [
        '42\n',
        '0\n1\n',
        'sandbox_ttl_exceeded',
        'invalid_options',
      ]);
    } finally {
      await browser.close();
    }
  });

  it('the packages for npm are what the first run of the README installs and uses, line by line', async () => {
    const checkout = join(dirname(app), 'checkout');
    mkdirSync(checkout);
    symlinkSync(resolve('node_modules'), join(checkout, 'node_modules'));
    const [, firstRun = ''] = readFileSync('README.md', 'utf8').split(/^## (?:A first run|The parts)$/m);
    const lines = stepsOf(firstRun).map(({ script }) => script.replaceAll('localhost:4680', new URL(service.url).host));
    const end = `curl -s -X DELETE ${service.url}/v1/sandboxes/$ID -H "Authorization: Bearer $CLOCHE_API_KEY" > /dev/null`;
    const script = ['set -e', ...lines, end].join('\n');
    assert.equal(JSON.parse(readFileSync('package.json', 'utf8')).scripts.pack, 'node scripts/pack.ts');
    const prepared = [
      // It has run already, for all tests of this file.
      ['npm run pack\n', 'mkdir dist && cp ../*.tgz dist\n'],
      // The key that the first `npm start` would have saved.
      ['npx cloche run -c', 'CLOCHE_API_KEY=$(npx cloche admin key create --scopes "*") npx cloche run -c'],
    ].reduce((rest, [line = '', instead = '']) => {
      assert.equal(rest.split(`\n${line}`).length, 2, line);
      return rest.replace(line, instead);
    }, script);
    const { stdout } = await execa('bash', ['-c', prepared], {
      cwd: checkout,
      env: {
        ...env,
        HOME: dirname(app),
        CLOCHE_API_KEY: '',
        CLOCHE_RUN_DIR: service.runDir,
        npm_config_offline: 'true',
      },
      extendEnv: false,
    });
    // Of the command line, curl and TypeScript, in this order.
    assert.match(stdout, /^hello from a sandbox\n.*"value":"2".*mean +2\.0.*^0\n1\n2$/ms);
  });

  it('the packages for npm start the command line in little more processor time than Node itself', async () => {
    const { version } = JSON.parse(readFileSync(join(app, 'node_modules/cloche/package.json'), 'utf8'));
    assert.equal(version, VERSION);
    assert.equal((await cloche(NODE, ['--version'])).stdout, VERSION);
    const own = await leastProcessorSeconds(['-e', '0']);
    const started = await leastProcessorSeconds(['node_modules/.bin/cloche', '--version']);
    assert.ok(started <= MAX_START_RATIO * own, `${started} s, of which ${own} s are Node's`);
  });
});

const WRONG_PROGRAM = `import { Cloche, isClocheError } from '@cloche/sdk';
const cloche = new Cloche();
await cloche.sandboxes.create({ ttlMs: 'long' });
const error: unknown = undefined;
if (isClocheError(error, 'sandbox_ttl_exceeded')) console.log(error.details?.maxTtlMs, error.details?.colour);
`;

const PAGE_PROGRAM = `
import { Cloche, isClocheError } from '@cloche/sdk';
const codeOf = (promise: Promise<unknown>) => promise.then(() => 'none', (error) => (isClocheError(error) ? error.code : String(error)));
const cloche = new Cloche((globalThis as any).options);
const sandbox = await cloche.sandboxes.create({ ttlMs: 600_000 });
const run = await sandbox.run('print(6 * 7)');
let streamed = '';
for await (const event of sandbox.stream('for i in range(2): print(i)')) if (event.type === 'stdout') streamed += event.data;
await sandbox.kill();
const refused = await codeOf(cloche.sandboxes.create({ ttlMs: 7_200_000 }));
const packed = await codeOf(cloche.workspaceRuns.run({ directory: '.', command: 'true' }));
(globalThis as any).seen = [run.stdout, streamed, refused, packed];
`;

/** Runs Node five times and returns the least processor time, which other load of the machine changes little. */
async function leastProcessorSeconds(args: readonly string[]): Promise<number> {
  const node = machineNode();
  const command = `TIMEFORMAT='%3U %3S'; for i in 1 2 3 4 5; do time "$0" "$@" > /dev/null; done`;
  const { stderr } = await execa('bash', ['-c', command, node, ...args], { cwd: app, env, extendEnv: false });
  const times = stderr
    .trim()
    .split('\n')
    .map((line) => line.split(' ').reduce((sum, part) => sum + Number(part), 0));
  assert.equal(times.length, 5, stderr);
  return Math.min(...times);
}
