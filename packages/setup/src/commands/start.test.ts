import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { runCloche } from '@cloche/cli/testing';

describe('cloche start', () => {
  it('does what npm start does, and reports what it lacks with a remedy', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const port = String((taken.address() as AddressInfo).port);
    const { exitCode, stdout, stderr } = await runCloche(['start'], { env: { CLOCHE_PORT: port } });
    taken.close();
    assert.deepEqual([exitCode, stdout], [1, '']);
    assert.match(stderr, new RegExp(`^error: Port ${port} is in use\\.[^]*CLOCHE_PORT`));
  });
});
