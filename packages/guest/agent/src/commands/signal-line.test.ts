import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signalCommand } from './signal-line.ts';

const SENT = {
  'kill -9 -- -123': ['-9', '--', '-123'],
  'kill -9 -123': ['-9', '-123'],
  'kill -s KILL -- -123': ['-s', 'KILL', '--', '-123'],
  'kill -SIGTERM 123 124': ['-SIGTERM', '123', '124'],
  'kill -9 -1': ['-9', '-1'],
  '  /bin/kill   -KILL\t123 ': ['-KILL', '123'],
  '/usr/bin/kill 123': ['123'],
};

/** Each of them could run a program, or is no `kill` with literal arguments. */
const OTHERS = [
  'kill',
  'pkill -9 sleep',
  'killall5 -9',
  'kill -9 $(cat pid)',
  'kill -9 `cat pid`',
  'kill -9 1; ./more',
  'kill -9 1 && ./more',
  'kill -9 1 | ./more',
  'kill -9 1 > file',
  'kill -9 1\n./more',
  'kill -9 %1',
  'kill -9 $PID',
  './kill -9 1',
  '/workspace/kill -9 1',
  'FOO=1 kill -9 1',
  'exec kill -9 1',
  'kill -9 "1"',
  'kill -9 ~',
  'kill -9 *',
];

test('a literal kill is recognized as a line and as arguments, and nothing else is', () => {
  for (const [line, words] of Object.entries(SENT)) {
    const expected = ['/bin/bash', '-c', 'kill "$@"', 'kill', ...words];
    for (const argv of [['bash', '-lc', line], ['/bin/sh', '-c', line], line.trim().split(/\s+/)]) {
      assert.deepEqual(signalCommand({ argv }, '/bin/bash'), expected, argv.join(' '));
    }
  }
  for (const line of OTHERS) {
    assert.equal(signalCommand({ argv: ['bash', '-lc', line] }, '/bin/bash'), undefined, line);
    assert.equal(signalCommand({ argv: line.split(' ') }, '/bin/bash'), undefined, line);
  }
  for (const argv of [
    ['bash', '-ic', 'kill -9 1'],
    ['bash', '-lc', 'kill -9 1', 'x'],
    ['./sh', '-c', 'kill 1'],
    ['kill', '-9', '1\n2'],
    ['kill', ''],
  ]) {
    assert.equal(signalCommand({ argv }, '/bin/bash'), undefined, argv.join(' '));
  }
});
