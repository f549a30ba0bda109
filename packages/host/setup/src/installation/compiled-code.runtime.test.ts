import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { ensureServiceAccounts, type ServiceAccounts } from '../host/service-account.ts';
import { ensureCompiledCode } from './compiled-code.ts';
import { codeAt, PROGRAMS } from './parts.ts';

const run = promisify(execFile);
const STOP = 'data:text/javascript,process.exit(0)';

/** Packages that a server imports once it knows its settings. */
const PROTOCOLS = ['e2b', 'jupyter', 'mcp'];

describe('the compiled code of the parts', () => {
  const cacheDir = mkdtempSync(join(tmpdir(), 'cloche-compiled-'));
  const codeDir = join(cacheDir, 'code');
  let accounts: ServiceAccounts;
  let folder = '';
  before(async () => {
    await run('chmod', ['0755', cacheDir]);
    mkdirSync(codeDir);
    accounts = await ensureServiceAccounts('/dev/null');
    folder = (await ensureCompiledCode(cacheDir, codeDir, accounts)) ?? '';
  });
  after(() => rmSync(cacheDir, { recursive: true }));

  /** Loads a part's modules under its user, and returns what Node says of its cache. */
  async function loaded(part: 'server' | 'egress'): Promise<string> {
    const later = part === 'server' ? PROTOCOLS : [];
    const imported = [STOP, `file://${codeDir}/${PROGRAMS[part]}`, ...later.map((name) => `@cloche/${name}`)];
    const script = imported.map((module) => `import '${module}';`).join(' ');
    const { uid, gid } = accounts[part];
    const asPart = ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'];
    const command = [...asPart, process.execPath, '--input-type=module', '--eval', script];
    const [file = '', ...args] = codeAt(codeDir, command);
    const env = { PATH: process.env.PATH, NODE_COMPILE_CACHE: join(folder, part), NODE_DEBUG_NATIVE: 'COMPILE_CACHE' };
    const { stderr } = await run(file, args, { env, maxBuffer: 2 ** 26 });
    return stderr;
  }

  it('the compiled code of the parts is what server and egress load, whose users cannot write it', async () => {
    for (const part of ['server', 'egress'] as const) {
      const said = await loaded(part);
      const accepted = said.match(/ was accepted/g)?.length ?? 0;
      assert.ok(accepted > 100, said.slice(0, 2000));
      for (const name of part === 'server' ? PROTOCOLS : [])
        assert.match(said, new RegExp(`packages/gateways/${name}/src/\\S+ was accepted`));
      const files = globSync(join(folder, part, '**'), { withFileTypes: true }).map((entry) =>
        statSync(join(entry.parentPath, entry.name)),
      );
      assert.deepEqual([...new Set(files.map(({ uid, mode }) => `${uid} ${mode & 0o022}`))], ['0 0']);
    }
  });

  it('the compiled code of the parts is made once, and replaces what an interrupted run has left', async () => {
    const made = statSync(folder).ino;
    assert.equal(await ensureCompiledCode(cacheDir, codeDir, accounts), folder);
    assert.equal(statSync(folder).ino, made);
    const parent = join(cacheDir, 'compiled');
    mkdirSync(join(parent, '.building-left'));
    rmSync(join(folder, 'made-from.json'));
    assert.equal(await ensureCompiledCode(cacheDir, codeDir, accounts), folder);
    assert.ok(existsSync(join(folder, 'made-from.json')));
    assert.equal(globSync(join(parent, '.*')).length, 0);
  });

  it('the compiled code of the parts is done without where it cannot be made', async () => {
    assert.equal(await ensureCompiledCode('/dev/null', codeDir, accounts), undefined);
  });
});
