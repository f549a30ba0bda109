import assert from 'node:assert/strict';
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { firstMissing, runGuide, stepsOf } from '../support/guide.ts';
import { type TestService, testService } from '../support/service.ts';

const GUIDE_MS = 180_000;

describe('what runs a guide', () => {
  const fence = '```';
  const nobody = { url: 'http://127.0.0.1:1', apiKey: 'none' };

  async function outcomeOf(markdown: string): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-guide-test-'));
    try {
      writeFileSync(join(folder, 'guide.md'), markdown);
      await runGuide(join(folder, 'guide.md'), nobody, 2_000);
      return 'fine';
    } catch (error) {
      return String(error);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  it('finds the blocks of sh, and what is shown right below one', () => {
    const markdown = `x\n${fence}sh\necho a\n${fence}\n\n${fence}text\na\n${fence}\n\n${fence}text\nno output\n${fence}\n${fence}ts\nlet x;\n${fence}\n${fence}sh\necho b\n${fence}\nand\n${fence}text\nb\n${fence}\n`;
    assert.deepEqual(stepsOf(markdown), [
      { line: 2, script: 'echo a', shown: ['a'] },
      { line: 16, script: 'echo b', shown: [] },
    ]);
  });

  it('looks for the lines in their order, and for any text where an ellipsis stands', () => {
    assert.equal(firstMissing(['a …', 'c'], 'a 1\nb\nc\n'), undefined);
    assert.equal(firstMissing(['c', 'a …'], 'a 1\nb\nc\n'), 'a …');
    assert.equal(firstMissing(['a'], 'a 1\n'), 'a');
  });

  it('keeps variables from block to block, and fails with the line of the block that does', async () => {
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
    service = await testService();
  });
  after(() => service.close());

  for (const file of globSync('docs/guides/*.md').sort()) {
    it(`${file} does what it says, line by line`, () => runGuide(file, service, GUIDE_MS));
  }
});
