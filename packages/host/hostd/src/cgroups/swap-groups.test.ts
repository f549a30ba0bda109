import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { findHierarchies } from './cgroup-hierarchies.ts';
import { GroupUsage, WHOLE_GROUP } from './group-usage.ts';
import { SwapGroups } from './swap-groups.ts';

const MIB = 1024 * 1024;
const root = mkdtempSync(join(tmpdir(), 'cloche-swap-'));
after(() => rmSync(root, { recursive: true }));

const memory = findHierarchies().find(({ controllers }) => controllers.includes('memory'));
const skip = !(process.getuid?.() === 0 && memory) && 'this takes root, and the memory hierarchy of version 1';

describe('groups whose memory may be swapped', () => {
  it('groups whose memory may be swapped are those of frozen instances, with all groups below', { skip }, () => {
    assert.ok(memory);
    const parent = `cloche-test-${process.pid}`;
    const folderOf = (...names: string[]) => join(memory.mountPoint, parent, ...names);
    const created = [folderOf('one', 'below'), folderOf('one'), folderOf('other'), folderOf()];
    const swappiness = () => created.map((folder) => Number(readFileSync(join(folder, 'memory.swappiness'), 'utf8')));
    const groups = new SwapGroups([memory], parent);
    assert.ok(groups.canReclaim);
    try {
      for (let times = 0; times < 2; times += 1) groups.createParent();
      for (const folder of created.toReversed()) mkdirSync(folder, { recursive: true });
      mkdirSync(folderOf('one', 'below'), { recursive: true });
      assert.deepEqual(swappiness(), [0, 0, 0, 0]);
      groups.preferSwap('one');
      assert.deepEqual(swappiness(), [100, 100, 0, 0]);
      groups.keepInMemory('one');
      assert.deepEqual(swappiness(), [0, 0, 0, 0]);
      // As an earlier release has left it.
      writeFileSync(folderOf('memory.swappiness'), '60');
      groups.keepInMemory();
      assert.deepEqual(swappiness(), [0, 0, 0, 0]);
      assert.ok(existsSync(groups.emptying('one').file));
      groups.preferSwap('gone');
      groups.keepInMemory('gone');
    } finally {
      for (const folder of created) rmdirSync(folder);
    }
  });

  it('groups whose memory may be swapped do not exist with version 2, where nothing is written', () => {
    const groups = new SwapGroups([{ mountPoint: root, version: 2, controllers: [] }], 'parent');
    assert.equal(groups.canReclaim, false);
    groups.createParent();
    groups.preferSwap('one');
    groups.keepInMemory('one');
    assert.throws(() => groups.emptying('one'));
    assert.equal(existsSync(join(root, 'parent')), false);
  });
});

describe('groups of version 2', () => {
  const mountPoint = join(root, 'unified');
  const folders = ['one', 'one/kernels', 'other'].map((name) => join(mountPoint, 'parent', name));
  const hierarchies = [{ mountPoint, version: 2, controllers: [] }] as const;
  for (const folder of folders) mkdirSync(folder, { recursive: true });
  const bounds = () => folders.map((folder) => readFileSync(join(folder, 'memory.swap.max'), 'utf8'));

  it('groups of version 2 may swap while they are frozen, and are emptied by as much as they hold', () => {
    assert.equal(new SwapGroups(hierarchies, 'parent', true).canReclaim, false, 'a kernel before 5.19');
    writeFileSync(join(mountPoint, 'memory.reclaim'), '');
    for (const folder of folders) writeFileSync(join(folder, 'memory.swap.max'), '0');
    const groups = new SwapGroups(hierarchies, 'parent', true);
    assert.ok(groups.canReclaim);
    groups.createParent();
    groups.keepInMemory();
    groups.preferSwap('one');
    assert.deepEqual(bounds(), ['max', 'max', '0']);
    writeFileSync(join(folders[0] ?? '', 'memory.current'), `${5 * MIB}\n`);
    assert.deepEqual(groups.emptying('one'), { file: join(folders[0] ?? '', 'memory.reclaim'), text: `${5 * MIB}` });
    groups.keepInMemory('one');
    assert.deepEqual(bounds(), ['0', '0', '0']);
    assert.equal(existsSync(join(mountPoint, 'parent', 'memory.swap.max')), false, 'no bound for all');
    groups.preferSwap('gone');
    assert.equal(groups.emptying('gone').text, '0');
  });

  it('groups of version 2 are left alone unless that is asked for', () => {
    const groups = new SwapGroups(hierarchies, 'parent');
    groups.preferSwap('other');
    assert.deepEqual([groups.canReclaim, bounds()[2]], [false, '0']);
  });
});

describe('what a group holds', () => {
  const VERSIONS = {
    'version 1': {
      hierarchy: { mountPoint: join(root, 'v1'), version: 1, controllers: ['memory'] },
      files: {
        'memory.usage_in_bytes': `${30 * MIB}`,
        'memory.stat': `swap 1\ntotal_swap ${5 * MIB}\ntotal_active_file ${MIB}\ntotal_inactive_file ${MIB}\n`,
      },
    },
    'version 2': {
      hierarchy: { mountPoint: join(root, 'v2'), version: 2, controllers: [] },
      files: {
        'memory.current': `${30 * MIB}`,
        'memory.swap.current': `${5 * MIB}`,
        'memory.stat': `active_file ${MIB}\ninactive_file ${MIB}\n`,
      },
    },
  } as const;
  for (const [title, { hierarchy, files }] of Object.entries(VERSIONS)) {
    it(`what a group holds is in memory, without caches of files, and in swap: ${title}`, () => {
      const folder = join(hierarchy.mountPoint, 'parent', 'one');
      mkdirSync(folder, { recursive: true });
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
      const usage = new GroupUsage('parent', [hierarchy], WHOLE_GROUP);
      assert.deepEqual(usage.held('one'), { residentBytes: 28 * MIB, swappedBytes: 5 * MIB });
      assert.equal(usage.held('gone'), undefined);
      if (title === 'version 1') return;
      // A kernel without accounting of swap.
      rmSync(join(folder, 'memory.swap.current'));
      assert.equal(usage.held('one')?.swappedBytes, 0);
    });
  }
});
