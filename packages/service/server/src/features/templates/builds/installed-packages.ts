/** Which packages a version has, as programs in its sandbox print them: hostile input, checked and bounded. */

import { TimeSlice } from '@cloche/node-support';

const MOST_OF_MANAGER = 5_000;
const LINE = /^(apt|pip|npm)\t([^\t]{1,200})\t([^\t]{1,200})$/;

/**
 * Prints lines of manager, name and version. A manager that the sandbox does not have prints nothing. Reads the folder
 * of npm itself: `npm ls` computes seven times as long, and half of the whole listing. The three run side by side, and
 * `cat` prints one after the other.
 */
export const LIST_PACKAGES = [
  'bash',
  '-c',
  String.raw`
cat <(dpkg-query --show --showformat 'apt\t${'$'}{Package}\t${'$'}{Version}\n' 2>/dev/null) <(python3 -B -c 'import importlib.metadata as m
for d in m.distributions():
    fields = d.metadata
    print("pip", fields["Name"], fields["Version"], sep="\t")' 2>/dev/null) <(node -e '
const { readdirSync, readFileSync } = require("fs");
const { join } = require("path");
const { env, execPath } = require("process");
const root = join(env.NPM_CONFIG_PREFIX || join(execPath, "../.."), "lib/node_modules");
const names = (folder) => { try { return readdirSync(folder); } catch { return []; } };
const scoped = (scope) => names(join(root, scope)).map((name) => scope + "/" + name);
for (const name of names(root).flatMap((each) => (each[0] === "@" ? scoped(each) : each))) {
  try {
    const { version } = JSON.parse(readFileSync(join(root, name, "package.json"), "utf8"));
    console.log(["npm", name, version].join("\t"));
  } catch {}
}' 2>/dev/null)`,
];
export const LISTED_BYTES = 2 * 1024 * 1024;
export const LISTING_MS = 60_000;

export type InstalledPackages = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Takes time in proportion to the text, in slices. */
export async function parseInstalledPackages(text: string): Promise<InstalledPackages> {
  const found = new Map<string, Map<string, string>>();
  const timeSlice = new TimeSlice();
  for (let start = 0; start < text.length; ) {
    const end = text.indexOf('\n', start);
    const line = text.slice(start, end === -1 ? text.length : end);
    start += line.length + 1;
    const [, manager = '', name = '', version = ''] = LINE.exec(line) ?? [];
    if (name !== '' && name !== '__proto__') {
      const packages = found.get(manager) ?? new Map<string, string>();
      found.set(manager, packages);
      if (packages.size < MOST_OF_MANAGER || packages.has(name)) packages.set(name, version);
    }
    if (timeSlice.isOver) await timeSlice.yieldIfOver();
  }
  return Object.fromEntries([...found].map(([manager, packages]) => [manager, Object.fromEntries(packages)]));
}
