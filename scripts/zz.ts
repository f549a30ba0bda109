import { mkdirSync } from 'node:fs';
import { UserLand } from '/work/wt/m32/e2e/machines/support/user-land.ts';
mkdirSync('/work/cache13', { recursive: true });
const land = await UserLand.open('trixie', ['npm'], { '/work/wt/m32': '/opt/cloche', '/work/cache13': '/var/cache/cloche' });
try { const r = land.run('cd /opt/cloche; time npm run dependencies; time node_modules/.bin/node packages/setup/src/main.ts prepare; apt-get indextargets --format "$(echo \\$\\(RELEASE\\))" "Created-By: Packages" | sort | uniq -c; cat /var/cache/cloche/templates/*/*/rootfs/etc/apt/sources.list | cut -d" " -f1,3-; ls /var/cache/cloche/templates/*'); r.stdout.pipe(process.stdout); r.stderr.pipe(process.stderr); const {exitCode}=await r; console.log('exit', exitCode); } finally { await land[Symbol.asyncDispose](); }
