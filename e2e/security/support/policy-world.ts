/** Starts three sandboxes that differ only in their network policy, connected to a small internet of the test's own. */
import { sameWithEachRuntime } from '../../support/claims.ts';
import { type OwnService, testService } from '../../support/service.ts';
import { type TestInternet, testInternet } from '../../support/test-internet.ts';
import { asUser, attempts, type Outcomes, outcomesOf } from './attackers.ts';

/** `open` is the control: hosts that it reaches exist, and would be reached without a policy. */
export const SANDBOXES = ['open', 'allow', 'deny'] as const;
export type SandboxName = (typeof SANDBOXES)[number];
/** Option for tests of package managers, which take as long as all other attempts together. */
export const managed = sameWithEachRuntime('they find the root of the gateway in files and variables of the sandbox');
/** Scripts in this order: the first defines the functions of the others, the last runs the attempts. */
const PARTS = [
  'ways',
  'names',
  ...(managed.skip ? [] : ['package-managers']),
  'requests',
  'addresses',
  'odd-protocols',
  'sessions',
  'look-ups',
  'datagrams',
  'outcomes',
];
const ATTEMPTS = PARTS.map((part) => `network/${part}`);

/** Longest time of the attempts in one sandbox. */
const ATTACK_MS = 300_000;

export const GATED = ['allow', 'deny'] as const;

export interface PolicyWorld extends AsyncDisposable {
  readonly internet: TestInternet;
  readonly service: OwnService;
  readonly ids: Readonly<Record<SandboxName, string>>;
  /** Returns the outcomes of the attempts in `attempts/network`: of those in `only`, or of all. */
  attack(name: SandboxName, only?: readonly string[]): Promise<Outcomes>;
}

export async function policyWorld(): Promise<PolicyWorld> {
  const internet = await testInternet();
  const { address, otherAddress, privateAddress, specialAddresses, addressToClose, authority } = internet;
  const closed = [...specialAddresses, addressToClose];
  let service: OwnService | undefined;
  const dispose = async () => {
    await service?.close();
    await internet[Symbol.asyncDispose]();
  };
  try {
    const started = await testService({
      CLOCHE_DNS_UPSTREAM: `${address}:53`,
      CLOCHE_EGRESS_EXTRA_CA: authority.rootFile,
      CLOCHE_EGRESS_DENY_CIDRS: `${addressToClose}/32`,
    });
    service = started;
    const create = async (networkPolicy: object) => (await started.api.readySandbox({ networkPolicy })).id;
    const allowed = ['allowed.test', '*.wild.test', 'private.test', 'changing.test', 'untrusted.test', ...closed];
    const ids = {
      open: await create({ mode: 'unrestricted' }),
      allow: await create({ mode: 'allowlist', hosts: allowed }),
      deny: await create({ mode: 'denylist', hosts: ['denied.test', '*.denied.test', otherAddress] }),
    };
    const attack = async (name: SandboxName, only?: readonly string[]) => {
      const trust = name === 'open' ? { root: authority.root } : {};
      const given = { address, other: otherAddress, private: privateAddress, closed, tag: `tag-${name}` };
      const script = attempts(ATTEMPTS, { ...given, ...trust, ...(only && { only }) });
      return outcomesOf(await asUser(started, ids[name], script, ATTACK_MS));
    };
    return { internet, service, ids, attack, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}
