import assert from 'node:assert/strict';
import { globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { execa } from 'execa';
import { firstMissing, kindsOf, OPERATORS_GUIDES, programsOf, runGuide, stepsOf } from '../support/guide.ts';
import { sharedService, type TestService } from '../support/service.ts';

const GUIDE_MS = 180_000;
const GUIDES = globSync('docs/guides/*.md').sort();
const READMES = ['README.md', 'packages/clients/sdk/README.md'];

describe('what runs a guide', () => {
  const fence = '```';
  const closedPort = { url: 'http://127.0.0.1:1', apiKey: 'none', runDir: '/nowhere' };

  async function outcomeOf(markdown: string): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-guide-test-'));
    try {
      writeFileSync(join(folder, 'guide.md'), markdown);
      await runGuide(join(folder, 'guide.md'), closedPort, 2_000);
      return 'fine';
    } catch (error) {
      return String(error);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  it('what runs a guide finds the blocks of sh, and what is shown right below one', () => {
    const markdown = `x\n${fence}sh\necho a\n${fence}\n\n${fence}text\na\n${fence}\n\n${fence}text\nno output\n${fence}\n${fence}ts\nlet x;\n${fence}\n${fence}sh\necho b\n${fence}\nand\n${fence}text\nb\n${fence}\n`;
    assert.deepEqual(stepsOf(markdown), [
      { line: 2, script: 'echo a', shown: ['a'] },
      { line: 16, script: 'echo b', shown: [] },
    ]);
  });

  it('what runs a guide looks for the lines in their order, and for any text where an ellipsis stands', () => {
    assert.equal(firstMissing(['a …', 'c'], 'a 1\nb\nc\n'), undefined);
    assert.equal(firstMissing(['c', 'a …'], 'a 1\nb\nc\n'), 'a …');
    assert.equal(firstMissing(['a'], 'a 1\n'), 'a');
  });

  it('what runs a guide keeps variables from block to block, and fails with the line of the block that does', async () => {
    const sh = (script: string, shown = '') =>
      `${fence}sh\n${script}\n${fence}\n${shown && `${fence}text\n${shown}\n${fence}\n`}`;
    assert.equal(await outcomeOf(sh('x=1') + sh('echo "x is $x"', 'x is 1')), 'fine');
    assert.match(await outcomeOf(sh('true') + sh('false') + sh('true')), /guide\.md:4 ended with 1/);
    assert.match(await outcomeOf(sh('echo a', 'b')), /guide\.md:1 does not print "b"/);
    assert.match(await outcomeOf(sh('sleep 60')), /its time up/);
  });
});

describe('the guide', () => {
  let service: TestService;
  before(async () => {
    service = await sharedService();
  });
  after(() => service.close());

  for (const file of GUIDES.filter((guide) => !OPERATORS_GUIDES.includes(guide))) {
    it(`${file} does what it says, line by line`, () => runGuide(file, service, GUIDE_MS));
  }

  it('each guide has nothing that is not run, or shown by what is', () => {
    for (const file of GUIDES) assert.deepEqual([...kindsOf(readFileSync(file, 'utf8'))].sort(), ['sh', 'text'], file);
  });
});

describe('the programs of guides and READMEs', () => {
  it('the programs of guides and READMEs have the types that the SDK has', async () => {
    const programs = [...GUIDES, ...READMES].flatMap((file) => programsOf(readFileSync(file, 'utf8')));
    assert.ok(programs.length >= 7);
    const folder = mkdtempSync(join(tmpdir(), 'cloche-guide-types-'));
    try {
      // Makes packages available, as `npm install @cloche/sdk` does.
      symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
      const config = { extends: resolve('tsconfig.json'), include: ['*.ts'] };
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
      writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
      for (const [index, program] of programs.entries()) writeFileSync(join(folder, `program-${index}.ts`), program);
      // Further checkers check the packages once more.
      const { stdout } = await execa('node_modules/.bin/tsc', ['-p', folder, '--checkers', '1'], { reject: false });
      assert.equal(stdout, '');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('the README', () => {
  let service: TestService;
  let folder: string;
  let env: Record<string, string>;
  const readme = readFileSync('README.md', 'utf8');
  before(async () => {
    service = await sharedService();
    folder = mkdtempSync(join(tmpdir(), 'cloche-readme-'));
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
    env = { CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey };
  });
  after(async () => {
    rmSync(folder, { recursive: true });
    await service.close();
  });

  it('the README has a first program that runs as it is', async () => {
    const [program = ''] = programsOf(readme);
    writeFileSync(join(folder, 'first.ts'), program);
    const { stdout } = await execa(resolve('node_modules/.bin/node'), ['first.ts'], { cwd: folder, env });
    assert.match(stdout, /mean +2\.0.*0\n1\n2$/s);
  });

  it('the README has lines for curl that run as they are', async () => {
    const lines = readme.match(/^ID=\$\(curl .*?^```/ms)?.[0].slice(0, -3) ?? '';
    assert.equal(lines.match(/localhost:4680/g)?.length, 2);
    const { stdout } = await execa('bash', ['-c', lines.replaceAll('localhost:4680', new URL(service.url).host)], {
      env,
    });
    assert.equal(JSON.parse(stdout).run.outputs[0].value, '2');
  });
});
