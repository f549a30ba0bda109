import type { LaunchSpec } from '@cloche/protocol';
import { describeRuntimeDriver, type RuntimeDriverSubject } from '@cloche/testkit';
import { type HostdFixture, openHostd } from '../../../testing/hostd.ts';

const RESOURCES: LaunchSpec['resources'] = { cpu: 1, memoryBytes: 2 ** 29, diskBytes: 2 ** 28, pids: 128 };

const JAVASCRIPT: RuntimeDriverSubject['programs'] = {
  print: (text) => `console.log(${JSON.stringify(text)})`,
  set: (name, value) => `const ${name} = ${JSON.stringify(value)}`,
  get: (name) => `console.log(${name})`,
  printAndHang: (text) => `console.log(${JSON.stringify(text)})\nfor (;;) {}`,
  echo: (port) => JAVASCRIPT_ECHO.replace('PORT', `${port}`),
};

/** Resolves when instances for `spec` are launched ahead of demand. */
async function claimOne({ driver }: HostdFixture, spec: LaunchSpec): Promise<void> {
  for (let attempt = 1; attempt < 100; attempt += 1) {
    const { agentAnswers } = await driver.launch('sbx_first', attempt, spec, AbortSignal.timeout(60_000));
    await driver.stop('sbx_first', attempt);
    if (agentAnswers) return;
  }
  throw new Error('nothing is launched ahead');
}

async function versionOf(slug: string, { driver }: HostdFixture): Promise<string> {
  const newest = (await driver.templateVersions())
    .filter((version) => version.slug === slug)
    .reduce((one, other) => (other.builtAt > one.builtAt ? other : one));
  return newest.id;
}

const PYTHON_ECHO = `
import asyncio, threading
async def echo(reader, writer):
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    writer.close()
listening = threading.Event()
async def serve():
    server = await asyncio.start_server(echo, '127.0.0.1', PORT)
    listening.set()
    await server.serve_forever()
threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
listening.wait()`;

const JAVASCRIPT_ECHO = `
const { createServer } = await import('node:net');
await new Promise((resolve) => createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket)).listen(PORT, '127.0.0.1', resolve));`;

describeRuntimeDriver('hostd with python', async () => {
  const hostd = await openHostd();
  const templateVersionId = await versionOf('python-node', hostd);
  return {
    driver: hostd.driver,
    spec: { source: { kind: 'template', templateVersionId }, resources: RESOURCES, network: { mode: 'deny-all' } },
    language: 'python',
    programs: {
      print: (text) => `print(${JSON.stringify(text)})`,
      set: (name, value) => `${name} = ${JSON.stringify(value)}`,
      get: (name) => `print(${name})`,
      printAndHang: (text) => `import time\nprint(${JSON.stringify(text)})\nwhile True: time.sleep(1)`,
      echo: (port) => PYTHON_ECHO.replace('PORT', `${port}`),
    },
    close: () => hostd.close(),
  };
});

describeRuntimeDriver('hostd with instances launched ahead', async () => {
  const hostd = await openHostd({
    CLOCHE_POOL_SIZE: '4',
    CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: '512',
    CLOCHE_SANDBOX_DEFAULT_DISK_MB: '256',
    CLOCHE_SANDBOX_DEFAULT_PIDS: '128',
  });
  const spec = {
    source: { kind: 'template', templateVersionId: await versionOf('node', hostd) },
    resources: RESOURCES,
    network: { mode: 'unrestricted' },
  } as const;
  await claimOne(hostd, spec);
  return {
    driver: hostd.driver,
    spec,
    language: 'javascript',
    programs: JAVASCRIPT,
    close: () => hostd.close(),
  };
});

describeRuntimeDriver('hostd with javascript', async () => {
  const hostd = await openHostd();
  const templateVersionId = await versionOf('node', hostd);
  return {
    driver: hostd.driver,
    spec: { source: { kind: 'template', templateVersionId }, resources: RESOURCES, network: { mode: 'deny-all' } },
    language: 'javascript',
    programs: JAVASCRIPT,
    close: () => hostd.close(),
  };
});
