import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Preview } from '@cloche/contract';
import { echo, openPreviewWorld, type PreviewWorld, SWITCH } from '../../../testing/previews.ts';

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

  it('a private preview asks for its token, and refuses another', async () => {
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

  it('a private preview takes its token as a header', async () => {
    const answer = await world.ask(preview.host, { headers: { 'X-Cloche-Preview-Token': token } });
    assert.equal(answer.status, 200);
  });

  it('a private preview turns the token of a link into a cookie and takes it out of the address', async () => {
    const entry = await world.ask(preview.host, { path: `/a/b?x=1&cloche_token=${token}&y=%20z` });
    assert.equal(entry.status, 302);
    assert.equal(entry.headers.location, `${preview.url}/a/b?x=1&y=%20z`);
    assert.equal(entry.headers['referrer-policy'], 'no-referrer');
    const [cookie = ''] = entry.headers['set-cookie'] ?? [];
    assert.match(cookie, /^cloche-preview=[\w-]+; Path=\/; HttpOnly; SameSite=Lax$/);
    const headers = { cookie: cookie.split(';')[0] ?? '' };
    assert.equal((await world.ask(preview.host, { path: '/a/b', headers })).status, 200);
  });

  it('a private preview does not lead elsewhere on entering', async () => {
    const entry = await world.ask(preview.host, { path: `//example.com/?cloche_token=${token}` });
    assert.equal(new URL(entry.headers.location ?? '').host, preview.host);
  });

  it('a private preview takes the token of the address of other requests as it is, without a redirect', async () => {
    const answer = await world.ask(preview.host, { method: 'POST', path: `/form?cloche_token=${token}`, body: 'x' });
    assert.deepEqual([answer.status, JSON.parse(answer.text).url], [200, '/form']);
  });

  describe('whose cookie a browser sends', () => {
    const status = async (method: string, fetchFields: Record<string, string>, others: Record<string, string> = {}) => {
      const fields = Object.entries(fetchFields).map(([name, value]) => [`sec-fetch-${name}`, value]);
      const headers = { cookie: `cloche-preview=${token}`, ...Object.fromEntries(fields), ...others };
      return (await world.ask(preview.host, { method, headers })).status;
    };

    it('a private preview whose cookie a browser sends does not accept its cookie from pages of other origins, except for links', async () => {
      assert.equal(await status('GET', { site: 'same-origin', mode: 'cors', dest: 'empty' }), 200);
      assert.equal(await status('GET', { site: 'none', mode: 'navigate', dest: 'document' }), 200);
      assert.equal(await status('POST', {}, { origin: preview.url }), 200);
      for (const site of ['same-site', 'cross-site']) {
        const link = { site, mode: 'navigate', dest: 'document' };
        assert.equal(await status('GET', link), 200);
        assert.equal(await status('HEAD', link), 200);
        assert.equal(await status('POST', link), 401);
        assert.equal(await status('GET', { site, mode: 'cors', dest: 'empty' }), 401);
        assert.equal(await status('GET', { site, mode: 'no-cors', dest: 'script' }), 401);
      }
      assert.equal(await status('GET', {}, { origin: 'http://prv-other.localhost' }), 401);
      assert.equal(await status('GET', {}, { origin: 'null' }), 401);
    });

    it('a private preview whose cookie a browser sends does not open in a frame of another origin, nor ahead of a click', async () => {
      for (const site of ['same-site', 'cross-site']) {
        for (const dest of [
          'iframe',
          'frame',
          'object',
          'embed',
          'fencedframe',
          'portal',
          'empty',
          'webidentity',
          '',
        ]) {
          assert.equal(await status('GET', { site, mode: 'navigate', dest }), 401, dest);
          assert.equal(await status('GET', { site: 'same-origin', mode: 'navigate', dest }), 200, dest);
        }
        assert.equal(await status('GET', { site, mode: 'navigate' }), 401);
      }
      for (const site of ['none', 'same-site', 'cross-site']) {
        for (const purpose of ['prefetch', 'prefetch;prerender', 'prefetch;anonymous-client-ip']) {
          const link = { site, mode: 'navigate', dest: 'document' };
          assert.equal(await status('GET', link, { 'sec-purpose': purpose }), 401, purpose);
        }
        assert.equal(await status('GET', { site, mode: 'no-cors', dest: 'empty' }, { purpose: 'prefetch' }), 401);
      }
    });

    it('a private preview whose cookie a browser sends tells browsers that send no such fields that no other origin may show it', async () => {
      const { headers } = await world.ask(preview.host, { headers: { cookie: `cloche-preview=${token}` } });
      assert.equal(headers['content-security-policy'], "frame-ancestors 'self'");
      assert.equal(headers['cross-origin-resource-policy'], 'same-origin');
      const open = await world.open({ visibility: 'public' });
      assert.equal((await world.ask(open.host)).headers['content-security-policy'], undefined);
    });
  });

  it('a private preview is private to WebSockets too', async () => {
    const request = (more: string) => `GET / HTTP/1.1\r\nHost: ${preview.host}\r\n${SWITCH}${more}\r\n`;
    assert.match(await world.raw(request('')), /^HTTP\/1\.1 401 /);
    const foreign = `Cookie: cloche-preview=${token}\r\nOrigin: http://prv-other.localhost\r\n`;
    assert.match(await world.raw(request(foreign)), /^HTTP\/1\.1 401 /);
  });

  it('tokens and cookies that open a preview do not reach its app', async () => {
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
