import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Command } from 'commander';
import { runCloche } from '../testing/run-cloche.ts';
import { buildProgram, buildWholeProgram } from './program.ts';
import { processTerminal } from './terminal/terminal.ts';

/** Options whose absence means nothing that needs a word. */
const NO_DEFAULT = [
  'get --name',
  'run --code',
  'run --save-outputs',
  'artifacts --download',
  'build --image',
  'build --registry-ca',
  'build --description',
  'import --slug',
  'import --description',
  'update --hosts',
  'quota --project',
  'usage --project',
  'update --events',
  'start --servers',
  'create --name',
];
const commandsFor = async (...args: string[]) => (await buildProgram('1.0.0', args, processTerminal())).commands;
const namesFor = async (...args: string[]) => (await commandsFor(...args)).map((each) => each.name());

describe('the command line', () => {
  it('the command line loads a command by its name, wherever the options of the program stand', async () => {
    for (const name of await namesFor()) {
      for (const front of [['--url', 'http://localhost', '--json'], ['help']]) {
        const loaded = await commandsFor(...front, name, 'run');
        const command = loaded.find((each) => each.name() === name);
        const isLoaded = command !== undefined && command.options.length + command.commands.length > 0;
        // A stub has neither.
        assert.ok(isLoaded, `${front} ${name}`);
        assert.ok(loaded.length <= 2, `${name}: ${loaded.map((each) => each.name())}`);
      }
    }
  });

  it('the command line names every command for the help and for a name that is none, and no command for the version', async () => {
    const whole = await buildWholeProgram('1.0.0', processTerminal());
    const all = await namesFor();
    assert.deepEqual(all.toSorted(), whole.commands.map((each) => each.name()).toSorted());
    for (const args of [['--help'], ['help'], ['rn'], ['--json']]) assert.deepEqual(await namesFor(...args), all);
    assert.deepEqual(await namesFor('--version'), []);
  });

  it('says of each command in its help what the command says of itself', async () => {
    const named = await commandsFor();
    for (const stub of named) {
      const own = (await commandsFor(stub.name())).find((each) => each.name() === stub.name());
      // Commands for the host say more on the machine of a service than elsewhere.
      if (['doctor', 'start', 'migrate', 'admin'].includes(stub.name())) continue;
      assert.equal(stub.description(), own?.description());
    }
  });

  it('the command line loads no command for its help, the version or a wrong name', async () => {
    // Every module of the program is named on standard error.
    const hook = `import { registerHooks } from 'node:module';
registerHooks({ load: (url, context, next) => (process.stderr.write(url + '\\n'), next(url, context)) });`;
    const nodeArgs = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`];
    for (const args of [[], ['--help'], ['--version'], ['rn']]) {
      const { stderr } = await runCloche(args, { nodeArgs });
      assert.match(stderr, /src\/program\.ts/);
      assert.doesNotMatch(stderr, /packages\/(?:contract|sdk|typebox|setup)|src\/commands/, `cloche ${args}`);
    }
  });

  it('the command line shows the options of a command before those of every command, with what holds without them', async () => {
    const whole = await buildWholeProgram('1.0.0', processTerminal());
    const leaves = (command: Command): Command[] =>
      command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
    const silent: string[] = [];
    for (const command of leaves(whole)) {
      const help = command.helpInformation();
      const last = [...help.matchAll(/^(\S.*:)$/gm)].at(-1)?.[1];
      if (!help.includes('Common options:')) continue;
      const own = command.options.filter(({ helpGroupHeading }) => helpGroupHeading !== 'Common options:');
      assert.equal(last, 'Common options:', command.name());
      for (const { long, required, mandatory, description, defaultValue } of own) {
        // Without a filter, a label or a change, there is none; a further one adds to those before it.
        const isNothing =
          /^(?:only|new|label|show what follows|follow|run in|join|purpose|account|secret with)|repeatable/.test(
            description,
          );
        if (!required || mandatory || isNothing || NO_DEFAULT.includes(`${command.name()} ${long}`)) continue;
        if (defaultValue === undefined && !/default/.test(description)) silent.push(`${command.name()} ${long}`);
      }
    }
    assert.deepEqual(silent, []);
  });

  it('says which command does what was typed from habit', async () => {
    for (const [word, meant] of [
      ['ps', 'sandbox list'],
      ['rm', 'sandbox delete'],
      ['stop', 'sandbox delete'],
      ['resume', 'sandbox resume'],
      ['ssh', 'shell'],
      ['upload', 'cp'],
      ['attach', 'shell'],
      ['version', '--version'],
    ] as const) {
      const { exitCode, stderr } = await runCloche([word]);
      assert.deepEqual([exitCode, stderr], [2, `error: There is no command '${word}'; use \`cloche ${meant}\`.\n`]);
    }
  });
});
