/** Checks that the programs in C are those that their sources give, and that they need nothing of a root file system. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { type Arch, build, FOLDER, PREFIXES, PROGRAMS, readDigests, sha256, toolsOf } from './static-programs.ts';

const ARCHES = Object.keys(PREFIXES) as Arch[];
const { tools, sha256: digests } = readDigests();
const fileOf = (arch: Arch, name: string) => join(FOLDER, arch, name);

describe('the programs in C', () => {
  it('the programs in C are those whose digests are listed', () => {
    const files = ARCHES.flatMap((arch) => Object.keys(PROGRAMS).map((name) => `${arch}/${name}`));
    assert.deepEqual(
      Object.fromEntries(files.map((file) => [file, sha256(readFileSync(join(FOLDER, file)))])),
      digests,
    );
    assert.deepEqual(globSync('{x64,arm64}/*', { cwd: FOLDER }).sort(), files.sort());
  });

  for (const arch of ARCHES) {
    it(`the programs in C of ${arch} are built to the same bytes`, (test: TestContext) => {
      const found = toolsOf(arch);
      if (found !== tools[arch]) return test.skip(`needs "${tools[arch]}", and there is ${found ?? 'no compiler'}`);
      const folder = mkdtempSync(join(tmpdir(), 'cloche-static-'));
      try {
        for (const name of Object.keys(PROGRAMS)) {
          assert.equal(sha256(build(name, arch, folder)), digests[`${arch}/${name}`], name);
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    });

    it(`the programs in C of ${arch} are small, need no loader, and have no stack or data that can be executed`, () => {
      const machine = { x64: 62, arm64: 183 }[arch];
      for (const name of Object.keys(PROGRAMS)) {
        const { mode, size } = statSync(fileOf(arch, name));
        assert.ok((mode & 0o111) === 0o111 && size < 200_000, `${name}: ${size} bytes, mode ${mode.toString(8)}`);
        const bytes = readFileSync(fileOf(arch, name));
        assert.equal(bytes.readUInt16LE(18), machine, name);
        const segments = segmentsOf(bytes);
        assert.deepEqual(
          segments.filter(
            ({ type, flags }) => type === INTERPRETER || (flags & WRITE_AND_EXECUTE) === WRITE_AND_EXECUTE,
          ),
          [],
          name,
        );
        assert.ok(
          segments.some(({ type }) => type === STACK),
          'without this one, the stack could be executed',
        );
      }
    });
  }

  it('the programs in C of arm64 run, tried by an emulator', (test: TestContext) => {
    const emulator = process.arch === 'arm64' ? [] : ['qemu-aarch64-static'];
    if (emulator[0] && spawnSync(emulator[0], ['--version']).status !== 0) {
      return test.skip('qemu-user-static is not installed');
    }
    const run = (name: string, args: readonly string[]) => {
      const [program = '', ...rest] = [...emulator, fileOf('arm64', name), ...args];
      return spawnSync(program, rest, { encoding: 'utf8', timeout: 30_000 });
    };
    assert.match(run('sudo', ['/nonesuch', '-h']).stdout, /^usage: sudo/);
    assert.match(run('sudo', ['/nonesuch', 'id']).stderr, /^sudo: only sandboxes that E2B's clients/);
    assert.match(run('try-idmapped-mount', []).stderr, /^try-idmapped-mount: names a folder\n$/);
    assert.deepEqual([run('release-shared', []).status, run('enter-root', []).status], [0, 1]);
  });
});

const INTERPRETER = 3;
const STACK = 0x6474e551;
const WRITE_AND_EXECUTE = 3;

/** Returns type and flags of each program header of a 64-bit ELF file. */
function segmentsOf(bytes: Buffer): { type: number; flags: number }[] {
  const [start, size, count] = [Number(bytes.readBigUInt64LE(32)), bytes.readUInt16LE(54), bytes.readUInt16LE(56)];
  return Array.from({ length: count }, (_, index) => {
    const at = start + index * size;
    return { type: bytes.readUInt32LE(at), flags: bytes.readUInt32LE(at + 4) };
  });
}
