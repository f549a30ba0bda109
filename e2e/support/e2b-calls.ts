/** Calls each public method of E2B's JavaScript clients once, and checks its result. */
import assert from 'node:assert/strict';
import { eventually } from '@cloche/testkit/eventually';
import type { Sandbox as CodeSandbox } from '@e2b/code-interpreter';
import type * as e2b from 'e2b';
import { GIT_CALLS } from './e2b-git-calls.ts';
import type { E2bCalls, E2bSubject } from './e2b-subject.ts';

const ENCODER = new TextEncoder();

const SANDBOX_CALLS: E2bCalls = {
  'Sandbox.create': async ({ client, options }) => {
    const created = await client.Sandbox.create(options);
    assert.equal(await created.isRunning(), true);
    await created.kill();
  },
  'Sandbox.connect': async ({ client, options, sandbox }) =>
    assert.equal((await client.Sandbox.connect(sandbox.sandboxId, options)).sandboxId, sandbox.sandboxId),
  'Sandbox.list': async ({ client, options, sandbox }) => {
    const listed = await client.Sandbox.list(options).nextItems();
    assert.ok(listed.some(({ sandboxId }) => sandboxId === sandbox.sandboxId));
  },
  'Sandbox.kill': async ({ client, options }) => {
    const created = await client.Sandbox.create(options);
    assert.equal(await client.Sandbox.kill(created.sandboxId, options), true);
    assert.equal(await created.isRunning(), false);
  },
  'Sandbox.getInfo': async ({ sandbox }) => assert.equal((await sandbox.getInfo()).state, 'running'),
  'Sandbox.getFullInfo': async ({ client, options, sandbox }) =>
    assert.equal((await client.Sandbox.getFullInfo(sandbox.sandboxId, options)).sandboxId, sandbox.sandboxId),
  'Sandbox.getMetrics': async ({ sandbox }) => assert.ok((await sandbox.getMetrics()).length > 0),
  'Sandbox.setTimeout': async ({ sandbox }) => {
    const { endAt } = await sandbox.getInfo();
    await sandbox.setTimeout(600_000);
    assert.ok((await sandbox.getInfo()).endAt > endAt);
  },
  'Sandbox.isRunning': async ({ sandbox }) => assert.equal(await sandbox.isRunning(), true),
  'Sandbox.getHost': ({ sandbox }) => assert.ok(sandbox.getHost(3000).startsWith(`3000-${sandbox.sandboxId}.`)),
  'Sandbox.uploadUrl': async ({ sandbox }) => {
    const init = { method: 'POST', body: 'signed', headers: { 'content-type': 'application/octet-stream' } };
    assert.equal((await fetch(await sandbox.uploadUrl('/tmp/signed'), init)).status, 200);
    assert.equal(await sandbox.files.read('/tmp/signed'), 'signed');
  },
  'Sandbox.downloadUrl': async ({ sandbox }) => {
    await sandbox.files.write('/tmp/download', 'signed');
    assert.equal(await (await fetch(await sandbox.downloadUrl('/tmp/download'))).text(), 'signed');
  },
  'Sandbox.pause': async ({ sandbox }) => {
    await sandbox.pause();
    assert.equal((await sandbox.getInfo()).state, 'paused');
    await sandbox.connect();
  },
  'Sandbox.betaPause': async ({ sandbox }) => {
    await sandbox.betaPause();
    assert.equal(await sandbox.isRunning(), false);
    await sandbox.connect();
  },
  'Sandbox.fork': ({ client, options, sandbox }) => client.Sandbox.fork(sandbox.sandboxId, options),
  'Sandbox.updateNetwork': ({ sandbox }) => sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'] }),
  'Sandbox.createSnapshot': ({ sandbox }) => sandbox.createSnapshot(),
  'Sandbox.listSnapshots': ({ client, options }) => client.Sandbox.listSnapshots(options).nextItems(),
  'Sandbox.deleteSnapshot': async ({ client, options }) =>
    assert.equal(await client.Sandbox.deleteSnapshot('none', options), false),
};

const FILE_CALLS: E2bCalls = {
  'files.write': async ({ sandbox }) => assert.equal((await sandbox.files.write('/tmp/w', 'x')).path, '/tmp/w'),
  'files.writeFiles': async ({ sandbox }) =>
    assert.equal((await sandbox.files.writeFiles([{ path: '/tmp/w1', data: 'x' }])).length, 1),
  'files.read': async ({ sandbox }) => assert.ok(await sandbox.files.read('/etc/passwd')),
  'files.list': async ({ sandbox }) => assert.ok((await sandbox.files.list('/')).some(({ name }) => name === 'tmp')),
  'files.exists': async ({ sandbox }) => assert.equal(await sandbox.files.exists('/nothing'), false),
  'files.getInfo': async ({ sandbox }) => assert.equal((await sandbox.files.getInfo('/etc/passwd')).owner, 'root'),
  'files.makeDir': async ({ sandbox }) => assert.equal(await sandbox.files.makeDir('/tmp/made'), true),
  'files.rename': async ({ sandbox }) => {
    await sandbox.files.write('/tmp/from', 'x');
    assert.equal((await sandbox.files.rename('/tmp/from', '/tmp/to')).path, '/tmp/to');
  },
  'files.remove': async ({ sandbox }) => {
    await sandbox.files.write('/tmp/removed', 'x');
    await sandbox.files.remove('/tmp/removed');
    assert.equal(await sandbox.files.exists('/tmp/removed'), false);
  },
  'files.watchDir': async ({ sandbox }) => {
    await sandbox.files.makeDir('/tmp/watched');
    const seen: string[] = [];
    const watch = await sandbox.files.watchDir('/tmp/watched', ({ name }) => void seen.push(name));
    await sandbox.files.write('/tmp/watched/new', 'x');
    await eventually(() => seen.includes('new'), { because: 'the watch is open when the client has its answer' });
    await watch.stop();
  },
};

const COMMAND_CALLS: E2bCalls = {
  'commands.run': async ({ sandbox }) => assert.equal((await sandbox.commands.run('echo x')).stdout, 'x\n'),
  'commands.list': async ({ sandbox }) => {
    const command = await sandbox.commands.run('sleep 600', { background: true });
    assert.ok((await sandbox.commands.list()).some(({ pid }) => pid === command.pid));
    await command.kill();
  },
  'commands.connect': async ({ sandbox }) => {
    const command = await sandbox.commands.run('sleep 600', { background: true });
    assert.equal((await sandbox.commands.connect(command.pid)).pid, command.pid);
    await command.kill();
  },
  'commands.kill': async ({ sandbox }) => {
    const command = await sandbox.commands.run('sleep 600', { background: true });
    assert.equal(await sandbox.commands.kill(command.pid), true);
  },
  'commands.sendStdin': async ({ sandbox }) => {
    const command = await sandbox.commands.run('read -r line; echo "$line"', { background: true, stdin: true });
    await sandbox.commands.sendStdin(command.pid, 'typed\n');
    assert.equal((await command.wait()).stdout, 'typed\n');
  },
  'commands.closeStdin': async ({ sandbox }) => {
    const command = await sandbox.commands.run('cat; echo end', { background: true, stdin: true });
    await sandbox.commands.closeStdin(command.pid);
    assert.equal((await command.wait()).stdout, 'end\n');
  },
  'pty.create': async ({ sandbox }) => {
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
    await terminal.kill();
  },
  'pty.connect': async ({ sandbox }) => {
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
    assert.equal((await sandbox.pty.connect(terminal.pid)).pid, terminal.pid);
    await terminal.kill();
  },
  'pty.sendInput': async ({ sandbox, client }) => {
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
    await sandbox.pty.sendInput(terminal.pid, ENCODER.encode('exit 3\n'));
    await assert.rejects(terminal.wait(), client.CommandExitError);
  },
  'pty.resize': async ({ sandbox }) => {
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
    await sandbox.pty.resize(terminal.pid, { cols: 77, rows: 22 });
    await sandbox.pty.sendInput(terminal.pid, ENCODER.encode('[ "$(stty size)" = "22 77" ] && exit 4\n'));
    await assert.rejects(terminal.wait(), (error: e2b.CommandExitError) => error.exitCode === 4);
  },
  'pty.kill': async ({ sandbox }) => {
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
    assert.equal(await sandbox.pty.kill(terminal.pid), true);
  },
};

const OTHER_CALLS: E2bCalls = {
  'Secret.create': async ({ client, options, name }) => {
    const secret = await client.Secret.create(`${name}_new`, 'value', { ...options, metadata: { hosts: 'a.example' } });
    assert.equal(secret.name, `${name}_new`);
  },
  'Secret.getInfo': async (subject) => {
    const { client, options } = subject;
    const { secretId } = await newSecret(subject);
    assert.equal((await client.Secret.getInfo(secretId, options)).secretId, secretId);
  },
  'Secret.list': async (subject) => {
    const { client, options } = subject;
    const { secretId } = await newSecret(subject);
    assert.ok((await client.Secret.list(options).nextItems()).some((each) => each.secretId === secretId));
  },
  'Secret.update': async (subject) => {
    const { client, options } = subject;
    const { name, secretId } = await newSecret(subject);
    assert.equal((await client.Secret.update(name, 'other', options)).secretId, secretId);
  },
  'Secret.exists': async ({ client, options }) => assert.equal(await client.Secret.exists('nothing', options), false),
  'Secret.destroy': async (subject) => {
    const { client, options } = subject;
    const { secretId } = await newSecret(subject);
    assert.equal(await client.Secret.destroy(secretId, options), true);
    assert.equal(await client.Secret.exists(secretId, options), false);
  },
  'Volume.create': ({ client, options }) => client.Volume.create('volume', options),
  'Volume.connect': ({ client, options }) => client.Volume.connect('volume', options),
  'Volume.getInfo': ({ client, options }) => client.Volume.getInfo('volume', options),
  'Volume.list': ({ client, options }) => client.Volume.list(options),
  'Volume.destroy': ({ client, options }) => client.Volume.destroy('volume', options),
  'Template.exists': async ({ client, options }) => {
    assert.equal(await client.TemplateBase.exists('base', options), true);
    assert.equal(await client.TemplateBase.exists('nothing', options), false);
  },
  'Template.aliasExists': async ({ client, options }) =>
    assert.equal(await client.TemplateBase.aliasExists('python-node', options), true),
  'Template.build': async ({ client, options, name }) => {
    await client.TemplateBase.build(client.Template().fromTemplate('base'), `${name}-built`, options);
    assert.equal(await client.TemplateBase.exists(`${name}-built`, options), true);
  },
  'Template.buildInBackground': async (subject) =>
    assert.equal((await inBackground(subject)).name, `${subject.name}-background`),
  'Template.getBuildStatus': async (subject) => {
    const built = await inBackground(subject);
    assert.equal((await subject.client.TemplateBase.getBuildStatus(built, subject.options)).buildID, built.buildId);
  },
  'Template.assignTags': ({ client, options }) => client.TemplateBase.assignTags('base', 'tag', options),
  'Template.removeTags': ({ client, options }) => client.TemplateBase.removeTags('base', 'tag', options),
  'Template.getTags': ({ client, options }) => client.TemplateBase.getTags('base', options),
  'Template.toJSON': async ({ client }) =>
    assert.match(await client.TemplateBase.toJSON(client.Template().fromTemplate('base')), /base/),
  'Template.toDockerfile': ({ client }) =>
    assert.match(client.TemplateBase.toDockerfile(client.Template().fromImage('debian')), /FROM debian/),
};

function inBackground({ client, options, name }: E2bSubject): Promise<e2b.BuildInfo> {
  return client.TemplateBase.buildInBackground(client.Template().fromTemplate('base'), `${name}-background`, options);
}

async function newSecret({ client, options, name }: E2bSubject): Promise<e2b.SecretInfo> {
  return client.Secret.create(`${name}_${crypto.randomUUID()}`, 'value', {
    ...options,
    metadata: { hosts: 'a.example' },
  });
}

export const E2B_CALLS: E2bCalls = { ...SANDBOX_CALLS, ...FILE_CALLS, ...COMMAND_CALLS, ...OTHER_CALLS, ...GIT_CALLS };

const codeOf = ({ sandbox }: E2bSubject) => sandbox as CodeSandbox;

export const INTERPRETER_CALLS: E2bCalls = {
  'Sandbox.runCode': async (subject) => assert.equal((await codeOf(subject).runCode('6 * 7')).text, '42'),
  'Sandbox.createCodeContext': async (subject) =>
    assert.equal((await codeOf(subject).createCodeContext({ language: 'python' })).language, 'python'),
  'Sandbox.listCodeContexts': async (subject) => {
    const { id } = await codeOf(subject).createCodeContext();
    assert.ok((await codeOf(subject).listCodeContexts()).some((each) => each.id === id));
  },
  'Sandbox.restartCodeContext': async (subject) => {
    const context = await codeOf(subject).createCodeContext();
    await codeOf(subject).runCode('x = 1', { context });
    await codeOf(subject).restartCodeContext(context);
    assert.equal((await codeOf(subject).runCode('x', { context })).error?.name, 'NameError');
  },
  'Sandbox.removeCodeContext': async (subject) => {
    const context = await codeOf(subject).createCodeContext();
    await codeOf(subject).removeCodeContext(context);
    await assert.rejects(codeOf(subject).runCode('1', { context }));
  },
};
