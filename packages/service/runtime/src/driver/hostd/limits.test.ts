/** Compares limits of the API with limits of messages to the host. The host does not import the contract. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { CapturedManifest, CreateKey, GatedSandbox, LaunchSpec } from '@cloche/protocol';

interface Node {
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, Node>>;
}

/** Returns the most items of the list at a path of properties. */
function mostItems(schema: unknown, ...path: string[]): number | undefined {
  return path.reduce<Node | undefined>((node, name) => node?.properties?.[name], schema as Node)?.maxItems;
}

describe('a list that the API accepts', () => {
  const rows: readonly [string, number, number | undefined][] = [
    ['hosts of a policy, for hostd', LIMITS.networkHosts, mostItems(LaunchSpec, 'network', 'hosts')],
    ['hosts of a policy, for egress', LIMITS.networkHosts, mostItems(GatedSandbox, 'policy', 'hosts')],
    ['modules of a template', LIMITS.templateImports, mostItems(CapturedManifest, 'warm', 'imports')],
    ['projects of a key', LIMITS.apiKeyProjects, mostItems(CreateKey, 'projectIds')],
  ];
  for (const [name, ofApi, ofMessage] of rows) {
    it(`a list of the API fits into its message: ${name}`, () => {
      assert.ok(ofMessage !== undefined && ofMessage >= ofApi, `${ofApi} and ${ofMessage}`);
    });
  }
});
