import assert from 'node:assert/strict';
import { closeSync, cpSync, globSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '@cloche/testkit/eventually';
import { makeInstallation } from '../../testing/installation.ts';
import { inOwnMountNamespace } from '../../testing/own-mount-namespace.ts';
import { Cgroups } from '../cgroups/cgroups.ts';
import { detachMount, mountFileSystem } from '../linux/mounts.ts';
import { Templates } from '../storage/templates.ts';
import { MAX_ZYGOTES, Zygotes } from './zygotes.ts';

const KERNEL_PYTHON = fileURLToPath(new URL('../../../../guest/kernel-python', import.meta.url));
/** Twice the time that loading takes. */
const LIFE_MS = 2000;
const AT_RANDOM = 25n;
const RANDOM_BYTES = 16;
const ENTRY_BYTES = 16;

inOwnMountNamespace(import.meta.filename, () => {
  test('a zygote is replaced after its lifetime, without a gap, by one with other secrets', async () => {
    await using world = await openZygotes({ lifeMs: LIFE_MS });
    const { zygotes, template } = world;
    const { id } = template.manifest;
    try {
      zygotes.prepare({ ...template, layers: [] });
      await zygotes.ready(id);
      const [first = assert.fail('no zygote')] = ownZygotes();
      const secret = secretOf(first);
      await eventually(
        () => {
          assert.ok(zygotes.serves(id));
          const running = ownZygotes();
          return running.length > 0 && !running.includes(first);
        },
        { because: 'another one serves alone' },
      );
      const [next = assert.fail('no zygote')] = ownZygotes();
      assert.notDeepEqual(secretOf(next), secret);
    } finally {
      await zygotes.close();
    }
    assert.deepEqual(ownZygotes(), []);
  });

  test('a zygote is started again while it is being stopped for others, and none after the close', async () => {
    await using world = await openZygotes();
    const { zygotes, template } = world;
    const versions = Array.from({ length: MAX_ZYGOTES + 1 }, (_, index) => {
      return { ...template, manifest: { ...template.manifest, id: `tplv_${index}` }, layers: [] };
    });
    const [first = assert.fail('no version')] = versions;
    try {
      for (const version of versions) zygotes.prepare(version);
      zygotes.prepare(first);
      await zygotes.ready(first.manifest.id);
    } finally {
      const closed = zygotes.close();
      for (const version of versions) zygotes.prepare(version);
      await closed;
    }
    assert.deepEqual(ownZygotes(), []);
  });
});

/** Opens the zygotes of an installation, and finds a template version that has Python. */
async function openZygotes(options: { lifeMs?: number } = {}) {
  const installation = makeInstallation();
  const { config } = installation;
  const { guestDir, runDir } = config;
  const templates = await new Templates(config.templatesDir).list();
  const template = templates.find(({ manifest }) => manifest.languages.includes('python')) ?? assert.fail('none built');
  cpSync(KERNEL_PYTHON, join(guestDir, 'python'), { recursive: true });
  mountFileSystem({ type: 'tmpfs', source: 'test', target: runDir });
  const cgroups = new Cgroups(config.installationId);
  const zygotes = new Zygotes({ cgroups, guestDir, mountsDir: runDir, timeNamespace: true, ...options });
  return {
    template,
    zygotes,
    [Symbol.asyncDispose]: async () => {
      await zygotes.close();
      detachMount(runDir);
      installation[Symbol.dispose]();
    },
  };
}

/** Returns the /proc folders of the zygotes that this process started. */
function ownZygotes(): string[] {
  return globSync('/proc/[0-9]*').flatMap((folder) => {
    try {
      const isOwn = readFileSync(join(folder, 'status'), 'utf8').includes(`\nPPid:\t${process.pid}\n`);
      const isZygote = readFileSync(join(folder, 'cmdline'), 'utf8').includes('cloche_zygote\0');
      return isOwn && isZygote ? [folder] : [];
    } catch {
      return [];
    }
  });
}

/**
 * Returns the random bytes that the kernel gave a program at its start; the C library's canary and pointer guard derive
 * from them.
 */
function secretOf(folder: string): Buffer {
  const vector = readFileSync(join(folder, 'auxv'));
  for (let at = 0; at < vector.length; at += ENTRY_BYTES) {
    if (vector.readBigUInt64LE(at) !== AT_RANDOM) continue;
    const memory = openSync(join(folder, 'mem'), 'r');
    const bytes = Buffer.alloc(RANDOM_BYTES);
    readSync(memory, bytes, 0, RANDOM_BYTES, vector.readBigUInt64LE(at + 8));
    closeSync(memory);
    return bytes;
  }
  return assert.fail('no randomness');
}
