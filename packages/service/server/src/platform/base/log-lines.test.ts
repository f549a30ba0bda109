import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { pino } from 'pino';
import { LogLines } from './log-lines.ts';

async function connected(path: string): Promise<Socket> {
  const socket = connect(path);
  await once(socket, 'connect');
  return socket;
}

describe('log lines', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-log-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  function openAt(to: string | number) {
    const lines = new LogLines(to);
    return { log: pino({}, lines), lines };
  }

  function open(name: string) {
    const file = join(folder, name);
    const written = () => [...readFileSync(file, 'utf8').matchAll(/"msg":"(\w+)"/g)].map(([, message]) => message);
    return { ...openAt(file), written };
  }

  it('log lines that tell of nothing wrong are written soon', async () => {
    const { log, written } = open('soon');
    log.info('one');
    log.info('two');
    assert.deepEqual(written(), []);
    await eventually(() => written().length > 0, { because: 'the lines are written' });
    assert.deepEqual(written(), ['one', 'two']);
  });

  it('log lines that warn are written at once, after all before them', () => {
    const { log, written } = open('now');
    log.info('before');
    log.warn('warning');
    assert.deepEqual(written(), ['before', 'warning']);
  });

  it('log lines are all written when flushed', () => {
    const { log, lines, written } = open('flushed');
    log.info('last');
    lines.flushSync();
    assert.deepEqual(written(), ['last']);
  });

  it('without a consumer are dropped, and block no producer', () => {
    const { log, lines } = openAt('/dev/full');
    for (let count = 0; count < 1000; count++) log.info('lost');
    log.error('lost');
    lines.flushSync();
  });

  it('log lines that are taken later are kept until then', async () => {
    const socket = join(folder, 'slow.sock');
    const server = createServer({ pauseOnConnect: true }).listen(socket);
    await once(server, 'listening');
    const [writer, [reader]] = await Promise.all([connected(socket), once(server, 'connection')]);
    // Node's own sockets are non-blocking, so a write can fail with EAGAIN.
    const fd = (writer as unknown as { _handle: { fd: number } })._handle.fd;
    const { log, lines } = openAt(fd);
    for (let count = 0; count < 10_000; count++) log.info(`line${count}`);
    let text = '';
    reader.resume().on('data', (chunk: Buffer) => {
      text += chunk;
    });
    const isWritten = () => {
      lines.flushSync();
      return text.includes('line9999');
    };
    await eventually(isWritten, { because: 'the last line is read' });
    assert.equal(text.match(/line\d+/g)?.length, 10_000);
    writer.destroy();
    server.close();
  });
});
