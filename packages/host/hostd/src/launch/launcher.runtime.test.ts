import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { IDLE_COMMAND } from '../../testing/hostd-process.ts';
import { makeInstallation, makeSpec, type SpecChanges, type TestInstallation } from '../../testing/installation.ts';
import { hostLeftovers, instanceLeftovers } from '../../testing/leftovers.ts';
import { inOwnMountNamespace } from '../../testing/own-mount-namespace.ts';
import { linkName } from '../addressing/address-plan.ts';
import { HostdError } from '../base/hostd-error.ts';
import { closeHost, type Host, openHost } from '../host/open-host.ts';
import { instanceKey } from '../instance/instance-key.ts';
import { createVeth, Netlink } from '../linux/netlink.ts';
import { Templates } from '../storage/templates.ts';
import { removeInstance } from '../teardown/remove-instance.ts';
import { type LaunchPlan, planForSandbox } from './launch-plan.ts';
import { Launcher } from './launcher.ts';

const STEPS = [
  'intent',
  'slot',
  'disk',
  'root',
  'bundle',
  'cgroup',
  'create',
  'network',
  'start',
  'detach',
  'record',
] as const;
const NAME = { sandboxId: 'sbx_undo', generation: 1 };

inOwnMountNamespace(import.meta.filename, () => {
  let installation: TestInstallation;
  let host: Host;

  before(async () => {
    installation = makeInstallation();
    host = await openHost(installation.config);
  });

  after(async () => {
    await closeHost(host);
    assert.deepEqual(hostLeftovers(installation.config), []);
    installation[Symbol.dispose]();
  });

  async function makePlan(changes: SpecChanges = {}): Promise<LaunchPlan> {
    const spec = await makeSpec(installation.config, { mode: 'unrestricted', ...changes });
    const template = await new Templates(installation.config.templatesDir).find(spec.source.templateVersionId);
    assert.ok(template);
    return planForSandbox(NAME, spec, { ...template, layers: [] });
  }

  function makeLauncher(onStep: (step: string) => void = () => {}, command: readonly string[] = IDLE_COMMAND) {
    return new Launcher(host, { command, onStep });
  }

  describe('a launch', () => {
    test('a launch takes the steps after which the tests below abort it', async () => {
      const steps: string[] = [];
      await makeLauncher((step) => steps.push(step)).launch(await makePlan(), new AbortController().signal);
      await removeInstance(instanceKey(NAME), host);
      assert.deepEqual(steps, STEPS);
      assert.deepEqual(instanceLeftovers(installation.config), []);
    });

    for (const last of STEPS) {
      test(`a launch that is aborted after "${last}" leaves nothing`, async () => {
        const reason = new Error('given up');
        const abort = new AbortController();
        const launcher = makeLauncher((step) => {
          if (step === last) abort.abort(reason);
        });
        await assert.rejects(launcher.launch(await makePlan(), abort.signal), reason);
        assert.deepEqual(instanceLeftovers(installation.config), []);
      });
    }

    test('a launch whose signal is already aborted creates nothing', async () => {
      const launcher = makeLauncher(() => assert.fail('a step was taken'));
      await assert.rejects(launcher.launch(await makePlan(), AbortSignal.abort(new Error('too late'))), /too late/);
      assert.deepEqual(instanceLeftovers(installation.config), []);
    });

    test("a launch whose runtime fails has the runtime's message in its error, and leaves nothing", async () => {
      const launcher = makeLauncher(() => {}, ['/no/such/program']);
      await assert.rejects(launcher.launch(await makePlan(), new AbortController().signal), (error) => {
        assert.ok(error instanceof HostdError);
        assert.equal(error.code, 'launch_failed');
        assert.match(error.message, /no\/such\/program/);
        return true;
      });
      assert.deepEqual(instanceLeftovers(installation.config), []);
    });

    test('a launch replaces the link of a dead instance with the same slot that the kernel has not removed yet', async () => {
      const { installationId } = installation.config;
      const launcher = makeLauncher((step) => {
        if (step !== 'create') return;
        const name = linkName(installationId, host.slots.find(instanceKey(NAME)) ?? assert.fail('no slot'));
        using netlink = new Netlink();
        netlink.apply(createVeth({ name, mtu: 1500, peer: { name: `cx${installationId}` } }));
      });
      const { slot } = await launcher.launch(await makePlan(), new AbortController().signal);
      assert.equal(existsSync(`/sys/class/net/cx${installationId}`), false);
      assert.equal(existsSync(`/sys/class/net/${linkName(installationId, slot)}`), true);
      await removeInstance(instanceKey(NAME), host);
      assert.deepEqual(instanceLeftovers(installation.config), []);
    });

    test('a launch whose socket folder cannot be made fails and leaves nothing', async () => {
      const folder = join(host.socketsDir, instanceKey(NAME));
      mkdirSync(folder);
      await assert.rejects(makeLauncher().launch(await makePlan(), new AbortController().signal), /EEXIST/);
      assert.equal(existsSync(folder), false);
      assert.deepEqual(instanceLeftovers(installation.config), []);
    });

    test('a launch creates a container that its runtime reports as running', async () => {
      const { config } = installation;
      const key = instanceKey(NAME);
      await makeLauncher().launch(await makePlan(), AbortSignal.timeout(30_000));
      const stateDir = join(config.run.hostdDir, config.ociRuntime);
      const { stdout } = await promisify(execFile)(config.ociRuntimeProgram, ['--root', stateDir, 'state', key]);
      assert.equal(JSON.parse(stdout).status, 'running');
      await removeInstance(key, host);
      assert.deepEqual(instanceLeftovers(config), []);
    });

    test('a launch runs the runtime from memory, so that it need not copy itself and start again', async () => {
      const key = instanceKey(NAME);
      let program = '';
      const launcher = makeLauncher((step) => {
        const pid = () => readFileSync(join(host.records.folderOf(key), 'init.pid'), 'utf8');
        if (step === 'create') program = readlinkSync(`/proc/${pid()}/exe`);
      });
      await launcher.launch(await makePlan(), new AbortController().signal);
      await removeInstance(key, host);
      assert.equal(program, `/memfd:${installation.config.ociRuntime} (deleted)`);
    });

    test("a launch does not change the host's null device", async () => {
      const before = statSync('/dev/null');
      await makeLauncher().launch(await makePlan(), new AbortController().signal);
      await removeInstance(instanceKey(NAME), host);
      const { uid, gid, mode } = statSync('/dev/null');
      assert.deepEqual({ uid, gid, mode }, { uid: before.uid, gid: before.gid, mode: before.mode });
    });

    test('a launch leaves nothing mounted in the namespace of hostd', async () => {
      await makeLauncher().launch(await makePlan(), new AbortController().signal);
      assert.equal(existsSync(join(host.mountsDir, instanceKey(NAME))), false);
      await removeInstance(instanceKey(NAME), host);
    });

    test('a launch of a removed template fails and leaves nothing', async () => {
      const plan = await makePlan();
      const template = { ...plan.template, rootfsDir: join(installation.config.runDir, 'gone') };
      rmSync(template.rootfsDir, { recursive: true, force: true });
      await assert.rejects(makeLauncher().launch({ ...plan, template }, new AbortController().signal), /ENOENT/);
      assert.deepEqual(instanceLeftovers(installation.config), []);
    });
  });
});
