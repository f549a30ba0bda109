/**
 * Holds Python kernels to ipykernel 7: the cells of `e2e/support/cells` run in both, and Jupyter's client sees the same,
 * but for what the cells name with a reason. `docs/compatibility.md` has a table of the reasons.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual, promisify } from 'node:util';
import { findPythonPackages } from '../../packages/guest/agent/testing/test-cache.ts';
import { JupyterClient } from '../../packages/service/server/testing/jupyter-client.ts';
import { type CellMessage, outcomeOf } from '../support/cell-outcome.ts';
import { runGroup } from '../support/gateway-cells.ts';
import { readCellGroups } from '../support/notebook-cells.ts';
import { pinnedEnvironment } from '../support/pinned-environment.ts';
import { sharedService, type TestService } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');
const REQUIREMENTS = ['requirements-jupyter.txt', 'requirements-ipykernel.txt'].map((file) => join(ROOT, file));
/** Path from a template's packages to the folder that contains its pip. */
const TO_PIP = '../../../../lib/python3/dist-packages';
/** Kernels of the sandbox beside each other. */
const KERNELS = 3;
/** Characters of a difference in the message of a failure. */
const SHOWN = 4000;

const packages = findPythonPackages();
const skip = packages === undefined && 'no python-node template is built: run `npm test -- prepare`';
const groups = readCellGroups();

describe('a cell in a sandbox shows what it shows in ipykernel:', { skip }, () => {
  let service: TestService;
  let folder: string;
  let environment: string;
  const expected = new Map<string, { folder: string; cells: CellMessage[][] }>();
  const found = new Map<string, CellMessage[][]>();
  before(async () => {
    service = await sharedService();
    folder = mkdtempSync(join(tmpdir(), 'cloche-cells-'));
    const sources = [packages ?? '', join(packages ?? '', TO_PIP)];
    environment = pinnedEnvironment(join(folder, 'environment'), REQUIREMENTS, sources);
    await run(groups);
  });
  after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await service?.close();
  });

  async function run(these: typeof groups): Promise<void> {
    await Promise.all([runInIpykernel(these), runInSandbox(these)]);
  }

  async function runInIpykernel(these: typeof groups): Promise<void> {
    const [source, target] = [join(folder, 'cells.json'), join(folder, 'messages')];
    writeFileSync(source, JSON.stringify(these));
    mkdirSync(target, { recursive: true });
    const command = [join(ROOT, 'e2e/support/ipykernel_cells.py'), source, target];
    const env = { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' };
    await promisify(execFile)(join(environment, 'bin/python3'), command, { env, timeout: 400_000 });
    for (const { name } of these) {
      expected.set(name, JSON.parse(readFileSync(join(target, `${name}.json`), 'utf8')));
    }
  }

  async function runInSandbox(these: typeof groups): Promise<void> {
    const jupyter = new JupyterClient(service.url, service.apiKey);
    const { id } = await service.api.readySandbox();
    const waiting = [...these];
    const work = async () => {
      for (let group = waiting.shift(); group; group = waiting.shift()) {
        found.set(group.name, await runGroup(jupyter, `python3@${id}`, group));
      }
    };
    await Promise.all(Array.from({ length: KERNELS }, work));
  }

  /** Returns what is wrong with the cells of a group, by their places. */
  function surprises({ name, cells }: (typeof groups)[number]): Map<number, string> {
    const { folder: place, cells: theirs } = expected.get(name) ?? assert.fail('ipykernel has no messages');
    assert.deepEqual([theirs.length, found.get(name)?.length], [cells.length, cells.length]);
    return new Map(
      cells.flatMap(({ code, differs }, index) => {
        const ipykernel = outcomeOf(theirs[index] ?? [], place);
        const cloche = outcomeOf(found.get(name)?.[index] ?? [], '/workspace');
        const isSame = isDeepStrictEqual(ipykernel, cloche);
        if (isSame === (differs === undefined)) return [];
        const seen = isSame ? 'has a reason to differ, and is the same' : JSON.stringify({ ipykernel, cloche });
        return [[index, `${code}\n${seen.slice(0, SHOWN)}\n`] as const];
      }),
    );
  }

  for (const group of groups) {
    it(`${group.name}, ${group.cells.length} cells`, async () => {
      let wrong = surprises(group);
      if (wrong.size > 0) {
        // ipykernel shows what threads and programs print when it gets to it, which a busy machine delays.
        await run([group]);
        const again = surprises(group);
        wrong = new Map([...wrong].filter(([index]) => again.has(index)));
      }
      // Not compared as values: the difference of long texts would take minutes to find.
      assert.equal(wrong.size, 0, [...wrong.values()].join('\n'));
    });
  }
});
