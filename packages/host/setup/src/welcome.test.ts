import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { welcomeLines } from './welcome.ts';

const url = 'http://127.0.0.1:4680';
const file = '/root/.config/cloche/config.json';

describe('the welcome', () => {
  it('the welcome shows a first key, and uses it in the curl line', () => {
    const text = welcomeLines({ url, firstKey: 'clk_1', client: { file, config: { url, apiKey: 'clk_1' } } }).join(
      '\n',
    );
    assert.match(text, /API key \(shown only now\): {2}clk_1/);
    assert.match(text, /Authorization: Bearer clk_1"/);
    assert.match(text, / \| npx cloche run -/);
  });

  it('the welcome reads the key from where it was kept on later starts, and never prints it', () => {
    const text = welcomeLines({ url, client: { file, config: { url, apiKey: 'clk_1' } } }).join('\n');
    assert.doesNotMatch(text, /clk_1/);
    assert.match(text, /Bearer \$\(sed -n /);
  });

  it('the welcome names URL and key in the lines when the command line is set up for another installation', () => {
    const client = { file, config: { url: 'http://127.0.0.1:9', apiKey: 'clk_other' } };
    const text = welcomeLines({ url, firstKey: 'clk_1', client }).join('\n');
    assert.match(text, /CLOCHE_URL=http:\/\/127\.0\.0\.1:4680 CLOCHE_API_KEY=clk_1 npx cloche run/);
    assert.doesNotMatch(text, /clk_other/);
  });

  it('the welcome asks for $CLOCHE_API_KEY when it knows of no key', () => {
    assert.match(welcomeLines({ url }).join('\n'), /Bearer \$CLOCHE_API_KEY"/);
  });
});
