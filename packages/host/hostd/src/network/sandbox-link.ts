import { existsSync, writeFileSync } from 'node:fs';
import { addressesOfSlot, SANDBOX_PREFIX_LENGTH } from '../addressing/address-plan.ts';
import { errorCode } from '../linux/libc.ts';
import {
  addAddress,
  addDefaultRoute,
  createVeth,
  deleteLink,
  Netlink,
  type NetlinkRequest,
  raiseLink,
} from '../linux/netlink.ts';

const LOOPBACK_INDEX = 1;

export interface SandboxLink {
  name: string;
  slot: number;
  mtu: number;
  /** Descriptor of the sandbox's network namespace. */
  namespace: number;
  /** Called before the link carries packets. */
  prepare?: (name: string) => void;
}

/** Creates the link between the host and a sandbox's `eth0`, with the addresses of the slot. */
export function connectSandbox({ name, slot, mtu, namespace, prepare }: SandboxLink): void {
  const { host, sandbox } = addressesOfSlot(slot);
  using outside = new Netlink();
  const veth = createVeth({ name, mtu, peer: { name: 'eth0', networkNamespaceFd: namespace } });
  if (!unlessCode('EEXIST', () => outside.apply(veth))) replaceLink(outside, name, veth);
  const ipv6Switch = `/proc/sys/net/ipv6/conf/${name}/disable_ipv6`;
  if (existsSync(ipv6Switch)) writeFileSync(ipv6Switch, '1');
  prepare?.(name);
  const link = outside.linkIndex(name);
  outside.apply(addAddress(link, host, SANDBOX_PREFIX_LENGTH), raiseLink(link));

  using inside = new Netlink(namespace);
  const eth0 = inside.linkIndex('eth0');
  inside.apply(
    raiseLink(LOOPBACK_INDEX),
    addAddress(eth0, sandbox, SANDBOX_PREFIX_LENGTH),
    raiseLink(eth0),
    addDefaultRoute(eth0, host),
  );
}

/** Gives a network namespace only its own loopback. */
export function raiseLoopback(namespace: number): void {
  using inside = new Netlink(namespace);
  inside.apply(raiseLink(LOOPBACK_INDEX));
}

/** Sets whether the kernel forwards what arrives by a link. */
export function forward(link: string, isOn: boolean): void {
  writeFileSync(`/proc/sys/net/ipv4/conf/${link}/forwarding`, isOn ? '1' : '0');
}

/** Removes a link. Idempotent. */
export function removeLink(name: string): void {
  using host = new Netlink();
  unlessCode('ENODEV', () => host.apply(deleteLink(name)));
}

/** Recreates a link whose previous sandbox is dead: the kernel removes links shortly after. */
function replaceLink(host: Netlink, name: string, link: NetlinkRequest): void {
  unlessCode('ENODEV', () => host.apply(deleteLink(name)));
  host.apply(link);
}

/** Returns false when `act` failed with that code. */
export function unlessCode(code: string, act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (errorCode(error) !== code) throw error;
    return false;
  }
}
