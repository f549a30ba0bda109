import { type ClientOptions, Cloche } from '../src/index.ts';
import { sampleSandbox } from './samples.ts';
import { json, type Script, startScriptedServer } from './scripted-server.ts';

/** Creates a sandbox on a server that answers the requests after the creation with `script`. */
export async function scriptedSandbox(script: Script, options: ClientOptions = {}) {
  const server = await startScriptedServer((request) => {
    if (request.path === '/v1/sandboxes') return json(201, { sandbox: sampleSandbox() });
    if (typeof script === 'function') return script(request);
    return script[server.requests.length - 2] ?? json(418, {});
  });
  const cloche = new Cloche({ url: server.url, apiKey: 'clk_test', retryDelayMs: 1, ...options });
  const sandbox = await cloche.sandboxes.create({ template: 'python-node' });
  return { server, sandbox };
}
