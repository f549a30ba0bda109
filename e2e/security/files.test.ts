/**
 * The API reads and writes files for clients through a process inside the sandbox. Whatever links code creates, a path
 * stays in the sandbox: the file at the same path on the host has different content, which is never returned.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Cloche } from '@cloche/sdk';
import { sharedService, type TestService } from '../support/service.ts';

const SECRET = `of the host ${randomBytes(8).toString('hex')}`;

let service: TestService;
let sandbox: Awaited<ReturnType<Cloche['sandboxes']['get']>>;
/** Folder on the host; the sandbox has a different one at the same path. */
let folder: string;
let secret: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-files-secret-'));
  chmodSync(folder, 0o777);
  secret = join(folder, 'secret');
  writeFileSync(secret, SECRET, { mode: 0o666 });
  service = await sharedService();
  const { id } = await service.api.readySandbox();
  sandbox = await new Cloche({ url: service.url, apiKey: service.apiKey }).sandboxes.get(id);
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service?.close();
});

const shell = (line: string) => sandbox.run(`!${line}`);
const outcome = async (act: () => Promise<unknown>): Promise<string> => {
  try {
    return String(await act());
  } catch (error) {
    return `refused: ${(error as { code?: string }).code}`;
  }
};

/** Paths that could lead to the host's file. */
const ways = () => [
  secret,
  `../../../../../..${secret}`,
  `/proc/1/root${secret}`,
  `/proc/self/root${secret}`,
  `/proc/self/cwd/../../..${secret}`,
  `/proc/thread-self/root${secret}`,
  `file://${secret.replace('/tmp', '/%74mp')}`,
  'link-absolute',
  'link-relative',
  'link-proc',
  'link-folder/secret',
  'link-chain/secret',
];

async function layLinks(): Promise<void> {
  await shell(
    `ln -sfn ${secret} link-absolute; ln -sfn ../../..${secret} link-relative; ln -sfn /proc/1/root${secret} link-proc; ` +
      `ln -sfn ${folder} link-folder; ln -sfn link-folder link-chain`,
  );
}

describe('a path that code has prepared', () => {
  it('a path that code has prepared reads nothing of the host, where the host itself reads its file', async () => {
    await layLinks();
    const read = (path: string, user: 'user' | 'root') => outcome(() => sandbox.files.readText(path, { user }));
    for (const path of ways()) assert.equal(await read(path, 'root'), 'refused: not_found', path);
    for (const path of ways()) assert.match(await read(path, 'user'), /^refused: (not_found|permission_denied)$/, path);
    await shell(`mkdir -p ${folder} && echo -n inside > ${secret}`);
    for (const path of ways()) assert.equal(await read(path, 'root'), 'inside', path);
    // The user cannot inspect root's processes.
    for (const path of ways()) assert.match(await read(path, 'user'), /^(inside|refused: permission_denied)$/, path);
    for (const path of ways())
      assert.doesNotMatch(
        await outcome(async () => JSON.stringify(await sandbox.files.list(`${path}/..`))),
        /host/,
        path,
      );
    // The control: a process outside of the sandbox reads the host's content at the same path.
    assert.equal(readFileSync(secret, 'utf8'), SECRET);
  });

  it('a path that code has prepared writes, moves and deletes nothing of the host', async () => {
    await layLinks();
    const moved = () => `moved-${randomBytes(4).toString('hex')}`;
    for (const user of ['user', 'root'] as const) {
      for (const path of ways()) await outcome(() => sandbox.files.write(path, 'overwritten', { user }));
      for (const path of ways()) await outcome(() => sandbox.files.move(path, moved(), { user }));
      for (const path of ways()) await outcome(() => sandbox.files.remove(path, { recursive: true, user }));
      await outcome(() => sandbox.files.remove(folder, { recursive: true, user }));
      await layLinks();
    }
    assert.equal(readFileSync(secret, 'utf8'), SECRET);
  });

  it('a path that code has prepared leads nowhere else while it changes', async () => {
    await shell(`mkdir -p ${folder} real && echo -n inside > ${secret} && echo -n inside > real/secret`);
    await sandbox.run(`
import os, threading
def swap():
    while not os.path.exists("/workspace/stop"):
        for target in ["real", "${folder}", "/proc/1/root${folder}", "/proc/self/root${folder}"]:
            os.symlink(target, "/workspace/next")
            os.rename("/workspace/next", "/workspace/swapped")
threading.Thread(target=swap, daemon=True).start()`);
    const read = new Set<string>();
    for (let attempt = 0; attempt < 300; attempt += 1) {
      const user = attempt % 2 === 0 ? 'user' : 'root';
      read.add(await outcome(() => sandbox.files.readText('swapped/secret', { user })));
      if (attempt % 10 < 2) await outcome(() => sandbox.files.write('swapped/written', 'x', { user }));
    }
    await sandbox.files.write('stop', '');
    for (const seen of read) assert.match(seen, /^(inside|refused: \w+)$/);
    assert.ok(read.has('inside'));
    assert.equal(existsSync(join(folder, 'written')), false);
  });

  it('a path that code has prepared unpacks nothing outside, through links that were there before', async () => {
    mkdirSync(join(folder, 'archive'), { recursive: true });
    await shell(
      `rm -rf place && mkdir place && ln -s ${folder} place/out && mkdir -p pack/out && echo x > pack/out/planted`,
    );
    const { body } = await sandbox.files.archive('pack', { format: 'tar' });
    assert.equal(await outcome(() => sandbox.files.unpack('place', body)), 'refused: conflict');
    assert.equal(existsSync(join(folder, 'planted')), false);
  });
});

describe('what sandboxes share, and what is the kernel’s', () => {
  it('shared files and files of the kernel cannot be written by the API, not even as root of the sandbox', async () => {
    const closed = [
      '/opt/cloche/agent.cjs',
      '/opt/cloche/planted',
      '/proc/sys/kernel/core_pattern',
      '/proc/sysrq-trigger',
      '/proc/planted',
      '/sys/planted',
      '/sys/fs/cgroup/planted',
      '/dev/null',
    ];
    for (const user of ['user', 'root'] as const) {
      for (const path of closed) {
        const answer = await outcome(() => sandbox.files.write(path, 'x', { user }));
        assert.match(answer, /^refused: (conflict|not_found|permission_denied)$/, path);
      }
      const removed = await outcome(() => sandbox.files.remove('/opt/cloche', { recursive: true, user }));
      assert.match(removed, /^refused: (conflict|permission_denied)$/);
    }
    assert.equal((await sandbox.run('1 + 1')).outputs[0]?.value, '2');
  });

  it('no shared file and no file of the kernel hangs a process that reads it', async () => {
    await shell('mkfifo pipe-without-end; ln -s /dev/zero zeros');
    for (const user of ['user', 'root'] as const) {
      for (const path of ['pipe-without-end', 'zeros', '/dev/random', '/dev/ptmx', '/proc/kmsg', '/proc/1/mem']) {
        const answer = await outcome(() => sandbox.files.readText(path, { user }));
        assert.match(answer, /^refused: (conflict|not_found|permission_denied)$/, path);
      }
    }
  });
});
