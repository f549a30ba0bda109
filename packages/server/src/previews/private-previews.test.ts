import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Preview } from '@cloche/contract';
import { echo, openPreviewWorld, type PreviewWorld, SWITCH } from './previews.fixture.ts';

let world: PreviewWorld;
before(async () => {
  world = await openPreviewWorld();
});
after(() => world.close());

describe('a private preview', () => {
  let preview: Preview & { host: string };
  let token: string;
  before(async () => {
    await world.serve(echo);
    preview = await world.open();
    token = preview.accessToken ?? '';
  });

  it('asks for its token, and refuses another', async () => {
    const none = await world.ask(preview.host);
    assert.equal(none.status, 401);
    assert.match(none.text, /This preview is private/);
    const other = (await world.open()).accessToken ?? '';
    for (const wrong of ['', 'x', other, `${token}x`]) {
      const answer = await world.ask(preview.host, { headers: { 'x-cloche-preview-token': wrong } });
      assert.equal(answer.status, 403, wrong);
    }
    assert.equal((await world.ask(preview.host, { path: `/?cloche_token=${other}` })).status, 403);
    assert.equal((await world.ask(preview.host, { headers: { authorization: `Bearer ${world.key}` } })).status, 401);
  });

  it('takes its token as a header', async () => {
    const answer = await world.ask(preview.host, { headers: { 'X-Cloche-Preview-Token': token } });
    assert.equal(answer.status, 200);
  });

  it('turns the token of a link into a cookie and takes it out of the address', async () => {
    const entry = await world.ask(preview.host, { path: `/a/b?x=1&cloche_token=${token}&y=%20z` });
    assert.equal(entry.status, 302);
    assert.equal(entry.headers.location, `${preview.url}/a/b?x=1&y=%20z`);
    assert.equal(entry.headers['referrer-policy'], 'no-referrer');
    const [cookie = ''] = entry.headers['set-cookie'] ?? [];
    assert.match(cookie, /^cloche-preview=[\w-]+; Path=\/; HttpOnly; SameSite=Lax$/);
    const headers = { cookie: cookie.split(';')[0] ?? '' };
    assert.equal((await world.ask(preview.host, { path: '/a/b', headers })).status, 200);
  });

  it('does not lead elsewhere on entering', async () => {
    const entry = await world.ask(preview.host, { path: `//example.com/?cloche_token=${token}` });
    assert.equal(new URL(entry.headers.location ?? '').host, preview.host);
  });

  it('takes the token of the address of other requests as it is, without a redirect', async () => {
    const answer = await world.ask(preview.host, { method: 'POST', path: `/form?cloche_token=${token}`, body: 'x' });
    assert.deepEqual([answer.status, JSON.parse(answer.text).url], [200, '/form']);
  });

  it('does not take its cookie from pages of other origins, but for links', async () => {
    const cookie = `cloche-preview=${token}`;
    const status = async (method: string, headers: Record<string, string>) =>
      (await world.ask(preview.host, { method, headers: { cookie, ...headers } })).status;
    assert.equal(await status('GET', { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }), 200);
    assert.equal(await status('GET', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }), 200);
    assert.equal(await status('POST', { origin: preview.url }), 200);
    assert.equal(await status('GET', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' }), 401);
    assert.equal(await status('POST', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate' }), 401);
    assert.equal(await status('GET', { origin: 'http://prv-other.localhost' }), 401);
    assert.equal(await status('GET', { origin: 'null' }), 401);
  });

  it('is private to WebSockets too', async () => {
    const request = (more: string) => `GET / HTTP/1.1\r\nHost: ${preview.host}\r\n${SWITCH}${more}\r\n`;
    assert.match(await world.raw(request('')), /^HTTP\/1\.1 401 /);
    const foreign = `Cookie: cloche-preview=${token}\r\nOrigin: http://prv-other.localhost\r\n`;
    assert.match(await world.raw(request(foreign)), /^HTTP\/1\.1 401 /);
  });

  it('what opens a preview does not reach what is previewed', async () => {
    const answer = await world.ask(preview.host, {
      path: `/?cloche_token=${token}`,
      method: 'PUT',
      headers: {
        authorization: `Bearer ${world.key}`,
        cookie: ['mine=1; cloche-preview=x', `cloche-preview=${token}; other=2`],
        'x-cloche-preview-token': token,
        'x-cloche-anything': 'y',
      },
    });
    const { headers, url } = JSON.parse(answer.text);
    assert.deepEqual([url, headers.cookie, headers.authorization], ['/', 'mine=1; other=2', undefined]);
    assert.deepEqual(
      Object.keys(headers).filter((name) => name.startsWith('x-cloche')),
      [],
    );
    assert.ok(!answer.text.includes(token) && !answer.text.includes(world.key));
  });
});
