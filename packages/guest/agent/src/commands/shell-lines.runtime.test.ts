/** Shell lines run in the shell of the image, by its own path, and are no options of it. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { StartCommand } from '@cloche/protocol';
import { StartedCommands } from '../../testing/started-commands.ts';

let commands: StartedCommands;
before(async () => {
  commands = await StartedCommands.start();
});
after(() => commands[Symbol.asyncDispose]());

const runLine = (line: string, options: Partial<StartCommand> = {}) =>
  commands.run(['bash', '-lc', '--', line], { ownShell: true, ...options });

describe('a shell line', () => {
  for (const PATH of ['/opt/venv/bin:$PATH', '/nowhere', '', ':', '~/bin:$HOME/bin', 'relative']) {
    it(`a shell line runs where the client has set PATH to "${PATH}"`, async () => {
      const { stdout, command } = await runLine('echo ran', { env: { PATH } });
      assert.deepEqual([stdout, command.exitCode], ['ran\n', 0]);
    });
  }

  for (const line of ['-weird', '--version', '--help', '+weird', '-c', '--', '-', '-x 1', '+o posix']) {
    it(`a shell line that is "${line}" names a program that is not found`, async () => {
      const { stdout, stderr, command } = await runLine(line);
      assert.deepEqual([stdout, command.exitCode], ['', 127], stderr);
      assert.match(stderr, /command not found/);
    });
  }

  for (const place of ['home/.local/bin', 'workspace', 'workspace/bin', 'home/bin', 'own']) {
    it(`a shell line is not given to a program named bash in ${place}`, async () => {
      const folder = join(commands.agent.folder, place);
      mkdirSync(folder, { recursive: true });
      for (const name of ['bash', 'sh']) {
        writeFileSync(join(folder, name), '#!/bin/sh\necho planted\n');
        chmodSync(join(folder, name), 0o755);
      }
      const env = { PATH: `${folder}:/usr/bin:/bin` };
      for (const user of ['user', 'root'] as const) {
        assert.equal((await runLine('echo ran', { env, user })).stdout, 'ran\n', user);
      }
      // A program that the client names itself is looked for in the PATH.
      assert.equal((await commands.run(['bash', '-lc', 'echo ran'], { env })).stdout, 'planted\n');
    });
  }
});
