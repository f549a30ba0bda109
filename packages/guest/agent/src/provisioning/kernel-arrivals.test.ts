import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type ArrivingKernel, arriveAt } from '../../testing/arriving-kernel.ts';
import type { ForkedKernel } from '../kernels/forked-kernel.ts';
import { KernelArrivals } from './kernel-arrivals.ts';

const SOON_MS = 60_000;

let folder: string;
let kernels: KernelArrivals;
const sockets: Socket[] = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-forked-'));
  kernels = new KernelArrivals(join(folder, 'kernels'));
  kernels.listen();
});
after(() => {
  for (const socket of sockets) socket.destroy();
  kernels.close();
  rmSync(folder, { recursive: true });
});

async function arrive(kernel: ArrivingKernel = {}): Promise<Socket> {
  const socket = await arriveAt(join(folder, 'kernels'), kernel);
  sockets.push(socket);
  return socket;
}

function release(kernel: ForkedKernel | undefined): void {
  assert.ok(kernel);
  for (const { readFd } of kernel.fifos) closeSync(readFd);
  kernel.socket.destroy();
}

describe('kernels that arrive at the agent', () => {
  test('connect to a socket in a folder that only the agent can open', () => {
    assert.equal(statSync(join(folder, 'kernels')).mode & 0o777, 0o700);
  });

  test('kernels that arrive at the agent are given to waiting contexts, in order, and their pipes have no name any more', async () => {
    const [first, second] = [kernels.take(SOON_MS), kernels.take(SOON_MS)];
    await arrive();
    const given = await first;
    assert.equal(given?.pid, process.pid);
    await arrive();
    release(given);
    release(await second);
    assert.deepEqual(readdirSync(join(folder, 'kernels')), ['kernels.sock']);
  });

  test('kernels that arrive at the agent wait for a later context', async () => {
    await arrive();
    const waiting = await kernels.take(SOON_MS);
    release(waiting);
    assert.equal(await kernels.take(0), undefined);
  });

  test('kernels that arrive at the agent are not waited for when none comes, or when it is said that none will', async () => {
    assert.equal(await kernels.take(1), undefined);
    const waiting = kernels.take(SOON_MS);
    kernels.giveUp();
    assert.equal(await waiting, undefined);
  });

  test('kernels that arrive at the agent that are too many, have no pipes, no process or a name that is a path are turned away', async () => {
    const kept = [await arrive(), await arrive()];
    const turnedAway = [
      await arrive(),
      await arrive({ pipes: false }),
      await arrive({ pid: 4_194_303 }),
      await arrive({ kernelId: '../escape', pipes: false }),
    ];
    await Promise.all(turnedAway.map((socket) => socket.closed || once(socket, 'close')));
    for (const socket of kept) assert.ok(!socket.closed);
    for (const _ of kept) release(await kernels.take(SOON_MS));
  });
});
