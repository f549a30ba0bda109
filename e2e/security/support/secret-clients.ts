import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { CACHE_DIR } from '../../../packages/guest/agent/testing/test-cache.ts';
import { ensurePythonTools } from '../../../scripts/python-tools.ts';
import type { SandboxCommands } from '../../support/commands.ts';
import type { TestService } from '../../support/service.ts';

const REQUIREMENTS = join(import.meta.dirname, '../../../requirements-e2b.txt');
/** httpx with HTTP/2, and what it requires. */
const HTTPX = 'httpx httpcore h11 h2 hpack hyperframe anyio certifi idna typing_extensions.py'.split(' ');
const HTTPX_FOLDER = '/home/user/httpx';
const PYTHON_WITH_HTTPX = `PYTHONPATH=${HTTPX_FOLDER} python3`;

/** A script that sends the variable `KEY` to the host as a credential, and the scheme of the credential. */
export interface SecretClient {
  readonly script: string;
  readonly sends: 'Bearer' | 'Basic';
}

/** Installs httpx in a sandbox, as the curated image does not have it. */
export async function installHttpx(service: TestService, { sandboxId }: SandboxCommands): Promise<void> {
  const folder = ensurePythonTools(CACHE_DIR, REQUIREMENTS);
  const archive = execFileSync('tar', ['-C', folder, '-cf', '-', ...HTTPX], { maxBuffer: 100 * 1024 * 1024 });
  const headers = { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/octet-stream' };
  const url = `${service.url}/v1/sandboxes/${sandboxId}/files/archive?path=${HTTPX_FOLDER}`;
  const response = await fetch(url, { method: 'PUT', headers, body: new Uint8Array(archive) });
  assert.equal(response.status, 200, await response.text());
}

/** Returns a script for each client of the curated image, and for httpx. */
export function secretClients(host: string): Record<string, SecretClient> {
  const https = `https://${host}`;
  return {
    'curl in HTTP/1.1': { script: `curl -sSf --http1.1 -H "Authorization: Bearer $KEY" ${https}/`, sends: 'Bearer' },
    'curl in HTTP/2': { script: `curl -sSf --http2 -H "Authorization: Bearer $KEY" ${https}/`, sends: 'Bearer' },
    'curl with a password': { script: `curl -sSf -u "me:$KEY" ${https}/private/`, sends: 'Basic' },
    "Python's urllib": {
      script: `python3 -c 'import os, urllib.request as u
u.urlopen(u.Request("${https}/", headers={"Authorization": "Bearer " + os.environ["KEY"]})).read()'`,
      sends: 'Bearer',
    },
    "Python's requests": {
      script: `python3 -c 'import os, requests
requests.get("${https}/private/", auth=("me", os.environ["KEY"])).raise_for_status()'`,
      sends: 'Basic',
    },
    "Node's fetch": {
      script: `node -e 'fetch("${https}/", { headers: { authorization: "Bearer " + process.env.KEY } }).then((r) => r.text())'`,
      sends: 'Bearer',
    },
    "Node's https": {
      script: `node -e 'require("https").get("${https}/", { headers: { authorization: "Bearer " + process.env.KEY } }, (r) => r.resume())'`,
      sends: 'Bearer',
    },
    "Node's http2": {
      script: `node -e 'const s = require("http2").connect("${https}");
s.request({ ":path": "/", authorization: "Bearer " + process.env.KEY }).on("response", () => s.destroy()).resume()'`,
      sends: 'Bearer',
    },
    git: { script: `git ls-remote "https://me:$KEY@${host}/private/x.git" || true`, sends: 'Basic' },
    pip: {
      script: `pip download -q --no-deps --retries 0 --index-url "https://me:$KEY@${host}/private/simple" none || true`,
      sends: 'Basic',
    },
    npm: {
      script: `cd /tmp && npm view none --fetch-retries=0 --registry=${https}/private/ "--//${host}/private/:_authToken=$KEY" || true`,
      sends: 'Bearer',
    },
    'a WebSocket': {
      script: `node -e 'require("https").get("${https}/", { headers: { authorization: "Bearer " + process.env.KEY, connection: "Upgrade",
upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" } }).on("upgrade", (r, s) => s.destroy())'`,
      sends: 'Bearer',
    },
    "Python's httpx": {
      script: `${PYTHON_WITH_HTTPX} -c 'import os, httpx
answer = httpx.get("${https}/private/", auth=("me", os.environ["KEY"])).raise_for_status()
assert answer.http_version == "HTTP/1.1", answer.http_version'`,
      sends: 'Basic',
    },
    "Python's httpx in HTTP/2": {
      script: `${PYTHON_WITH_HTTPX} -c 'import asyncio, os, httpx
async def main():
    async with httpx.AsyncClient(http2=True) as client:
        answer = await client.get("${https}/", headers={"Authorization": "Bearer " + os.environ["KEY"]})
    answer.raise_for_status()
    assert answer.http_version == "HTTP/2", answer.http_version
asyncio.run(main())'`,
      sends: 'Bearer',
    },
  };
}
