import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runNpm } from './npm.ts';
import { releaseTime, type Tree } from './tree.ts';

/** Writes the software bill of materials of a tree, in the format of CycloneDX. Returns its path in `out`. */
export function writeBillOfMaterials({ architecture, folder }: Tree, out: string, version: string): string {
  const bill = JSON.parse(runNpm(folder, 'sbom', '--sbom-format=cyclonedx', '--sbom-type=application', '--omit=dev'));
  bill.metadata.timestamp = new Date(releaseTime() * 1000).toISOString();
  // A random number by default.
  bill.serialNumber = `urn:uuid:${uuidOf(JSON.stringify(bill.components))}`;
  const file = join(out, `cloche-${version}-linux-${architecture}.cdx.json`);
  writeFileSync(file, `${JSON.stringify(bill, null, 2)}\n`);
  return file;
}

function uuidOf(content: string): string {
  const digits = createHash('sha256').update(content).digest('hex');
  // The format of version 8, whose content is up to its maker.
  return digits.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5');
}
