/** Which packages a version has, as programs in its sandbox print them: hostile input, checked and bounded. */

const LONGEST = 200;
const MOST_OF_MANAGER = 5_000;
const LINE = /^(apt|pip|npm)\t([^\t]{1,200})\t([^\t]{1,200})$/;

/** Prints lines of manager, name and version. A manager that the sandbox does not have prints nothing. */
export const LIST_PACKAGES = [
  'bash',
  '-c',
  String.raw`
dpkg-query --show --showformat 'apt\t${'$'}{Package}\t${'$'}{Version}\n' 2>/dev/null
python3 -B -c 'import importlib.metadata as m
for d in m.distributions(): print("pip", d.metadata["Name"], d.version, sep="\t")' 2>/dev/null
npm ls --global --depth=0 --parseable --long 2>/dev/null | sed -n 's/^[^:]*:\(.*\)@\([^@:]*\)$/npm\t\1\t\2/p'
true`,
];
export const LISTED_BYTES = 2 * 1024 * 1024;
export const LISTING_MS = 60_000;

export type InstalledPackages = Readonly<Record<string, Readonly<Record<string, string>>>>;

export function parseInstalledPackages(text: string): InstalledPackages {
  const found: Record<string, Record<string, string>> = {};
  for (const line of text.split('\n')) {
    const [, manager = '', name = '', version = ''] = LINE.exec(line) ?? [];
    if (name === '' || name.length > LONGEST || name === '__proto__') continue;
    found[manager] ??= {};
    const packages = found[manager];
    if (Object.keys(packages).length < MOST_OF_MANAGER) packages[name] = version;
  }
  return found;
}
