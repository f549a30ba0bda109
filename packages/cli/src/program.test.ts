import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { buildProgram } from './program.ts';
import { processTerminal } from './terminal/terminal.ts';

const namesFor = async (...args: string[]) =>
  (await buildProgram('1.0.0', args, processTerminal())).commands.map((each) => each.name());

describe('the command line', () => {
  it('loads a command by its name, wherever the options of the program stand', async () => {
    for (const name of await namesFor()) {
      const loaded = await namesFor('--url', 'http://localhost', '--json', name, 'run');
      assert.ok(loaded.includes(name), `${name}: ${loaded}`);
      assert.ok(loaded.length <= 2, `${name}: ${loaded}`);
    }
  });

  it('loads every command for the help and for a name that is none, and no command for the version', async () => {
    const all = await namesFor();
    assert.ok(all.length > 20, `${all}`);
    for (const args of [['--help'], ['help', 'run'], ['rn'], ['--json']])
      assert.deepEqual(await namesFor(...args), all);
    assert.deepEqual(await namesFor('--version'), []);
  });
});
