/** What the guide promises of the template `python-node`: packages, programs, fonts and locales. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { sharedService, type TestService } from '../support/service.ts';

const GUIDE = readFileSync('docs/guides/code.md', 'utf8');
const TEXTS = ['Grüße', 'Привет', 'Ελληνικά', 'مرحبا', 'שלום', '中文', '日本語', '한국어', 'ไทย', 'नमस्ते'];
const LOCALES = ['de_DE', 'en_US', 'ja_JP', 'zh_CN'];

/** Returns the words in code marks of the first paragraph of a section. */
function listOf(section: string): string[] {
  const [, paragraph = ''] = GUIDE.split(`## ${section}\n\n`);
  const [list = ''] = paragraph.split('\n\n');
  return [...list.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
}

describe('a sandbox of python-node', () => {
  let service: TestService;
  let id: string;
  before(async () => {
    service = await sharedService();
    ({ id } = await service.api.readySandbox());
  });
  const shell = async (command: string) => {
    const { body } = await service.api.post(`/v1/sandboxes/${id}/commands`, { command });
    return body.command as { exitCode: number; stdout: string; stderr: string };
  };

  it('a sandbox of python-node has the programs of the guide', async () => {
    const missing = `for name in ${listOf('Programs').join(' ')}; do command -v $name > /dev/null || echo $name; done`;
    assert.equal((await shell(missing)).stdout, '');
  });

  it('a sandbox of python-node compiles a program in C', async () => {
    const { stdout, stderr } = await shell(
      `cd /tmp && echo 'int puts(const char *); int main(void) { puts("made"); }' > a.c && make -s a && ./a`,
    );
    assert.equal(stdout, 'made\n', stderr);
  });

  it('a sandbox of python-node draws the scripts of the world', async () => {
    const code = `import warnings
import matplotlib.pyplot as plt
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for number, text in enumerate(${JSON.stringify(TEXTS)}): plt.text(0, number / 10, text)
    plt.gcf().canvas.draw()
plt.close()
print([str(each.message) for each in caught])`;
    const { stdout, stderr } = await service.api.run(id, code);
    // Matplotlib also logs what it misses of a font.
    assert.deepEqual([stdout, stderr], ['[]\n', '']);
  });

  it('a sandbox of python-node shows a figure of plotly', async () => {
    const { outputs, error } = await service.api.run(
      id,
      'import plotly.express as px; px.line(x=[1, 2], y=[3, 4]).show()',
    );
    assert.equal(error, undefined);
    assert.ok(outputs.length > 0);
  });

  it('a sandbox of python-node has the locales of the guide', async () => {
    const { stdout } = await shell('locale -a');
    for (const locale of LOCALES) assert.match(stdout, new RegExp(`^${locale}\\.utf8$`, 'm'));
  });

  it('a sandbox of python-node finds the packages of Node.js from any folder', async () => {
    const names = listOf('Packages for Node.js').filter((name) => !['node', 'npm'].includes(name));
    const code = `for (const name of ${JSON.stringify(names)}) await import(name); 'all'`;
    const run = await service.api.run(id, code, { language: 'javascript' });
    assert.equal(run.error, undefined);
    const { stdout, stderr } = await shell(
      'cd /tmp && tsc --version && node -e "console.log(require(\'lodash\').VERSION)"',
    );
    assert.match(stdout, /^Version \S+\n\S+\n$/, stderr);
  });
});
