/** A small internet for a test: one host in a network namespace, with HTTP and DNS, at documentation addresses. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { execa } from 'execa';

export interface TestInternet extends AsyncDisposable {
  /** Answers HTTP on port 8000 and DNS on 53: `cloche.test` is itself. */
  readonly address: string;
  /** The same host under an address of a private range, which the test's machine can reach and sandboxes may not. */
  readonly privateAddress: string;
  /** The machine's own address on that network; it answers HTTP on port 8001. */
  readonly hostAddress: string;
}

export async function testInternet(): Promise<TestInternet> {
  const name = `cl-e2e-${process.pid}`;
  const network = 100 + (process.pid % 100);
  const address = `203.0.113.${network}`;
  const hostAddress = `203.0.113.${network + 100 > 254 ? network - 100 : network + 100}`;
  const privateAddress = `10.213.${network}.2`;
  const hostLink = `ie2e${process.pid}`.slice(0, 15);
  const children: ChildProcess[] = [];
  const ip = (...args: string[]) => execa('ip', args);
  const undo = async () => {
    for (const child of children) child.kill('SIGKILL');
    await execa('ip', ['netns', 'delete', name], { reject: false });
    await execa('ip', ['link', 'delete', hostLink], { reject: false });
  };
  try {
    await ip('netns', 'add', name);
    await ip('link', 'add', hostLink, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
    await ip('address', 'add', `${hostAddress}/32`, 'dev', hostLink);
    await ip('link', 'set', hostLink, 'up');
    for (const there of [address, privateAddress]) {
      await ip('-n', name, 'address', 'add', `${there}/32`, 'dev', 'eth0');
      await ip('route', 'add', `${there}/32`, 'dev', hostLink);
    }
    await ip('-n', name, 'link', 'set', 'lo', 'up');
    await ip('-n', name, 'link', 'set', 'eth0', 'up');
    await ip('-n', name, 'route', 'add', `${hostAddress}/32`, 'dev', 'eth0');
    await ip('-n', name, 'route', 'add', 'default', 'via', hostAddress, 'dev', 'eth0', 'onlink');
    const script = new URL('./test-internet-host.ts', import.meta.url).pathname;
    children.push(await started(['ip', 'netns', 'exec', name, process.execPath, script, '8000', address]));
    children.push(await started([process.execPath, script, '8001']));
  } catch (error) {
    await undo();
    throw error;
  }
  return { address, privateAddress, hostAddress, [Symbol.asyncDispose]: undo };
}

/** The process, once it has printed its first line. */
async function started([command, ...args]: string[]): Promise<ChildProcess> {
  const child = spawn(command ?? '', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(createInterface(child.stdout), 'line');
  return child;
}
