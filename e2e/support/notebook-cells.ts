/** The cells that `functional/ipykernel.test.ts` runs in ipykernel and in sandboxes: files with `# %%` between cells. */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const FOLDER = join(import.meta.dirname, 'cells');
/** Cells of a reason that the table shows. */
const EXAMPLES = 1;
/** A line between `# %%` and the code of a cell. */
const NOTE = /^# (differs|input|interrupt):(?: (.*))?$/;

export interface Cell {
  readonly code: string;
  /** Why Cloche does something else. */
  readonly differs?: string;
  /** Lines of input that the client gives. Without them it allows no input. */
  readonly input?: readonly string[];
  /** Text at which the client interrupts the cell. */
  readonly interrupt?: string;
}

/** Cells that run in a kernel of their own, in order. */
export interface CellGroup {
  readonly name: string;
  readonly cells: readonly Cell[];
}

export function readCellGroups(): CellGroup[] {
  const files = globSync('*.ipy', { cwd: FOLDER }).sort();
  return files.map((file) => {
    const [, ...cells] = `\n${readFileSync(join(FOLDER, file), 'utf8')}`.split(/\n# %%\n/);
    return { name: basename(file, '.ipy'), cells: cells.map(cellOf) };
  });
}

function cellOf(text: string): Cell {
  const lines = text.replace(/\n$/, '').split('\n');
  const notes = new Map<string, string>();
  for (let note = NOTE.exec(lines[0] ?? ''); note; note = NOTE.exec(lines[0] ?? '')) {
    notes.set(note[1] ?? '', note[2] ?? '');
    lines.shift();
  }
  const { differs, input, interrupt } = Object.fromEntries(notes);
  return {
    code: lines.join('\n'),
    ...(differs !== undefined && { differs }),
    ...(input !== undefined && { input: input.split('|') }),
    ...(interrupt !== undefined && { interrupt }),
  };
}

/** Returns a document with the table of what Cloche does otherwise. */
export function withDifferences(document: string): string {
  const marks = {
    begin: '<!-- The differences from ipykernel begin. -->\n',
    end: '<!-- The differences from ipykernel end. -->\n',
  };
  const [before = '', rest = ''] = document.split(marks.begin);
  const [, after] = rest.split(marks.end);
  if (after === undefined) throw new Error('The document has no place for the differences from ipykernel.');
  const cells = readCellGroups().flatMap((group) => group.cells);
  const reasons = Map.groupBy(cells, ({ differs }) => differs);
  const rows = [...reasons].flatMap(([reason, of]) =>
    reason === undefined ? [] : [`| ${reason} | ${examples(of)} |\n`],
  );
  const head = `| what differs in Cloche | cells |\n| --- | --- |\n`;
  return [before, marks.begin, head, ...rows.sort(), marks.end, after].join('');
}

/** Returns the last lines of the first cells, as code in a table. */
function examples(cells: readonly Cell[]): string {
  const shown = cells.slice(0, EXAMPLES).map(({ code }) => code.trimEnd().split('\n').at(-1)?.trim() ?? '');
  const more = cells.length > EXAMPLES ? ` and ${cells.length - EXAMPLES} more` : '';
  return shown.map((line) => `\`${line.replaceAll('|', '\\|')}\``).join(', ') + more;
}
