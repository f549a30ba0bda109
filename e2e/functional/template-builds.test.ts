import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TemplateBuild, TemplateRecipe } from '@cloche/contract';
import { Cloche } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { writeLayout } from '../../packages/shared/image-archive/testing/make-image.ts';
import { sameOnTheHostKernel, sameWithEachRuntime, sameWithEachServer } from '../support/claims.ts';
import { SandboxCommands } from '../support/commands.ts';
import { busyboxRoot } from '../support/image-root.ts';
import { lentService } from '../support/lent-service.ts';
import { packageIndex } from '../support/package-index.ts';
import type { LentService } from '../support/service.ts';
import { testInternet } from '../support/test-internet.ts';

const withinASandbox = (option?: { skip: string | false }) =>
  sameWithEachServer('the sandbox of a step does it, whichever server runs the step', option);

let service: LentService;
before(async () => {
  // No pool: it would make an instance ready of each template here.
  service = await lentService({ CLOCHE_POOL_SIZE: '0' });
});
after(() => service?.close());

async function endOf({ templateId, id }: TemplateBuild): Promise<TemplateBuild> {
  for (;;) {
    const { body } = await service.api.get(`/v1/templates/${templateId}/builds/${id}?waitMs=60000`);
    if (body.build.finishedAt !== undefined) return body.build;
  }
}

async function started(slug: string, recipe: TemplateRecipe): Promise<TemplateBuild> {
  const created = await service.api.post('/v1/templates', { slug, ...recipe });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  return created.body.build;
}

const built = async (slug: string, recipe: TemplateRecipe) => endOf(await started(slug, recipe));

async function rebuilt(slug: string, recipe: TemplateRecipe): Promise<TemplateBuild> {
  const created = await service.api.post(`/v1/templates/${slug}/builds`, recipe);
  assert.equal(created.status, 201, JSON.stringify(created.body));
  return endOf(created.body.build);
}

async function logOf({ templateId, id }: TemplateBuild): Promise<string> {
  const { body } = await service.api.get(`/v1/templates/${templateId}/builds/${id}/logs?limit=1000`);
  return body.data.map(({ data }: { data: string }) => data).join('');
}

async function outputIn(template: string, command: string): Promise<string | undefined> {
  const sandbox = await service.api.readySandbox({ template });
  return (await new SandboxCommands(service, sandbox.id).run(command)).stdout;
}

async function requireNoSandboxes(): Promise<void> {
  const hasNone = async () => {
    const { data } = (await service.api.get('/v1/sandboxes')).body;
    return data.every(({ metadata }: { metadata: object }) => !('templateBuild' in metadata));
  };
  await eventually(hasNone);
}

describe('a template of an organization', () => {
  it('a template of an organization is built from a recipe, and its sandboxes have its files, its environment and its resources', async () => {
    const recipe: TemplateRecipe = {
      from: 'node',
      files: [{ path: '/opt/app/greeting', content: 'hello\n', mode: '0640', as: 'root' }],
      setup: [
        { run: 'cat /opt/app/greeting > /opt/copied && id -un >> /opt/copied' },
        { as: 'user', run: 'echo "$COLOR" > ~/color && id -un >> ~/color' },
      ],
      env: { COLOR: 'green' },
      resources: { memoryMb: 256 },
    };
    const build = await built('first', recipe);
    assert.equal(build.status, 'succeeded', JSON.stringify(build));
    const sandbox = await service.api.readySandbox({ template: 'first' });
    assert.equal(sandbox.templateVersionId, build.templateVersionId);
    assert.equal(sandbox.resources.memoryMb, 256);
    const command = 'stat -c "%a %U" /opt/app/greeting; cat /opt/copied ~/color; echo "$COLOR"; pwd';
    const { stdout } = await new SandboxCommands(service, sandbox.id).run(command);
    assert.equal(stdout, '640 root\nhello\nroot\ngreen\nuser\ngreen\n/workspace\n');

    const last = [...(recipe.setup ?? []), { run: 'echo more > /opt/more' }];
    const changed = await rebuilt('first', { ...recipe, setup: last });
    assert.deepEqual(
      changed.steps.map(({ status }) => status),
      ['cached', 'cached', 'cached', 'succeeded'],
    );
    assert.equal(await outputIn('first', 'cat /opt/more ~/color'), 'more\ngreen\nuser\n');

    const again = await rebuilt('first', recipe);
    assert.equal(again.templateVersionId, build.templateVersionId);
    assert.ok(
      again.steps.every(({ status }) => status === 'cached'),
      'nothing is executed again',
    );

    const failed = await rebuilt('first', { ...recipe, setup: [{ run: 'echo broken >&2; exit 3' }] });
    assert.deepEqual([failed.status, failed.error?.code, failed.error?.step], ['failed', 'step_failed', 2]);
    assert.match(await logOf(failed), /broken\n/);
    assert.equal(
      (await service.api.get('/v1/templates/first')).body.template.defaultVersionId,
      build.templateVersionId,
    );
    await requireNoSandboxes();
  });

  const downloaded = withinASandbox(sameOnTheHostKernel('the managers run within a sandbox'));
  it(
    'a template of an organization has packages of apt, pip and npm, which the steps download',
    downloaded,
    async () => {
      await using internet = await testInternet();
      await using index = await packageIndex(internet);
      const mirrors = await built('mirrors', { from: 'python-node', files: index.files });
      assert.equal(mirrors.status, 'succeeded', await logOf(mirrors));
      const packages = { apt: ['cloche-greeting'], pip: ['cloche-greeting==1.0'], npm: ['cloche-greeting@1.0.0'] };
      const build = await built('packages', { from: 'mirrors', packages, warm: { imports: ['cloche_greeting'] } });
      assert.equal(build.status, 'succeeded', await logOf(build));
      const print = 'python3 -c "import cloche_greeting; print(cloche_greeting.TEXT)"';
      const greetings = await outputIn('packages', `cat /opt/greeting; ${print}; cloche-greeting`);
      assert.equal(greetings, 'hello from apt\nhello from pip\nhello from npm\n');
      const [version] = (await service.api.get('/v1/templates/packages/versions')).body.data;
      for (const [manager, installed] of [
        ['apt', '1.0'],
        ['pip', '1.0'],
        ['npm', '1.0.0'],
      ]) {
        assert.equal(version.packages[manager ?? '']['cloche-greeting'], installed);
      }
    },
  );

  it(
    'a template of an organization is not built of packages of pip that disagree, and names them',
    downloaded,
    async () => {
      await using internet = await testInternet();
      await using index = await packageIndex(internet);
      const pipOf = (...pip: string[]) => ({ packages: { pip } });
      await built('index', { from: 'python-node', files: index.files });
      const agreeing = await built('agreeing', {
        from: 'index',
        ...pipOf('cloche-polite==1.0', 'cloche-greeting==1.0'),
      });
      assert.equal(agreeing.status, 'succeeded', await logOf(agreeing));
      const disagreeing = await built('disagreeing', { from: 'agreeing', ...pipOf('cloche-greeting==2.0') });
      assert.deepEqual([disagreeing.status, disagreeing.error?.code], ['failed', 'step_failed']);
      assert.match(
        await logOf(disagreeing),
        /Packages disagree:\ncloche-polite 1\.0 has requirement cloche-greeting<2/,
      );
      // What a setup has forced is its own affair, also for later builds.
      const setup = [{ run: 'python3 -m pip install cloche-greeting==2.0' }];
      assert.equal((await built('forced', { from: 'agreeing', setup })).status, 'succeeded');
      const later = await built('later', { from: 'forced', ...pipOf('cloche-plain==1.0') });
      assert.equal(later.status, 'succeeded', await logOf(later));
    },
  );

  const kept = sameWithEachRuntime('the server keeps the steps in its database; restarts kills it beside each');
  it(
    'a template of an organization goes on from the last step when the server is killed with -9, and leaves no sandbox',
    kept,
    async () => {
      const build = await started('killed', { from: 'node', setup: [{ run: 'date > /opt/date' }, { run: 'sleep 5' }] });
      const steps = async (): Promise<string[]> => {
        const { body } = await service.api.get(`/v1/templates/${build.templateId}/builds/${build.id}`);
        return body.build.steps.map(({ status }: { status: string }) => status);
      };
      await eventually(async () => (await steps())[1] === 'running');
      await service.kill('server');
      await service.restart('server');
      const ended = await endOf(build);
      assert.equal(ended.status, 'succeeded', JSON.stringify(ended));
      assert.deepEqual(await steps(), ['cached', 'succeeded']);
      await requireNoSandboxes();
    },
  );

  const ended = sameWithEachRuntime('the server ends the sandbox of the step as any other');
  it('a template of an organization is canceled while a step runs, and leaves no sandbox', ended, async () => {
    const build = await started('canceled', { from: 'node', setup: [{ run: 'sleep 1000' }] });
    const path = `/v1/templates/${build.templateId}/builds/${build.id}`;
    await eventually(async () => (await service.api.get(path)).body.build.steps[0].status === 'running');
    assert.equal((await service.api.request('POST', `${path}/cancel`)).body.build.status, 'canceled');
    await requireNoSandboxes();
  });

  const alike = withinASandbox(sameOnTheHostKernel('the agent makes the folder'));
  it('a template of an organization has a workspace, also if its setup has removed it', alike, async () => {
    const ways = { removed: 'rmdir /workspace', moved: 'mv /workspace /opt/moved' };
    for (const [slug, run] of Object.entries(ways)) {
      const recipe: TemplateRecipe = { from: 'node', setup: [{ run }, { as: 'user', run: 'pwd > ~/at' }, { run }] };
      const build = await built(slug, recipe);
      assert.equal(build.status, 'succeeded', `${JSON.stringify(build)} ${await logOf(build)}`);
      const sandbox = await service.api.readySandbox({ template: slug });
      assert.equal(
        (await service.api.run(sandbox.id, 'console.log(process.cwd())', { language: 'javascript' })).stdout,
        '/workspace\n',
      );
      assert.equal(await outputIn(slug, 'cat ~/at; pwd; stat -c %U .'), '/workspace\n/workspace\nuser\n');
    }
  });
});

describe('a template of an image', () => {
  it(
    'a template of an image has the files and variables of the image, and further steps',
    withinASandbox(),
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'cloche-image-'));
      try {
        const archive = join(folder, 'image.tar');
        const config = { Env: ['PATH=/opt/app/bin:/bin', 'GREETING=hi'] };
        writeLayout(archive, { layers: [busyboxRoot()], config, compression: 'gzip' });
        const artifactId = await uploaded(archive);
        const recipe: TemplateRecipe = { from: { artifactId }, setup: [{ run: 'echo "$GREETING" > /greeting' }] };
        const build = await built('image', recipe);
        assert.equal(build.status, 'succeeded', await logOf(build));
        const greeting = await outputIn(
          'image',
          'cat /greeting; echo "$GREETING"; test -e /usr/bin/apt || echo no apt',
        );
        assert.equal(greeting, 'hi\nhi\nno apt\n');
        const again = await rebuilt('image', { ...recipe, setup: [{ run: 'echo "$GREETING" there > /greeting' }] });
        assert.deepEqual(
          again.steps.map(({ status }) => status),
          ['cached', 'succeeded'],
        );
        assert.equal(await outputIn('image', 'cat /greeting'), 'hi there\n');
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  const unpacked = sameWithEachRuntime('the host unpacks images, before there is a sandbox');
  it('a template of an image is refused with the reason when the archive is not an image', unpacked, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-image-'));
    try {
      writeFileSync(join(folder, 'no-image'), 'not an image');
      const artifactId = await uploaded(join(folder, 'no-image'));
      const build = await built('no-image', { from: { artifactId } });
      assert.deepEqual([build.status, build.error?.code, build.error?.step], ['failed', 'step_failed', 1]);
      assert.match(build.error?.message ?? '', /image|archive/i);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

/** Stores a file as an artifact, by way of a sandbox. Returns its id. */
async function uploaded(file: string): Promise<string> {
  const cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
  const sandbox = await cloche.sandboxes.create({ template: 'node', ttlMs: 600_000 });
  await sandbox.files.write('/tmp/uploaded', readFileSync(file));
  const { id } = await sandbox.artifacts.export('/tmp/uploaded');
  await sandbox.kill();
  return id;
}

/** Tries to make ten million empty files. */
const MAKE_FILES = `exec node -e 'for (let i = 0; i < 1e7; i += 1) fs.closeSync(fs.openSync("/opt/" + i, "w"))'`;
const HOSTILE: [string, string, TemplateRecipe['setup'], Partial<TemplateRecipe>, string][] = [
  ['forks without end', 'fork', [{ run: 'f() { f | f & f; }; f' }], {}, 'step_failed'],
  ['fills the disk', 'disk', [{ run: 'cat /dev/zero > /zero' }], { resources: { diskMb: 128 } }, 'disk_full'],
  ['makes files without end', 'inodes', [{ run: MAKE_FILES }], { resources: { diskMb: 128 } }, 'disk_full'],
  ['prints without end', 'print', [{ run: 'yes' }], {}, 'step_failed'],
  ['kills its agent', 'agent', [{ run: 'kill -9 -1; kill -9 1 2; sleep 1000' }], {}, 'sandbox_lost'],
];

describe('a recipe', () => {
  const judged = sameWithEachRuntime('the server judges the failed step; limits tests with each what the code meets');
  for (const [title, slug, setup, more, code] of HOSTILE) {
    const options = slug === 'agent' ? {} : withinASandbox(judged);
    it(`a recipe that ${title} is a failed build with a clear error, and nothing is left`, options, async () => {
      const build = await built(slug, { from: 'node', ...(setup && { setup }), ...more });
      assert.equal(build.status, 'failed', JSON.stringify(build));
      assert.equal(build.error?.code, code, JSON.stringify(build.error));
      assert.ok((build.error?.message.length ?? 0) > 20);
      await requireNoSandboxes();
    });
  }

  it(
    'a recipe can leave programs with set-id bits and links, which give its sandboxes no rights, and no devices',
    withinASandbox(),
    async () => {
      const setup = [
        { run: 'cp /usr/bin/id /usr/bin/head /opt && chmod 6755 /opt/id /opt/head' },
        { run: 'setcap cap_dac_override+ep /opt/head || echo "no setcap"' },
        { run: 'mknod /opt/disk b 7 0 || mknod /opt/memory c 1 1 || echo "no devices" > /opt/devices' },
        {
          run: 'ln -s /proc/1/root/etc/shadow /opt/shadow && ln -s ../../../../../../etc /opt/up && ln /etc/shadow /opt/hard',
        },
      ];
      const build = await built('leaves', { from: 'node', setup });
      assert.equal(build.status, 'succeeded', await logOf(build));
      const commands = new SandboxCommands(service, (await service.api.readySandbox({ template: 'leaves' })).id);
      const lines = async (command: string) => (await commands.run(command)).stdout?.trim().split('\n');
      assert.deepEqual(
        await lines('stat -c %a /opt/id /opt/head; /opt/id -u; cat /opt/devices; ls /opt/disk /opt/memory'),
        ['6755', '6755', '1000', 'no devices'],
      );
      for (const file of ['/etc/shadow', '/opt/hard', '/opt/shadow']) {
        const { exitCode, stdout, stderr } = await commands.run(`/opt/head -c 1 ${file}`);
        assert.deepEqual([exitCode === 0, stdout], [false, ''], file);
        assert.match(stderr ?? '', /Permission denied/, file);
      }
      assert.deepEqual(await lines('cat /opt/up/hostname'), await lines('cat /etc/hostname'));
    },
  );
});
