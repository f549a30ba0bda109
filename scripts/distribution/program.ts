import { NODE_LIBRARY } from '../../packages/host/host-checks/src/index.ts';

/** Where distributions have libraries. */
const FOLDERS = ['/lib/*-linux-gnu', '/usr/lib/*-linux-gnu', '/lib64', '/usr/lib64', '/lib', '/usr/lib'];

/**
 * Returns the program `cloche` of a release. No package manager installs the dependencies of the archive, so the program
 * names the library that Node lacks. Node then installs everything else.
 *
 * @param folders patterns of the folders with libraries
 */
export function programText(folders: readonly string[] = FOLDERS): string {
  const { library, packages } = NODE_LIBRARY;
  const { 'apt-get': apt, dnf, zypper, pacman } = packages;
  const remedy = `apt-get install ${apt}, dnf install ${dnf}, zypper install ${zypper}, or pacman -S ${pacman}`;
  return `#!/bin/sh
folder=$(dirname "$(dirname "$(readlink -f "$0")")")
node=$folder/node_modules/.bin/node
run() { exec "$node" "$folder/node_modules/@cloche/cli/bin/cloche.mjs" "$@"; }
for library in ${folders.map((each) => `${each}/${library}`).join(' ')}; do
  [ ! -e "$library" ] || run "$@"
done
# It may be elsewhere.
! "$node" --version > /dev/null 2>&1 || run "$@"
echo "error: Node needs the library ${library}, which is missing. Install it: ${remedy}." >&2
exit 1
`;
}
