/**
 * Writes a table of how E2B's own suites end against a service: `node scripts/e2b-suites.ts FOLDER`. The folder has the
 * reports of their runs: JSON of vitest (`*.json`) and JUnit's XML of pytest (`*.xml`).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Case {
  readonly file: string;
  readonly name: string;
  readonly passed: boolean;
  readonly message: string;
}

/** Cases that say nothing about a service, or about what it has, by their files and names. */
const LEFT_OUT: readonly (readonly [reason: string, pattern: RegExp])[] = [
  ['need the internet', /internet.?access|test_network|\/network\.test|httpbin|sandbox_factory_egress/i],
  [
    'talk to mocks, or to E2B’s own hosts',
    /client\.test|egress.?proxy|iam\.test|abortSignal|urls?\.test|test_sandbox_urls|connection.?config|config.?propagation|http2|undici|volume|inflight|validate_?api_?key|handle\w+Error|secret\/secret\.test|paginator|utils|is\.test|lifecycle.?request|network.?transform|envd_/i,
  ],
  ['need other languages', /\b(r|java)\b|test_(r|java)_|_r\b|_java\b|env_vars[/.](test_)?(r|java)/i],
  ['make snapshots or forks', /snapshot.?api|fork/i],
  ['pause without the memory', /filesystem.?only|keep_?memory/i],
  ['build templates', /template/i],
];

/** Returns the cases of one report. */
export function casesOf(file: string, text: string): Case[] {
  return file.endsWith('.json') ? ofVitest(text) : ofPytest(text);
}

interface VitestReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
}

function ofVitest(text: string): Case[] {
  const { testResults }: VitestReport = JSON.parse(text);
  return testResults.flatMap(({ name: path, assertionResults }) => {
    const file = path.replace(/^.*\/tests\//, '');
    const ran = assertionResults.filter(({ status }) => status === 'passed' || status === 'failed');
    return ran.map(({ fullName: name, status, failureMessages: [message = ''] = [] }) => ({
      file,
      name,
      passed: status === 'passed',
      message: firstLine(message),
    }));
  });
}

function ofPytest(text: string): Case[] {
  const found = [...text.matchAll(/<testcase ([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)];
  return found.flatMap(([, attributes = '', inner = '']) => {
    if (inner.includes('<skipped')) return [];
    const [, file = ''] = /classname="([^"]*)"/.exec(attributes) ?? [];
    const [, name = ''] = /(?:^|\s)name="([^"]*)"/.exec(attributes) ?? [];
    const [failure, message = ''] = /<(?:failure|error) message="([^"]*)"/.exec(inner) ?? [];
    return [{ file, name, passed: failure === undefined, message: firstLine(message) }];
  });
}

function firstLine(text: string): string {
  return text.split(/\n|&#10;/, 1)[0] ?? '';
}

/** Returns why a case is left out; undefined if it counts. */
export function reasonOf({ file, name }: Pick<Case, 'file' | 'name'>): string | undefined {
  return LEFT_OUT.find(([, pattern]) => pattern.test(`${file} ${name}`))?.[0];
}

/** Returns a table with a row for each report, the sum, what was left out, and each case that failed. */
export function tableOf(reports: Readonly<Record<string, readonly Case[]>>): string {
  const row = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |\n`;
  let text = row(['suite', 'cases', 'passed', 'left out']) + row(['---', '---', '---', '---']);
  const all = Object.values(reports).flat();
  for (const [name, cases] of [...Object.entries(reports), ['all', all] as const]) {
    const counted = cases.filter((each) => reasonOf(each) === undefined);
    const passed = counted.filter((each) => each.passed).length;
    text += row([name, counted.length, passed, cases.length - counted.length]);
  }
  text += `\n${LEFT_OUT.map(([reason]) => `- ${all.filter((each) => reasonOf(each) === reason).length} ${reason}`).join('\n')}\n`;
  const failed = all.filter((each) => !each.passed && reasonOf(each) === undefined);
  return `${text}\n${failed.map(({ file, name, message }) => `- ${file}: ${name}: ${message}\n`).join('')}`;
}

if (import.meta.main) {
  const [folder = '.'] = process.argv.slice(2);
  const files = readdirSync(folder).filter((file) => /\.(json|xml)$/.test(file));
  const reports = files.map((file) => [file, casesOf(file, readFileSync(join(folder, file), 'utf8'))] as const);
  process.stdout.write(tableOf(Object.fromEntries(reports)));
}
