import type { FirewallChain } from './firewall-chains.ts';
import type { ProbedClass } from './probe-rules.ts';

/** The hook where a firewall drops packets: `input` for packets to the host, `forward` for packets that it forwards. */
export type BlockedHook = 'input' | 'forward';

/** Prefix of the names of links, of every installation. */
const LINK = { open: 'cl', gated: 'ce' } as const satisfies Record<ProbedClass, string>;

/**
 * Returns how to open a firewall for a class of sandboxes. The probe has found that packets are blocked; which
 * firewalls this host has chooses only the words. Where several have chains at the hook, each gets its rule, because
 * every firewall has to accept a packet, and a rule that is not needed does no harm.
 */
export function firewallRemedy(chains: readonly FirewallChain[], hook: BlockedHook, linkClass: ProbedClass): string {
  const link = LINK[linkClass];
  const isUfw = chains.some(({ name }) => name.startsWith('ufw-'));
  const isFirewalld = chains.some(({ table }) => table === 'firewalld');
  const isDocker = chains.some(({ name }) => name === 'DOCKER-USER');
  const remedies: string[] = [];
  if (isUfw) remedies.push(run([`ufw ${hook === 'forward' ? 'route ' : ''}allow in on ${link}+`]));
  if (isFirewalld) {
    const add = `firewall-cmd --permanent --zone=trusted --add-interface=${link}+`;
    remedies.push(run([add, 'firewall-cmd --reload']));
  }
  const others = chains.filter((chain) => chain.hook === hook && chain.table !== 'firewalld');
  // A chain that drops by its policy is a cause; any other chain may have a rule that drops.
  const dropping = others.filter(({ policy }) => policy === 'drop');
  const suspects = dropping.length > 0 || remedies.length > 0 ? dropping : others;
  for (const chain of suspects) {
    const isShared = isOfIptables(chain) && (isUfw || (isDocker && hook === 'forward'));
    if (!isShared)
      remedies.push(`${run(openChain(chain, linkClass))} Keep the rules where this firewall is configured.`);
    else if (!isUfw) remedies.push('Install iptables: Cloche then adds its rules to the chain DOCKER-USER by itself.');
  }
  return [...new Set(remedies)].join(' ') || NOTHING_FOUND;
}

const NOTHING_FOUND =
  'Neither nft nor iptables-legacy shows a chain that could drop them: look for a firewall that uses eBPF, and at the routing rules.';

/** Returns commands that insert rules before all others of the chain. */
function openChain({ family, table, name, hook, isLegacy }: FirewallChain, linkClass: ProbedClass): string[] {
  const link = LINK[linkClass];
  const protocols = linkClass === 'gated' && hook === 'forward' ? ['udp', 'icmp'] : [''];
  const isIptables = isOfIptables({ family, table, name });
  return protocols.flatMap((protocol) => {
    const [from, to] = isIptables
      ? iptablesRules({ program: isLegacy ? 'iptables-legacy' : 'iptables', name, link, protocol })
      : nftRules({ chain: `${family} ${table} ${name}`, link, protocol });
    return hook === 'forward' ? [from, to] : [from];
  });
}

interface IptablesRule {
  program: string;
  name: string;
  link: string;
  protocol: string;
}

function iptablesRules({ program, name, link, protocol }: IptablesRule): [from: string, to: string] {
  const match = protocol && ` -p ${protocol}`;
  const answers = '-m conntrack --ctstate RELATED,ESTABLISHED';
  return [
    `${program} -I ${name} -i ${link}+${match} -j ACCEPT`,
    `${program} -I ${name} -o ${link}+${match} ${answers} -j ACCEPT`,
  ];
}

function nftRules({ chain, link, protocol }: Pick<IptablesRule, 'link' | 'protocol'> & { chain: string }) {
  const match = protocol && ` meta l4proto ${protocol}`;
  const rules: [from: string, to: string] = [
    `nft insert rule ${chain} iifname '"${link}*"'${match} accept`,
    `nft insert rule ${chain} oifname '"${link}*"'${match} ct state established,related accept`,
  ];
  return rules;
}

function isOfIptables({ family, table, name }: Pick<FirewallChain, 'family' | 'table' | 'name'>): boolean {
  return family === 'ip' && table === 'filter' && (name === 'INPUT' || name === 'FORWARD');
}

function run(commands: readonly string[]): string {
  return `Run ${commands.map((command) => `\`${command}\``).join(' and ')}.`;
}
