/** The ledger of E2B's clients: how calls of their public methods end. `e2b-ledger.test.ts` makes it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export type Verdict = 'works' | 'not yet';
/** Verdicts by method, such as `files.read`. */
export type Methods = Readonly<Record<string, Verdict>>;
/** Methods by client, such as `e2b 2.51.0 of npm`. */
export type Ledger = Readonly<Record<string, Methods>>;

/** Methods whose calls reach no server, with the reason why they do not work. */
export const LOCAL: Readonly<Record<string, string>> = {
  'Sandbox.getMcpUrl': 'sandboxes have no MCP gateway',
  'Sandbox.getMcpToken': 'sandboxes have no MCP gateway',
  'Secret.fill': 'for `network.rules`, which are refused',
  'Secret.iamToken': 'for `network.rules`, which are refused',
};
const ROOT = join(import.meta.dirname, '../..');
export const LEDGER_FILE = join(ROOT, 'e2e/support/e2b-ledger.json');
export const PYTHON_LEDGER_FILE = join(ROOT, 'e2e/support/e2b-python-ledger.json');
export const COMPATIBILITY_FILE = join(ROOT, 'docs/compatibility.md');

/** The classes of a client's type declarations, by the name that the ledger has for their methods. */
const CLASSES: Readonly<Record<string, string>> = {
  SandboxApi: 'Sandbox',
  Sandbox: 'Sandbox',
  Filesystem: 'files',
  Commands: 'commands',
  Pty: 'pty',
  Git: 'git',
  Secret: 'Secret',
  Volume: 'Volume',
  TemplateBase: 'Template',
};

/** Classes whose instances cannot exist, or are only data for a static method. */
const STATIC_ONLY: ReadonlySet<string> = new Set(['Volume', 'TemplateBase']);

/** How a method that works differs from E2B. */
const DIFFERENCES: Readonly<Record<string, string>> = {
  'Sandbox.deleteSnapshot': 'Cloche has no snapshots, so the answer is always that the snapshot does not exist',
  'Sandbox.pause': 'ends a code run; keeps the memory while there is room',
  'Sandbox.betaPause': 'ends a code run; keeps the memory while there is room',
  'Sandbox.list': 'by the times of creations, not of wakes',
  'Sandbox.uploadUrl': 'after a restart of the server, from the next other request of the client on',
  'Sandbox.downloadUrl': 'after a restart of the server, from the next other request of the client on',
  'commands.list': 'a process has a number of its own, and no tag',
  'pty.create': 'bytes that are not UTF-8 are replaced',
  'files.watchDir': 'a file that is moved out of the directory is a removal',
  'Secret.create': 'needs `metadata.hosts`, the hosts that receive the value',
};

export function readLedger(file = LEDGER_FILE): Ledger {
  return JSON.parse(readFileSync(file, 'utf8')) as Ledger;
}

/** Writes a ledger to its file and its table to `docs/compatibility.md`. */
export function writeLedger(file: string, ledger: Ledger): void {
  writeFileSync(file, `${JSON.stringify(ledger, null, 2)}\n`);
  writeFileSync(COMPATIBILITY_FILE, withTables(readFileSync(COMPATIBILITY_FILE, 'utf8')));
}

/** Returns the name, the version and the public methods of a client in `node_modules`. */
export function installedClient(name: string): { title: string; methods: string[] } {
  const folder = dirname(dirname(createRequire(import.meta.url).resolve(name)));
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const declarations = readFileSync(join(folder, 'dist/index.d.ts'), 'utf8');
  return { title: `${manifest.name} ${manifest.version}`, methods: declaredMethods(declarations) };
}

/** Returns the public methods that a client's type declarations name. */
function declaredMethods(declarations: string): string[] {
  const methods = new Set<string>();
  let prefix: string | undefined;
  let isStaticOnly = false;
  for (const line of declarations.split('\n')) {
    const [, name] = /^(?:export )?declare class (\w+)/.exec(line) ?? [];
    if (name !== undefined) {
      prefix = CLASSES[name];
      isStaticOnly = STATIC_ONLY.has(name);
    }
    if (line === '}') prefix = undefined;
    const [, isStatic, method] = /^ {2,4}(static )?(\w+)(?:<.*>)?\(/.exec(line) ?? [];
    if (isStaticOnly && !isStatic) continue;
    if (prefix && method && method !== 'constructor') methods.add(`${prefix}.${method}`);
  }
  return [...methods].sort();
}

/** Returns `docs/compatibility.md` with the tables of the ledgers. */
export function withTables(document: string): string {
  return withTable(withTable(document, 'E2B', LEDGER_FILE), 'E2B for Python', PYTHON_LEDGER_FILE);
}

function withTable(document: string, name: string, file: string): string {
  const marks = { begin: `<!-- The ledger of ${name} begins. -->\n`, end: `<!-- The ledger of ${name} ends. -->\n` };
  const begin = document.indexOf(marks.begin) + marks.begin.length;
  const end = document.indexOf(marks.end);
  if (begin < marks.begin.length || end < begin) throw new Error(`${COMPATIBILITY_FILE} has no place for ${name}.`);
  return document.slice(0, begin) + tableOf(readLedger(file)) + document.slice(end);
}

/** Methods that end in the same way, by the same clients. */
interface Row {
  readonly state: string;
  readonly clients: readonly string[];
  readonly note: string;
  readonly methods: readonly string[];
}

function tableOf(ledger: Ledger): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`;
  const rows = rowsOf(ledger).map(({ state, clients, note, methods }) => {
    const names = methods.map((method) => `\`${method}\``).join(', ');
    return line([state, note === '' ? names : `${names}: ${note}`, titleOf(clients)]);
  });
  return line(['state', 'methods', 'clients']) + line(['---', '---', '---']) + rows.join('');
}

/** Returns one row for all methods that end in the same way. */
function rowsOf(ledger: Ledger): Row[] {
  const methods = [...new Set(Object.values(ledger).flatMap((each) => Object.keys(each)))].sort();
  const ends = methods.flatMap((method) => {
    const difference = DIFFERENCES[inJavaScript(method)];
    const verdicts = new Map<string, string[]>();
    for (const [client, { [method]: verdict }] of Object.entries(ledger)) {
      if (verdict === undefined) continue;
      const state = verdict === 'works' && difference !== undefined ? 'differs' : verdict;
      verdicts.set(state, [...(verdicts.get(state) ?? []), client]);
    }
    const note = difference ?? LOCAL[inJavaScript(method)] ?? '';
    return [...verdicts].map(([state, clients]) => ({ state, clients, note, method }));
  });
  const alike = Map.groupBy(ends, ({ state, clients, note }) => JSON.stringify([state, note, clients]));
  const rows = [...alike.values()].flatMap(([first, ...others]) =>
    first ? [{ ...first, methods: [first, ...others].map(({ method }) => method) }] : [],
  );
  const order = ['works', 'differs', 'not yet'];
  return rows.sort((one, other) => order.indexOf(one.state) - order.indexOf(other.state));
}

/** Returns the clients of a row, such as `e2b 2.51.0, 2.30.5`: the name once, and no word for sync and async both. */
function titleOf(clients: readonly string[]): string {
  const sides = Map.groupBy(clients, (client) => client.replace(/ (sync|async)$/, ''));
  const titles = [...sides].map(([title, each]) => (each.length === 1 && each[0] ? each[0] : title));
  const versions = Map.groupBy(titles, (title) => title.split(' ', 1)[0] ?? '');
  return [...versions]
    .map(([name, each]) => `${name} ${each.map((title) => title.slice(name.length + 1)).join(', ')}`)
    .join('; ');
}

/** Returns the name that a method has in JavaScript, such as `files.getInfo` of `files.get_info`. */
function inJavaScript(method: string): string {
  return method.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}
