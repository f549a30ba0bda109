// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of Dockerfiles
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { expand } from './expand-word.ts';

const variables: Record<string, string> = { A: 'one', EMPTY: '', SPACED: 'a b' };
const word = (input: string, escapeCharacter = '\\') => expand(input, (name) => variables[name], { escapeCharacter });
const text = (input: string) => expand(input, (name) => variables[name], { escapeCharacter: '\\', form: 'text' });

// Results of `printf %s WORD` in a shell, where Docker follows it.
describe('expand', () => {
  it('expand replaces variables and removes quotes as a shell does', () => {
    assert.equal(word('x$A-y${A}z$NONE.'), 'xone-yonez.');
    assert.equal(word(`"$A 'x'" '$A "x"' \\$A \\"`), `one 'x' $A "x" $A "`);
    assert.equal(word('"a\\"b\\$A\\\\c\\d"'), 'a"b$A\\c\\d');
    assert.equal(word('costs 5$ or $5'), 'costs 5$ or $5');
    assert.equal(word('$SPACED'), 'a b');
  });

  it('expand knows defaults, alternatives and required variables', () => {
    assert.equal(word('${A:-x} ${NONE:-x} ${EMPTY:-x} ${EMPTY-x} ${NONE-"$A y"}'), 'one x x  one y');
    assert.equal(word('${A:+x}${NONE:+x}${EMPTY:+x}${EMPTY+y}'), 'xy');
    assert.equal(word('${NONE:-${A}}'), 'one');
    assert.throws(() => word('${NONE:?give it}'), /NONE must be set: give it/);
    assert.equal(word('${A:?}'), 'one');
  });

  it('expand keeps quotes in a text, where only a dollar sign can be escaped', () => {
    assert.equal(text(`'$A' "\${A}" \\$A \\n \\\\`), `'one' "one" $A \\n \\`);
  });

  it('expand uses the escape character of the directive', () => {
    assert.equal(word('C:\\dir`$A', '`'), 'C:\\dir$A');
  });

  it('expand refuses what it cannot expand', () => {
    for (const input of ['${A#x}', '${A%.*}', '${A/a/b}', '${', '${A', '${}', '"open', "'open"])
      assert.throws(() => word(input), SyntaxError, input);
  });
});
