import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ProgramText } from './program-text.ts';

const [ESC, BEL] = ['\u001b', '\u0007'];
const ST = `${ESC}\\`;
/** Everything that a terminal may get: text, colours, and movements within the line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const HARMLESS = /^(?:[^\u0000-\u001f\u007f-\u009f]|[\b\t\n\r]|\u001b\[[\d;:]*m)*$/;

const shown = (text: string, hasColors = true) => new ProgramText(hasColors).pass(text);

describe('text of a program', () => {
  it('text of a program is unchanged where it only has text, colours and movements within the line', () => {
    for (const text of [
      'a line\nanother\n',
      '  1%\r 50%\r100%\n',
      'a\tb\bc',
      'näïve 日本語 🎉 👩‍👩‍👧 \u202eabc',
      `${ESC}[31mred${ESC}[0m ${ESC}[1;4;38;5;208mbold${ESC}[m`,
      `${ESC}[38:2::10:20:30mtrue colour${ESC}[39m`,
    ])
      assert.equal(shown(text), text);
  });

  it('text of a program loses what acts on the terminal, and keeps the text around it', () => {
    for (const [title, sequence] of Object.entries(ACTIONS)) {
      assert.equal(shown(`before${sequence}after\n`), 'beforeafter\n', title);
      assert.equal(shown(`${sequence}${ESC}[32mok${ESC}[0m`), `${ESC}[32mok${ESC}[0m`, title);
    }
  });

  it('text of a program loses it however its bytes are spread over parts of the output', () => {
    for (const [title, sequence] of Object.entries(ACTIONS)) {
      const text = new ProgramText(true);
      const parts = [...`a${sequence}b`].map((part) => text.pass(part));
      assert.equal(parts.join(''), 'ab', title);
    }
    const colored = new ProgramText(true);
    assert.deepEqual([colored.pass(`x${ESC}`), colored.pass('[3'), colored.pass('1my')], ['x', '', `${ESC}[31my`]);
  });

  it('text of a program is harmless for each of 500 sequences and more, whole, cut off, nested and in pairs', () => {
    const sequences = corpus();
    assert.ok(sequences.length >= 500, String(sequences.length));
    for (const [index, sequence] of sequences.entries()) {
      const other = sequences[(index * 7 + 3) % sequences.length] ?? '';
      for (const text of [
        sequence,
        sequence.slice(0, -1),
        sequence.slice(0, 2) + other + sequence.slice(2),
        sequence + other,
      ]) {
        const passed = shown(`${text}end\n`);
        assert.match(passed, HARMLESS, JSON.stringify(text));
        assert.ok(passed.endsWith('\n'), JSON.stringify(text));
        // What passed once passes again: nothing of two dropped sequences makes a new one.
        assert.equal(shown(passed), passed, JSON.stringify(text));
      }
    }
  });

  it('text of a program hides no more than the rest of a line behind a sequence that has no end', () => {
    for (const begin of [`${ESC}]0;title`, `${ESC}P`, `${ESC}_G`, `${ESC}[12`, `${ESC}(`, ESC, '\u009d', '\u009b1'])
      assert.match(shown(`${begin}\nnext line\n`), /^\n?next line\n$/, JSON.stringify(begin));
    assert.equal(shown(`a${ESC}[${'1;'.repeat(1000)}1mb`), 'ab');
  });

  it('text of a program has no colours where the terminal shows none', () => {
    assert.equal(shown(`${ESC}[31mred${ESC}[0m\r\n`, false), 'red\r\n');
  });

  it('ends with the attributes that the terminal had before, and without an unfinished sequence', () => {
    for (const [text, end] of [
      ['plain', ''],
      [`${ESC}[8mhidden`, `${ESC}[0m`],
      [`${ESC}[31mred${ESC}[0m`, ''],
      [`${ESC}[31mred${ESC}[m`, ''],
      [`${ESC}[31mred${ESC}[0;1m`, `${ESC}[0m`],
      [`${ESC}[31mred${ESC}[1;0m`, ''],
      [`${ESC}]0;`, ''],
    ] as const) {
      const program = new ProgramText(true);
      program.pass(text);
      assert.equal(program.end(), end, JSON.stringify(text));
      assert.equal(program.pass('next'), 'next', JSON.stringify(text));
    }
  });
});

/** Actions of a terminal that a program can cause, with one sequence of each kind. */
const ACTIONS: Readonly<Record<string, string>> = {
  'sets the title': `${ESC}]0;title${BEL}`,
  'sets the title, ended by ST': `${ESC}]2;title${ST}`,
  'sets the title of tmux and screen': `${ESC}ktitle${ST}`,
  'sets the title by characters of C1': '\u009d2;title\u009c',
  'writes the clipboard': `${ESC}]52;c;cm0gLXJmIH4=${BEL}`,
  'reads the clipboard': `${ESC}]52;c;?${ST}`,
  'begins a hyperlink': `${ESC}]8;;https://example.com/${ST}`,
  'begins a hyperlink with an id': `${ESC}]8;id=1;file:///etc/passwd${BEL}`,
  'sends a notification': `${ESC}]9;message${BEL}`,
  'sends a notification of urxvt': `${ESC}]777;notify;title;text${BEL}`,
  'says the working directory': `${ESC}]7;file://host/tmp${BEL}`,
  'changes the palette': `${ESC}]4;1;rgb:00/00/00${BEL}`,
  'asks for a colour': `${ESC}]11;?${BEL}`,
  'marks a prompt': `${ESC}]133;A${BEL}`,
  'sends a file to iTerm2': `${ESC}]1337;File=inline=1:AAAA${BEL}`,
  'sets a variable of iTerm2': `${ESC}]1337;SetUserVar=a=Yg==${BEL}`,
  'asks for the attributes of the terminal': `${ESC}[c`,
  'asks for the secondary attributes': `${ESC}[>c`,
  'asks for the position of the cursor': `${ESC}[6n`,
  'asks for the title, which becomes input': `${ESC}[21t`,
  'asks for the version': `${ESC}[>0q`,
  'asks for a setting': `${ESC}P$q"p${ST}`,
  'asks for a terminfo entry': `${ESC}P+q544e${ST}`,
  'asks for the checksum of the screen': `${ESC}[1;1;1;1;1;1*y`,
  'asks for the answerback': '\u0005',
  'defines keys': `${ESC}P1;1|17/726d${ST}`,
  'changes keys': `${ESC}[>4;2m`,
  'asks for the keys': `${ESC}[?4m`,
  'takes the alternate screen': `${ESC}[?1049h`,
  'hides the cursor': `${ESC}[?25l`,
  'reports the mouse': `${ESC}[?1000;1006h`,
  'brackets what is pasted': `${ESC}[?2004h`,
  'clears the screen': `${ESC}[2J`,
  'clears what was scrolled': `${ESC}[3J`,
  'moves the cursor up': `${ESC}[1A`,
  'moves the cursor to a place': `${ESC}[1;1H`,
  'clears the line': `${ESC}[2K`,
  'saves and restores the cursor': `${ESC}7${ESC}8`,
  'scrolls a region': `${ESC}[2;5r`,
  'resizes the window': `${ESC}[8;1;1t`,
  'resets the terminal': `${ESC}c`,
  'resets it softly': `${ESC}[!p`,
  'fills the screen': `${ESC}#8`,
  'changes the character set': `${ESC}(0`,
  'shifts the character set': '\u000e\u000f',
  'switches to another encoding': `${ESC}%@`,
  'prints the screen': `${ESC}[i`,
  'draws a sixel': `${ESC}Pq#0;2;0;0;0#0~~$-${ST}`,
  'draws a picture of kitty': `${ESC}_Ga=T,f=100;AAAA${ST}`,
  'asks for pictures of kitty': `${ESC}_Gi=1,a=q;AAAA${ST}`,
  'changes the keyboard of kitty': `${ESC}[>1u`,
  'passes a sequence through tmux': `${ESC}Ptmux;${ESC}${ESC}]0;title${BEL}${ST}`,
  'sends a privacy message': `${ESC}^text${ST}`,
  'sends a start of string': `${ESC}Xtext${ST}`,
  rings: BEL,
  'moves a page down': '\u000c\u000b',
  'sends nothing': '\u0000\u007f',
  'cancels a sequence': `${ESC}[3\u0018${ESC}]0;a\u001a`,
};

/** Returns each sequence with each final character, prefix, introducer and end that terminals know. */
function corpus(): string[] {
  const finals = Array.from({ length: 0x3f }, (_, index) => String.fromCharCode(0x40 + index));
  const controls = ['', '?', '>', '<', '=', '!', '1$', "1'", ' '].flatMap((before) =>
    finals.map((final) => `${ESC}[${before}2${final}`),
  );
  const introducers = [`${ESC}]`, `${ESC}P`, `${ESC}_`, `${ESC}^`, `${ESC}X`, `${ESC}k`, '\u009d', '\u0090', '\u009f'];
  const ends = [BEL, ST, '\u009c', '\u0018', '\u001a', ''];
  const bodies = ['0;t', '52;c;?', '8;;x', '$q"p', 'Ga=q;'];
  const strings = introducers.flatMap((begin) => bodies.flatMap((body) => ends.map((end) => begin + body + end)));
  const escapes = Array.from({ length: 0x4f }, (_, index) => ESC + String.fromCharCode(0x30 + index));
  const singles = Array.from({ length: 0x20 }, (_, index) => String.fromCharCode(index, 0x80 + index));
  return [...Object.values(ACTIONS), ...controls, ...strings, ...escapes, ...singles];
}
