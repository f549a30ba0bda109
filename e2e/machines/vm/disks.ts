/** Disks of the virtual machine, each made once for each state of what is on it. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, globSync, linkSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { SYSTEM_PACKAGES } from '../../../packages/host/host-checks/src/index.ts';
import { builtPackages } from '../support/built-packages.ts';
import { cachedFolder, digestOf } from '../support/cached-folder.ts';
import { type Release, UserLand } from '../support/user-land.ts';

/** Packages of Debian: a kernel, systemd, and what Debian installs on a server. */
const PACKAGES = [
  ...['apparmor', 'dbus', 'initramfs-tools', 'kmod', 'linux-image-cloud-amd64', 'netbase', 'procps'],
  ...['systemd', 'systemd-resolved', 'systemd-sysv', 'udev'],
];
/** Sizes of the file systems. The files have holes, so they take as much as their content. */
const ROOT_SIZE = '12G';
const CONTENT_SIZE = '6G';

/** Compiles the code of the services as their preparation does. A whole preparation needs a disk for its cache. */
const COMPILE = `
import { ensureServiceAccounts } from "/opt/cloche/packages/host/setup/src/host/service-account.ts";
import { ensureCompiledCode } from "/opt/cloche/packages/host/setup/src/installation/compiled-code.ts";
const accounts = await ensureServiceAccounts("/dev/null");
if (!(await ensureCompiledCode("/var/cache/cloche", "/opt/cloche", accounts))) throw new Error("not compiled");
`;
const COMMANDS_UNIT = `[Unit]
Description=Runs what the host of this virtual machine asks for
[Service]
ExecStart=/bin/bash /usr/local/bin/commands.sh
Environment=HOME=/root
Restart=always
TasksMax=infinity
LimitNOFILE=524288
[Install]
WantedBy=multi-user.target
`;
const FILES: Readonly<Record<string, string>> = {
  'etc/fstab': '/dev/vda / ext4 defaults 0 1\n/dev/vdb /content ext4 defaults 0 2\n',
  'etc/systemd/network/10-card.network': '[Match]\nName=en* eth*\n[Network]\nDHCP=yes\n',
  'etc/systemd/system/commands.service': COMMANDS_UNIT,
  // An installation writes nothing that must outlive the virtual machine.
  'etc/dpkg/dpkg.cfg.d/vm': 'force-unsafe-io\n',
};

/** The disk of a fresh installation of Debian, and what boots it. */
export interface RootDisk {
  readonly disk: string;
  readonly kernel: string;
  readonly initrd: string;
}

/**
 * Makes the disk of a release. The package is unpacked, the templates are in its cache, and the code of the services is
 * compiled: where the processor is translated, these would take half an hour. The machine configures and starts it.
 */
export async function rootDisk(release: Release): Promise<RootDisk> {
  const commands = join(import.meta.dirname, 'commands.sh');
  const packages = await builtPackages('x64');
  const digest = digestOf([commands, import.meta.filename, join(packages.folder, packages.older)]);
  const templates = await exportedTemplates(join(packages.folder, packages.older));
  const folder = await cachedFolder(`vm-root-${release}`, digest, async (folder) => {
    const needed = SYSTEM_PACKAGES.map(({ packages }) => packages['apt-get']);
    await using land = await UserLand.open(release, [...new Set([...PACKAGES, ...needed])].sort(), {
      [packages.folder]: '/packages',
      [templates]: '/templates',
    });
    for (const [file, content] of Object.entries(FILES)) writeFileSync(land.path(file), content);
    copyFileSync(commands, land.path('usr/local/bin/commands.sh'));
    const { all, exitCode } = await land.run(`set -e
      # The journal of a boot is read after the next one.
      mkdir --parents /content /var/log/journal
      systemctl enable systemd-networkd systemd-resolved commands.service
      dpkg --unpack /packages/${packages.older}
      cloche template import /templates/templates.tar
      /opt/cloche/node_modules/.bin/node --input-type=module --eval '${COMPILE}'
      ln --force --symbolic ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf`);
    if (exitCode !== 0) throw new Error(all);
    for (const name of ['vmlinuz', 'initrd.img']) {
      const [file = ''] = globSync(land.path(`boot/${name}-*`));
      copyFileSync(file, join(folder, name));
    }
    await makeDisk(land.path(''), join(folder, 'disk'), ROOT_SIZE);
  });
  return { disk: join(folder, 'disk'), kernel: join(folder, 'vmlinuz'), initrd: join(folder, 'initrd.img') };
}

/** Returns a folder with an archive of the templates that a package needs. */
function exportedTemplates(packageFile: string): Promise<string> {
  const cli = ['packages/clients/cli/bin/cloche.mjs', 'template', 'export'];
  return cachedFolder('vm-templates', digestOf([packageFile]), async (folder) => {
    await execa(process.execPath, [...cli, join(folder, 'templates.tar')]);
  });
}

/** Makes a disk with the package of a newer version, and this checkout with its dependencies. */
export async function contentDisk(): Promise<string> {
  const packages = await builtPackages('x64');
  const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    encoding: 'utf8',
  });
  const files = list.split('\0').filter((file) => statSync(file || '.').isFile());
  const folder = await cachedFolder('vm-content', digestOf(files.sort()), async (folder) => {
    const content = join(folder, 'content');
    const checkout = join(content, 'checkout');
    mkdirSync(checkout, { recursive: true });
    const link = (from: string, to: string) => execa('cp', ['--archive', '--link', from, to]);
    await link(join(packages.folder, packages.newer), join(content, 'newer.deb'));
    await link('node_modules', checkout);
    await link('packages/shared/typebox/build', parentOf(join(checkout, 'packages/shared/typebox/build')));
    for (const file of files) linkSync(file, parentOf(join(checkout, file)));
    await makeDisk(content, join(folder, 'disk'), CONTENT_SIZE);
    rmSync(content, { recursive: true });
  });
  return join(folder, 'disk');
}

/** Makes the folder of a file, and returns the file. */
function parentOf(file: string): string {
  mkdirSync(dirname(file), { recursive: true });
  return file;
}

async function makeDisk(folder: string, disk: string, size: string): Promise<void> {
  await execa('mke2fs', ['-q', '-t', 'ext4', '-d', folder, disk, size]);
}
