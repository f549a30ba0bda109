/**
 * Code can put links at paths that a client reads and writes through the API. An operation has the rights of the sandbox's
 * user, so code gains nothing that it could not do itself. The control is `user: "root"`, which follows the same links.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cloche, type FileOptions, isClocheError } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { sharedService, type TestService } from '../support/service.ts';

/** Options of the control. */
const AS_ROOT: FileOptions = { user: 'root' };
/** Time for which code swaps links while a client writes. */
const RACE_MS = 1_500;
/** Longest time of the race, which otherwise ends when links have led a client to both places. */
const LONGEST_RACE_MS = 15_000;

let service: TestService;
let sandbox: Awaited<ReturnType<Cloche['sandboxes']['get']>>;

before(async () => {
  service = await sharedService();
  const { id } = await service.api.readySandbox();
  sandbox = await new Cloche({ url: service.url, apiKey: service.apiKey }).sandboxes.get(id);
  await asRoot(
    'mkdir -p /srv/closed/inner && echo secret > /srv/closed/file && echo secret > /srv/secret && ' +
      'chmod 700 /srv/closed && chmod 600 /srv/secret && mkdir /srv/target && echo original > /srv/target/file',
  );
});
after(() => service?.close());

async function asRoot(line: string): Promise<string> {
  const { stdout, stderr, exitCode } = await sandbox.commands.run(line, { user: 'root' });
  assert.equal(exitCode, 0, stderr ?? '');
  return (stdout ?? '').trim();
}

const asUser = async (line: string) => {
  assert.equal((await sandbox.commands.run(line)).exitCode, 0, line);
};

/** Asserts that the user is refused `act`, with `path` in the error. */
async function denied(path: string, act: () => Promise<unknown>): Promise<void> {
  await assert.rejects(act, (error) => {
    assert.ok(isClocheError(error, 'permission_denied'), String(error));
    assert.equal(error.status, 403);
    assert.equal(error.details?.path, path);
    assert.match(error.message, /`root`/);
    return true;
  });
}

const links = async (target: string) => {
  await asUser(`mkdir -p /workspace/links && ln -sfn ${target} /workspace/links/link`);
  return 'links/link';
};
const archiveOf = async (path: string) => (await sandbox.files.archive(path, { format: 'tar' })).body;

describe('a file of root', () => {
  it('a file of root is not read, not even through a link', async () => {
    await denied('/srv/secret', () => sandbox.files.read('/srv/secret'));
    const link = await links('/srv/secret');
    await denied(`/workspace/${link}`, () => sandbox.files.read(link));
    await denied('/srv/secret', () => sandbox.files.copy('/srv/secret', 'copied'));
    await denied('/srv/secret', () => sandbox.artifacts.export('/srv/secret'));
    assert.equal(await sandbox.files.readText(link, AS_ROOT), 'secret\n');
    assert.equal((await sandbox.artifacts.export('/srv/secret', { user: 'root' })).sizeBytes, 7);
  });

  it("a file of root is not replaced through a link that code has put at the path of a client's write", async () => {
    const before = await sandbox.files.readText('/etc/passwd');
    const link = await links('/etc/passwd');
    await denied('/etc/passwd', () => sandbox.files.write(link, 'root::0:0::/:/bin/sh\n'));
    await denied('/etc/new', async () => sandbox.files.write(await links('/etc/new'), 'x'));
    await denied('/etc/passwd', () => sandbox.files.move('/etc/passwd', 'moved'));
    await denied('/etc/passwd', () => sandbox.files.remove('/etc/passwd'));
    await denied('/etc/new', () => sandbox.files.makeDirectory('/etc/new'));
    assert.equal(await sandbox.files.readText('/etc/passwd'), before);
    await sandbox.files.write(await links('/srv/target/replaced'), 'by a link', AS_ROOT);
    assert.equal(await sandbox.files.readText('/srv/target/replaced'), 'by a link');
  });

  it('a file of root has nothing unpacked beside it', async () => {
    await asUser('mkdir -p /workspace/pack && echo planted > /workspace/pack/planted');
    const into = async (path: string, options?: FileOptions) =>
      sandbox.files.unpack(path, await archiveOf('pack'), options);
    await denied('/srv/target', () => into('/srv/target'));
    await denied('/workspace/links/link', async () => into(await links('/srv/target')));
    await denied('/srv/fresh', () => into('/srv/fresh'));
    assert.equal(await asRoot('ls -A /srv/target'), 'file\nreplaced');
    await into('/srv/target', AS_ROOT);
    assert.equal(await asRoot('stat -c %U /srv/target/planted; rm /srv/target/planted'), 'root');
  });
});

describe('directories that even root of the sandbox may not read', () => {
  it('directories that even root of the sandbox may not read are marked in a listing of the tree that has them', async () => {
    for (const path of ['/proc', '/sys', '/dev']) {
      const entries = await sandbox.files.list(path, { depth: 30, ...AS_ROOT });
      assert.ok(entries.length > 0, path);
    }
  });
});

describe('a directory that is closed to the user', () => {
  it('a directory that is closed to the user is not listed, searched, packed or watched', async () => {
    await denied('/srv/closed', () => sandbox.files.list('/srv/closed'));
    await denied('/srv/closed/file', () => sandbox.files.stat('/srv/closed/file'));
    await denied('/srv/closed/none', () => sandbox.files.stat('/srv/closed/none'));
    await denied('/srv/closed', () => archiveOf('/srv/closed'));
    await denied('/srv/closed', () => sandbox.artifacts.export('/srv/closed'));
    await denied('/srv/closed', () => sandbox.files.watch('/srv/closed').next());
    assert.deepEqual(
      (await sandbox.files.list('/srv/closed', AS_ROOT)).map(({ name }) => name),
      ['file', 'inner'],
    );
  });

  it('a directory that is closed to the user keeps what is in it to itself where what is above it is asked for', async () => {
    const names = async (options = {}) =>
      (await sandbox.files.list('/srv', { depth: 3, ...options })).map(({ path }) => path);
    assert.ok((await names()).includes('/srv/closed'));
    assert.ok(!(await names()).includes('/srv/closed/file'));
    assert.ok((await names(AS_ROOT)).includes('/srv/closed/file'));
    const marked = (await sandbox.files.list('/srv', { depth: 3 })).filter(({ unlisted }) => unlisted);
    assert.deepEqual(
      marked.map(({ path }) => path),
      ['/srv/closed'],
    );
    await denied('/srv/closed', () => archiveOf('/srv'));
    await asUser('mkdir -p /workspace/mixed && echo mine > /workspace/mixed/mine');
    await asRoot('install -m 600 /srv/secret /workspace/mixed/secret');
    await denied('/workspace/mixed/secret', () => archiveOf('mixed'));
    await denied('/workspace/mixed/secret', () => sandbox.files.copy('mixed', 'copy-of-mixed'));
    assert.equal(await sandbox.files.exists('copy-of-mixed'), false);
  });

  it('a directory that is closed to the user is left out of the events of a watch', async () => {
    const told: string[][] = [];
    const stop = new AbortController();
    for (const user of ['user', 'root'] as const) {
      const paths: string[] = [];
      told.push(paths);
      void (async () => {
        const watch = sandbox.files.watch('/srv', { recursive: true, user, signal: stop.signal });
        for await (const event of watch) if ('path' in event.data) paths.push(event.data.path);
      })().catch(() => undefined);
    }
    const [ofUser = [], ofRoot = []] = told;
    await eventually(async () => {
      await asRoot('date > /srv/closed/inner/written; date > /srv/target/seen');
      return ofRoot.includes('/srv/closed/inner/written') && ofUser.includes('/srv/target/seen');
    });
    assert.deepEqual(
      ofUser.filter((path) => path.startsWith('/srv/closed')),
      [],
    );
    stop.abort();
  });
});

describe('links that are swapped while a client', () => {
  const swap = `
import os, time
place = "/workspace/race"
os.makedirs(place + "/real", exist_ok=True)
until = time.time() + 60
while time.time() < until and not os.path.exists("/workspace/stop"):
    for target in ["real", "/srv/target"]:
        os.symlink(target, place + "/next")
        os.rename(place + "/next", place + "/swapped")
    for name in os.listdir(place + "/real"):
        if name.startswith(".cloche"):
            # What is being made is moved away, and a link put in its place.
            try:
                os.rename(place + "/real/" + name, place + "/taken")
                os.symlink("/srv/target", place + "/real/" + name)
            except OSError: pass
            os.system("rm -rf " + place + "/taken")
`;

  it('links that are swapped while a client writes, unpacks and copies lead to nothing that is root’s', async () => {
    await asUser('mkdir -p /workspace/race/real /workspace/pack/deep && touch /workspace/pack/deep/{1..40}');
    const race = await sandbox.commands.start(['python3', '-c', swap]);
    await eventually(() => sandbox.files.exists('race/swapped'));
    const archive = new Uint8Array(await new Response(await archiveOf('pack')).arrayBuffer());
    const outcomes = new Set<string>();
    const attempt = async (act: () => Promise<unknown>) =>
      outcomes.add(
        await act().then(
          () => 'done',
          (error) => String(error.code),
        ),
      );
    const wasLost = () => outcomes.has('permission_denied');
    const wasWon = () => outcomes.has('done');
    for (const from = Date.now(); Date.now() - from < (wasLost() && wasWon() ? RACE_MS : LONGEST_RACE_MS); ) {
      await attempt(() => sandbox.files.write('race/swapped/file', 'raced'));
      await attempt(() => sandbox.files.unpack('race/swapped', archive));
      await attempt(() => sandbox.files.unpack('race/real', archive));
      await attempt(() => sandbox.files.copy('pack', 'race/swapped/copy', { overwrite: true }));
    }
    await sandbox.files.write('stop', '');
    await race.wait();
    assert.equal(await asRoot('cat /srv/target/file; find /srv/target ! -user root'), 'original');
    assert.equal(await asRoot('find /srv/target -name "*.part" -o -name deep -o -name copy -o -name planted'), '');
    assert.ok(wasLost() && wasWon(), [...outcomes].join());
    for (const outcome of outcomes) assert.match(outcome, /^(done|permission_denied|not_found|conflict)$/);
  });
});
