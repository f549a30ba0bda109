/**
 * Asserts only ratios, as `ratios.test.ts` does: of the processor time of the sandbox, and of the least of several rounds,
 * because other load prolongs the rounds of a short program less often than those of a long one.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { inTurns } from '../../bench/src/timing.ts';
import { tarOf } from '../../packages/shared/image-archive/testing/make-image.ts';
import { SandboxCommands } from '../support/commands.ts';
import { groupTimeMs } from '../support/group-time.ts';
import { type SandboxFiles, sandboxFiles } from '../support/sandbox-files.ts';
import { testService } from '../support/service.ts';

const FILES = 1000;
const ROUNDS = 15;

/** Returns a tar of small files, so that the time to transfer it does not count, in `folders` folders; in none if 0. */
function archiveIn(folders: number): Buffer {
  const folderOf = (index: number) => (folders === 0 ? '' : `folder-${index % folders}/`);
  return tarOf(
    Array.from({ length: FILES }, (_, index) => ({ name: `${folderOf(index)}file-${index}`, content: `${index}` })),
  );
}

let files: SandboxFiles;
let commands: SandboxCommands;
before(async () => {
  files = await sandboxFiles(await testService(), {});
  commands = new SandboxCommands(files.service, files.sandboxId);
});
after(() => files?.close());

/** Returns the processor time of the sandbox in milliseconds that `act` takes. */
async function used(act: () => Promise<unknown>): Promise<number> {
  const before = groupTimeMs(files.service, files.sandboxId);
  await act();
  return groupTimeMs(files.service, files.sandboxId) - before;
}

async function unpack(archive: Buffer, path: string): Promise<void> {
  const url = `${files.service.url}${files.base}/archive?path=${path}`;
  const response = await fetch(url, { method: 'PUT', headers: files.headers, body: new Uint8Array(archive) });
  assert.equal(response.status, 200, await response.text());
}

describe('an archive of 1,000 files', () => {
  // Side by side, each file is moved into place by itself; of folders, only the folders are.
  for (const [title, folders, atMost] of [
    ['in folders is unpacked in at most twice the time of a command with tar -x in the sandbox', 40, 2],
    ['side by side is unpacked in at most three times that time', 0, 3],
  ] as const) {
    it(title, async () => {
      const archive = archiveIn(folders);
      await files.write('/workspace/archive.tar', new Uint8Array(archive));
      // In memory, where the disk of the machine does not count.
      const [ours, theirs] = ['/dev/shm/cloche', '/dev/shm/tar'];
      const clean = () => commands.run(`rm -rf ${ours} ${theirs}`);
      const values = await inTurns(ROUNDS, {
        cloche: async () => {
          await clean();
          return used(() => unpack(archive, ours));
        },
        tar: async () => {
          await clean();
          return used(() => commands.run(`mkdir ${theirs} && tar -xf archive.tar -C ${theirs}`));
        },
      });
      const [cloche, tar] = [Math.min(...values.cloche), Math.min(...values.tar)];
      assert.ok(cloche <= atMost * tar, `${cloche.toFixed(0)} ms, and ${tar.toFixed(0)} ms by tar`);
    });
  }
});
