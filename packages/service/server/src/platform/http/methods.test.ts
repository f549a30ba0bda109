/**
 * Tests that every method that Node's parser accepts is answered by the service or by a preview's app, and never causes
 * an internal error.
 */
import assert from 'node:assert/strict';
import { METHODS } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { echo, openPreviewWorld, type PreviewWorld, SWITCH } from '../../../testing/previews.ts';

let world: PreviewWorld;

before(async () => {
  world = await openPreviewWorld();
  await world.serve(echo);
});
after(() => world.close());

const PATHS = [
  { path: '/v1/sandboxes', allow: 'POST, GET, HEAD', needsKey: true },
  { path: '/v1/sandboxes/sbx_none/pty', allow: 'GET, HEAD', needsKey: true },
  { path: '/v1/sandboxes/sbx_none/commands/run', allow: 'POST', needsKey: true },
  { path: '/healthz', allow: 'GET, HEAD', needsKey: false },
  { path: '/v1/nothing', allow: undefined, needsKey: true },
  { path: '/nothing', allow: undefined, needsKey: false },
];
/** Methods and paths that match another route: a command with the id `run`. */
const SERVED_ELSEWHERE = ['GET', 'HEAD'].map((method) => `${method} /v1/sandboxes/sbx_none/commands/run`);
const OTHERS = METHODS.filter((method) => method !== 'CONNECT');

const BODIES = {
  'without a body': '\r\n',
  'with a body of no type': 'Content-Length: 4\r\n\r\nbody',
  'with JSON': 'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}',
  'with broken JSON': 'Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{',
};

async function send(method: string, target: string, { host = 'api.test', key = '', rest = '\r\n', upgrade = '' }) {
  const authorization = key && `Authorization: Bearer ${key}\r\n`;
  const fields = `Host: ${host}\r\n${upgrade || 'Connection: close\r\n'}${authorization}`;
  const text = await world.raw(`${method} ${target} HTTP/1.1\r\n${fields}${rest}`);
  const [head = '', body = ''] = text.split('\r\n\r\n');
  return { status: Number(head.split(' ')[1]), allow: /^allow: ?(.*)$/im.exec(head)?.[1], head, body };
}

describe('the API answers a method that a path has not', () => {
  for (const { path, allow, needsKey } of PATHS) {
    it(`at ${path}: by the key, the path and its methods`, async () => {
      for (const method of OTHERS) {
        if (allow?.split(', ').includes(method) || SERVED_ELSEWHERE.includes(`${method} ${path}`)) continue;
        for (const [what, rest] of Object.entries(BODIES)) {
          for (const key of ['', world.key]) {
            const answer = await send(method, path, { key, rest });
            const where = `${method} ${path} ${what} ${key ? 'with' : 'without'} a key: ${answer.head}`;
            const expected = allow === undefined ? 404 : needsKey && !key ? 401 : 405;
            assert.equal(answer.status, expected, where);
            assert.equal(answer.allow, expected === 405 ? allow : undefined, where);
            if (method !== 'HEAD') assert.ok(JSON.parse(answer.body).error.message, where);
          }
        }
      }
    });
  }

  it('the API answers a method that a path has not also when it asks for an upgrade', async () => {
    for (const method of OTHERS) {
      for (const protocol of ['websocket', 'h2c', 'x']) {
        const upgrade = SWITCH.replace('Upgrade', 'close, Upgrade').replace('websocket', protocol);
        assert.equal((await send(method, '/v1/sandboxes', { upgrade })).status, 401, `${method} ${protocol}`);
      }
    }
  });

  it('CONNECT included, with and without a key, for a path and for another host', async () => {
    for (const target of ['a.test:443', '/v1/sandboxes', '*']) {
      for (const key of ['', world.key]) {
        const answer = await send('CONNECT', target, { key });
        assert.deepEqual([answer.status, answer.allow], [405, ''], answer.head);
      }
    }
  });

  it('the API answers a method that a path has not with no method at all: `*` is no path', async () => {
    for (const method of OTHERS.filter((each) => each !== 'GET' && each !== 'HEAD')) {
      assert.equal((await send(method, '*', {})).status, 404, method);
    }
  });
});

describe('a preview', () => {
  it('a preview passes every method to its app, with or without a body', async () => {
    const { host } = await world.open({ visibility: 'public' });
    for (const method of OTHERS) {
      for (const [what, rest] of Object.entries(BODIES)) {
        const answer = await send(method, '/v1/sandboxes', { host, rest });
        assert.equal(answer.status, 200, `${method} ${what}`);
        if (method !== 'HEAD') assert.match(answer.body, new RegExp(`"method":"${method}"`), what);
      }
    }
  });

  it('a preview asks for its token whatever the method', async () => {
    const { host } = await world.open();
    for (const method of OTHERS) assert.equal((await send(method, '/', { host, key: world.key })).status, 401, method);
  });

  it('a preview that does not exist is not found whatever the method', async () => {
    const host = (await world.open()).host.replace(/^prv-[^.]+/, 'prv-none');
    for (const method of OTHERS) assert.equal((await send(method, '/', { host })).status, 404, method);
  });

  it('a preview opens no tunnel', async () => {
    const { host } = await world.open({ visibility: 'public' });
    for (const target of [host, '127.0.0.1:22', '/']) {
      assert.equal((await send('CONNECT', target, { host })).status, 405, target);
    }
  });
});
