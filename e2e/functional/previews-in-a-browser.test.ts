import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import type { Browser, Page } from 'playwright-core';
import { launchChromium } from '../support/chromium.ts';
import { installedPackages } from '../support/installed-packages.ts';
import { type TestService, testService } from '../support/service.ts';

const APP = `
import asyncio, base64, hashlib, threading, urllib.parse

PAGE = b'''<!doctype html><title>the app</title><h1>hello from inside</h1>
<form method=post action=/form><input name=who><button>send</button></form><p id=ws></p>
<script>
document.cookie = 'own=1';
const socket = new WebSocket('ws://' + location.host + '/ws');
socket.onopen = () => socket.send('ping over the socket');
socket.onmessage = ({ data }) => { ws.textContent = data; };
</script>'''

async def serve(reader, writer):
    head = (await reader.readuntil(b'\\r\\n\\r\\n')).decode().split('\\r\\n')
    method, path, _ = head[0].split()
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(':') for line in head[1:])}
    if 'sec-websocket-key' in fields:
        accept = hashlib.sha1((fields['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()
        writer.write(b'HTTP/1.1 101 S\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Accept: ' + base64.b64encode(accept) + b'\\r\\n\\r\\n')
        start, length = await reader.readexactly(2)
        mask = await reader.readexactly(4)
        text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(await reader.readexactly(length & 127)))
        writer.write(bytes([0x81, len(text)]) + text)
        await writer.drain()
        await reader.read()
    else:
        form = urllib.parse.parse_qs((await reader.readexactly(int(fields.get('content-length', 0)))).decode())
        body = PAGE if method == 'GET' else ('<h1>thanks, ' + form['who'][0] + '</h1><p id=cookies>' + fields.get('cookie', '') + '</p>').encode()
        writer.write(b'HTTP/1.1 200 OK\\r\\nContent-Type: text/html\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n' % len(body) + body)
    await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', 8000)
    await server.serve_forever()
threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()`;

const VITE_PAGE = `<!doctype html><h1></h1><input><script type=module>
import { show } from './app.js';
show();
import.meta.hot.accept('./app.js', (changed) => changed.show());
</script>`;

let service: TestService;
let browser: Browser;
let sandboxId: string;
before(async () => {
  // Names below `previews.localhost` share a site, as those of an operator's domain do; names below `localhost` do not.
  service = await testService({ CLOCHE_PREVIEW_URL: 'http://previews.localhost' });
  browser = await launchChromium(service.url, { '*.previews.localhost': new URL(service.url).host });
  sandboxId = (await service.api.readySandbox()).id;
});
after(async () => {
  await browser?.close();
  await service?.close();
});

/** Creates a preview, and returns its URL and the link that opens it. */
async function openPreview(port: number, body: Record<string, unknown> = {}): Promise<{ url: string; link: string }> {
  const answer = await service.api.post(`/v1/sandboxes/${sandboxId}/previews`, { port, ...body });
  const { url, accessToken } = answer.body.preview;
  return { url, link: `${url}/?cloche_token=${accessToken}` };
}

async function put(target: string, body: string | ReadableStream<Uint8Array>): Promise<void> {
  const response = await fetch(`${service.url}/v1/sandboxes/${sandboxId}/files/${target}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/octet-stream' },
    body,
    duplex: 'half',
  });
  assert.ok(response.ok, await response.text());
}

const putFile = (path: string, content: string) => put(`content?path=${path}`, content);

/** Copies packages, as `npm install` would: sandboxes of tests reach no registry. */
async function unpackPackages(name: string, path: string): Promise<void> {
  const { modules, folders } = installedPackages(name);
  const tar = spawn('tar', ['-c', '-C', modules, ...folders], { stdio: ['ignore', 'pipe', 'inherit'] });
  await put(`archive?path=${path}`, Readable.toWeb(tar.stdout));
}

async function inPage(act: (page: Page) => Promise<void>): Promise<void> {
  const context = await browser.newContext();
  try {
    await act(await context.newPage());
  } finally {
    await context.close();
  }
}

/** Returns how many requests to previews were refused because they had no token. */
async function refused(): Promise<number> {
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  return Number(/cloche_preview_requests_total\{outcome="preview_token_required"\} (\d+)/.exec(metrics)?.[1] ?? 0);
}

describe('in a browser, a preview', () => {
  it('in a browser, a preview waits on its page until something listens, then shows a page with a WebSocket and takes a form', async () => {
    const { url, link } = await openPreview(8000);
    await inPage(async (page) => {
      assert.equal((await page.goto(link))?.status(), 502);
      assert.match((await page.textContent('main')) ?? '', /port 8000/);
      assert.equal(page.url(), `${url}/`);
      assert.equal((await service.api.run(sandboxId, APP)).error, undefined);
      // The page polls by itself.
      await page.waitForSelector('h1:text("hello from inside")');
      await page.waitForSelector('#ws:text("ping over the socket")');
      await page.fill('input[name=who]', 'a browser');
      await page.click('button');
      await page.waitForSelector('h1:text("thanks, a browser")');
      // The app gets its own cookie, and not the one that opened the preview.
      assert.equal(await page.textContent('#cookies'), 'own=1');
    });
  });

  it('in a browser, a preview is open only to holders of its link, and its cookie is out of reach for scripts and other previews', async () => {
    const { url, link } = await openPreview(8000);
    const other = await openPreview(8000);
    await inPage(async (page) => {
      assert.equal((await page.goto(url))?.status(), 401);
      await page.goto(link);
      assert.equal(await page.evaluate('document.cookie'), 'own=1');
      assert.equal((await page.goto(other.url))?.status(), 401);
      await page.goto(other.link);
      // For a page of another preview, the first one is another origin: it can neither read responses nor open sockets.
      const read = `fetch('${url}/', { credentials: 'include' }).then(() => 'read', () => 'refused')`;
      assert.equal(await page.evaluate(read), 'refused');
      const socketUrl = `${url.replace('http', 'ws')}/ws`;
      const open = `new Promise((done) => { const s = new WebSocket('${socketUrl}'); s.onopen = () => done('open'); s.onerror = () => done('refused'); })`;
      assert.equal(await page.evaluate(open), 'refused');
      const api = `fetch('${service.url}/v1/sandboxes').then(() => 'read', () => 'refused')`;
      assert.equal(await page.evaluate(api), 'refused');
    });
  });

  it('in a browser, a preview is opened by a link of another preview, but not in a frame of it, although the browser has the cookie', async () => {
    const { url, link } = await openPreview(8000);
    const other = await openPreview(8000);
    await inPage(async (page) => {
      await page.goto(link);
      await page.goto(other.link);
      await page.setContent(`<a href="${url}/">its neighbour</a>`);
      const [followed] = await Promise.all([page.waitForNavigation(), page.click('a')]);
      assert.equal(followed?.status(), 200);

      await page.goto(other.url);
      for (const tag of ['iframe src', 'object data', 'embed src', 'frame src']) {
        const element = `<${tag}="${url}/">`;
        const answered = page.waitForResponse((response) => response.url() === `${url}/`);
        await page.setContent(tag.startsWith('frame') ? `<frameset cols="*">${element}</frameset>` : element);
        assert.equal((await answered).status(), 401, tag);
        // The control: without the check the request would have succeeded, because the browser sent the cookie.
        assert.match((await (await answered).request().allHeaders()).cookie ?? '', /cloche-preview=/, tag);
      }
      for (const action of ['prefetch', 'prerender']) {
        const refusedBefore = await refused();
        const rules = JSON.stringify({ [action]: [{ source: 'list', urls: [`${url}/${action}`] }] });
        const insert = `const s = document.createElement('script'); s.type = 'speculationrules'; s.textContent = '${rules}'; document.body.append(s);`;
        await page.goto(other.url);
        await page.evaluate(`(() => { ${insert} })()`);
        await eventually(async () => (await refused()) > refusedBefore);
      }
    });
  });

  it('clears no cookies of its neighbours', async () => {
    const { url, link } = await openPreview(8000);
    const other = await openPreview(8002);
    const app = `
import http.server, threading
class Clear(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Clear-Site-Data', '"cookies", "storage"')
        self.end_headers()
        self.wfile.write(b'cleared')
threading.Thread(target=http.server.HTTPServer(('127.0.0.1', 8002), Clear).serve_forever, daemon=True).start()`;
    assert.equal((await service.api.run(sandboxId, app)).error, undefined);
    await inPage(async (page) => {
      await page.goto(link);
      await page.goto(other.link);
      assert.match(await page.content(), /cleared/);
      assert.equal((await page.goto(url))?.status(), 200);
    });
  });

  it('in a browser, a preview shows a dev server whose pages update in place when a file changes', async () => {
    const source = (text: string) =>
      `export const show = () => { document.querySelector('h1').textContent = '${text}'; };`;
    await unpackPackages('vite', 'site/node_modules');
    await putFile('site/index.html', VITE_PAGE);
    await putFile('site/app.js', source('first'));
    const command = ['node', 'node_modules/vite/bin/vite.js', '--host=127.0.0.1', '--port=8001', '--strictPort'];
    const body = { command, cwd: '/workspace/site', background: true };
    assert.equal((await service.api.post(`/v1/sandboxes/${sandboxId}/commands`, body, 'auto')).status, 201);
    const { link } = await openPreview(8001);
    await inPage(async (page) => {
      await page.goto(link);
      await page.waitForSelector('h1:text("first")');
      await page.fill('input', 'typed');
      await putFile('site/app.js', source('second'));
      await page.waitForSelector('h1:text("second")');
      assert.equal(await page.inputValue('input'), 'typed');
    });
  });
});
