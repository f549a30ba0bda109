import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { openSocketPair, sendDescriptors } from './descriptor-passing.ts';

/** Writes the received message to every received descriptor, and the number of descriptors to its output. */
const RECEIVER = `
import os, socket
data, fds, _, _ = socket.recv_fds(socket.socket(fileno=3), 4096, 16)
for fd in fds:
    os.write(fd, data)
print(len(fds), end="")
`;

async function send(message: string, fds: readonly number[]): Promise<string> {
  const [ours, theirs] = openSocketPair();
  const receiver = spawn('/usr/bin/python3', ['-c', RECEIVER], { stdio: ['ignore', 'pipe', 'inherit', theirs] });
  closeSync(theirs);
  try {
    sendDescriptors(ours, message, fds);
    assert.ok(receiver.stdout);
    return await text(receiver.stdout);
  } finally {
    closeSync(ours);
  }
}

test('a message arrives with an odd and with an even number of descriptors', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-descriptors-'));
  try {
    for (const count of [1, 2, 13]) {
      const paths = Array.from({ length: count }, (_, index) => join(folder, `${count}-${index}`));
      const fds = paths.map((path) => openSync(path, 'w'));
      assert.equal(await send(`to ${count}`, fds), String(count));
      for (const fd of fds) closeSync(fd);
      for (const path of paths) assert.equal(readFileSync(path, 'utf8'), `to ${count}`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a message arrives without descriptors', async () => {
  assert.equal(await send('alone', []), '0');
});

test('a message is refused without waiting when the socket is full', () => {
  const [ours, theirs] = openSocketPair();
  try {
    assert.throws(
      () => {
        for (;;) sendDescriptors(ours, 'x'.repeat(1_000), []);
      },
      { code: 'EAGAIN' },
    );
  } finally {
    closeSync(ours);
    closeSync(theirs);
  }
});
