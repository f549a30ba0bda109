import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { dataPaths } from '@cloche/layout';
import { execa } from 'execa';
import { isolation, skipUnless } from '../support/claims.ts';
import type { Seen } from '../support/test-internet-host.ts';
import type { Outcomes } from './support/attackers.ts';
import { GATED, managed, type PolicyWorld, policyWorld, SANDBOXES, type SandboxName } from './support/policy-world.ts';

let world: PolicyWorld;
let seen: Seen;
const outcomes = {} as Record<SandboxName, Outcomes>;

before(async () => {
  world = await policyWorld();
  outcomes.open = await world.attack('open');
  const act = async (name: SandboxName) => {
    outcomes[name] = await world.attack(name);
  };
  await Promise.all(GATED.map(act));
  seen = await world.internet.seen();
});
after(() => world?.[Symbol.asyncDispose]());

/** Asserts the outcome of each attempt in each sandbox. */
function expect(expected: Readonly<Record<string, Readonly<Record<SandboxName, RegExp>>>>): void {
  for (const [attempt, words] of Object.entries(expected)) {
    for (const name of SANDBOXES) {
      const word = outcomes[name][attempt] ?? assert.fail(`no attempt is called "${attempt}"`);
      assert.match(word, words[name], `${name}: ${attempt}`);
    }
  }
}

const REACHED = /^reached/;
const DENIED = /^denied$/;
/** Outcome of a connection that is closed without a message about the policy. */
const CLOSED =
  /^(ConnectionResetError|ConnectionRefusedError|SSLError|SSLEOFError|SSLZeroReturnError|nothing|RemoteDisconnected)$/;
const NOT_REACHED = /^(?!reached)/;

describe('a host that is permitted', () => {
  it('a host that is permitted is reached by every program, over HTTP and over HTTPS', () => {
    for (const scheme of ['http', 'https']) {
      for (const program of ['urllib', 'requests', 'curl', 'fetch of Node']) {
        expect({ [`${scheme} to an allowed host by ${program}`]: { open: REACHED, allow: REACHED, deny: REACHED } });
      }
    }
  });

  it('a host that is permitted is reached by pip, git and npm, which trust the gateway as well', managed, () => {
    for (const name of SANDBOXES) {
      for (const program of ['pip', 'git', 'npm']) {
        const printed = outcomes[name][`https to an allowed host by ${program}`];
        assert.ok(wasAsked('allowed.test', `tag-${name}-${program}`), `${program} of ${name}: ${printed}`);
      }
    }
  });

  it('a host that is permitted is reached at any port, by a WebSocket, and however its name is written', () => {
    const always = { open: REACHED, allow: REACHED, deny: REACHED };
    expect({
      'another port': always,
      'a WebSocket to an allowed host': always,
      'CONNECT to an allowed host': always,
      'Host ALLOWED.TEST': always,
      'Host allowed.test.': always,
    });
  });

  it('a host that is permitted is reached by a second connection that resumes the TLS session of the first', () => {
    for (const version of ['TLSv1_2', 'TLSv1_3']) {
      for (const client of ['Python', "Node's agent", 'curl']) {
        expect({ [`a resumed session of ${version} by ${client}`]: { open: REACHED, allow: REACHED, deny: REACHED } });
      }
    }
  });

  it('a host that is permitted is any subdomain of a pattern, but not the name itself', () => {
    const always = { open: REACHED, allow: REACHED, deny: REACHED };
    expect({
      'http to a.wild.test': always,
      'http to deep.a.wild.test': always,
      'http to wild.test': { open: REACHED, allow: NOT_REACHED, deny: REACHED },
      'http to a.denied.test': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
    });
  });

  it('a host that is permitted is resolved by the gateway, not by a resolver of the sandbox’s choice', () => {
    expect({
      'an allowed Host at the address of a denied one': {
        open: /^reached the other address$/,
        allow: /^reached$/,
        deny: /^reached$/,
      },
    });
  });
});

describe('a host that is not permitted', () => {
  it('a host that is not permitted is refused to every program, over HTTP and over HTTPS', () => {
    for (const scheme of ['http', 'https']) {
      for (const program of ['urllib', 'requests', 'curl', 'fetch of Node']) {
        expect({
          [`${scheme} to a denied host by ${program}`]: { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
        });
      }
    }
  });

  it('a host that is not permitted is refused to pip, git and npm', managed, () => {
    for (const program of ['pip', 'git', 'npm']) {
      assert.ok(wasAsked('denied.test', `tag-open-${program}`), program);
      for (const name of GATED) assert.ok(!wasAsked('denied.test', `tag-${name}-${program}`), program);
    }
  });

  it('a host that is not permitted is recognized in every request that names it, also beside a permitted name', () => {
    const refused = { open: REACHED, allow: DENIED, deny: DENIED };
    expect({
      'a denied Host at the address of an allowed one': refused,
      'a second request on a connection, to a denied host': refused,
      'a Host that differs from the server name of TLS': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
      'a server name of TLS that differs from Host': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
      'a second request on a TLS connection, to a denied host': {
        open: REACHED,
        allow: NOT_REACHED,
        deny: NOT_REACHED,
      },
      'an absolute form that names a denied host': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
      'two Host fields': { open: /./, allow: NOT_REACHED, deny: NOT_REACHED },
      'CONNECT to a denied host': refused,
      'CONNECT to an allowed host, and a request to a denied one inside': {
        open: REACHED,
        allow: DENIED,
        deny: DENIED,
      },
      'a WebSocket to a denied host': refused,
      'a redirect to a denied host': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
      'no Host field': { open: /./, allow: NOT_REACHED, deny: NOT_REACHED },
    });
  });

  it('a host that is not permitted is recognized in capitals, with a trailing dot, with a port and in Unicode', () => {
    for (const name of ['DENIED.TEST', 'denied.test.', 'Denied.test.:80']) {
      expect({ [`Host ${name}`]: { open: REACHED, allow: DENIED, deny: DENIED } });
    }
    // In Unicode the name is malformed: other programs could read a different name in it.
    for (const name of ['denied\u3002test', '\uff44enied.test']) {
      expect({ [`Host ${name}`]: { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED } });
    }
  });

  it('a host that is not permitted is not reached by a request in or behind another one', () => {
    assert.ok(wasAsked('denied.test', 'tag-open-pipelined'));
    for (const name of GATED) {
      for (const way of ['pipelined', 'smuggled', 'odd'])
        assert.ok(!wasAsked('denied.test', `tag-${name}-${way}`), way);
    }
  });

  it('a host that is not permitted is refused in forms of HTTP and TLS that only lenient servers take', () => {
    const odd = Object.keys(outcomes.open).filter((attempt) =>
      /^a (method|request)( of HTTP| after| that (ends|follows)|, one)|^TLS behind|^HTTP\/2/.test(attempt),
    );
    assert.equal(odd.length, 32);
    for (const attempt of odd) expect({ [attempt]: { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED } });
    // The gateway refuses the first part, so the server does not read the request behind it.
    for (const first of ['a method that does not end', 'a line of the PROXY protocol']) {
      expect({ [`a request behind ${first}`]: { open: /./, allow: NOT_REACHED, deny: NOT_REACHED } });
    }
  });

  it('a host that is not permitted is refused by its address in every notation', () => {
    for (const notation of ['dotted', 'decimal', 'octal', 'hexadecimal', 'short']) {
      expect({ [`a literal address, ${notation}`]: { open: REACHED, allow: DENIED, deny: DENIED } });
    }
    expect({
      'a literal address, mapped into IPv6': { open: /./, allow: NOT_REACHED, deny: NOT_REACHED },
      'https to a literal address': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
    });
  });
});

describe('names', () => {
  it('names that resolve to private addresses are not reached, even if they resolved to public ones before', async () => {
    assert.match(await (await fetch(`http://${world.internet.privateAddress}:80/`)).text(), REACHED);
    expect({ 'a name of a private address': { open: NOT_REACHED, allow: NOT_REACHED, deny: NOT_REACHED } });
    for (const name of GATED) {
      assert.equal(outcomes[name]['a name that changes to a private address'], 'never private');
    }
  });

  it('names that are not permitted reach no resolver, so they carry nothing out', () => {
    for (const way of ['system', 'datagram', 'stream', 'tls', 'https']) {
      assert.ok(seen.questions.includes(`tag-open-${way}.data.test`), way);
      assert.ok(seen.questions.includes(`tag-open-${way}.denied.test`), way);
      assert.ok(!seen.questions.includes(`tag-allow-${way}.data.test`), way);
      for (const name of GATED) assert.ok(!seen.questions.includes(`tag-${name}-${way}.denied.test`), way);
    }
  });

  it('names that do not exist are answered at once', () => {
    for (const way of ['to another resolver', 'to another resolver by TCP']) {
      expect({
        [`data in a denied name, ${way}`]: { open: /^answered$/, allow: /^no such name$/, deny: /^no such name$/ },
      });
    }
  });
});

it('special ranges and those that the operator closes are closed, in every mode and at every port', async () => {
  const { specialAddresses, addressToClose } = world.internet;
  for (const [index, there] of [...specialAddresses, addressToClose].entries()) {
    // The control: the host itself reaches them.
    assert.match(await (await fetch(`http://${there}/`)).text(), REACHED);
    const never = { open: NOT_REACHED, allow: NOT_REACHED, deny: NOT_REACHED };
    for (const way of ['HTTP to', 'another port of', 'a datagram to']) {
      expect({ [`${way} closed address ${index}`]: never });
    }
  }
});

describe('traffic that is no HTTP', () => {
  it('traffic other than HTTP is carried over TCP with a denylist, and in no other mode', () => {
    expect({
      'raw TCP to an allowed address': { open: REACHED, allow: CLOSED, deny: REACHED },
      'raw TCP to a denied address': { open: REACHED, allow: CLOSED, deny: CLOSED },
    });
  });

  it('traffic other than HTTP is not carried to the ports of HTTP and HTTPS', () => {
    expect({ 'bytes of no protocol, at a port of HTTP': { open: /^status 400$/, allow: CLOSED, deny: CLOSED } });
  });

  it('traffic other than HTTP is carried over UDP and ICMP echo with a denylist, but to no denied address, and in no other mode', () => {
    const flows = { open: REACHED, allow: NOT_REACHED, deny: REACHED };
    expect({
      'UDP to an allowed address': flows,
      'UDP to a denied address': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
      'a request of NTP with an unsynchronized clock': flows,
      'video by RTP, without an answer': flows,
      'an ICMP echo': flows,
    });
    for (const port of [7000, 443, 4433, 123]) expect({ [`a datagram to port ${port}`]: flows });
  });

  it('a QUIC connection does not begin, at any port, of any version and in any form', () => {
    const ports = [7000, 443, 4433, 123].map((port) => `to port ${port}`);
    const versions = ['of version 2', 'of a draft', 'of Google, Q046', 'of Google, Q043', 'of an unknown version'];
    const forms = ['without the fixed bit', 'in a small datagram', 'in fragments'];
    const refused = { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED };
    for (const way of [...ports, ...versions, ...forms]) expect({ [`QUIC ${way}`]: refused });
    expect({ 'a packet of QUIC as the answer': refused });
    expect({ 'QUIC to port 53': { open: /./, allow: NOT_REACHED, deny: NOT_REACHED } });
    // gVisor supports neither IP options nor segments.
    if (isolation.kernel === 'shared') {
      for (const way of ['behind-options-of-IP', 'in-a-second-segment'])
        assert.ok(begunQuic('open').includes(way), way);
    }
    for (const name of GATED) assert.deepEqual(begunQuic(name), []);
  });

  /** Returns the ways in which a sandbox got a first packet of QUIC to the server. */
  const begunQuic = (name: SandboxName) =>
    seen.quic.filter((tag) => tag.startsWith(`tag-${name}-`)).map((tag) => tag.slice(`tag-${name}-`.length));

  // The host's kernel has no part of gVisor's network but the link.
  const shared = skipUnless('kernel', 'shared');
  it('ICMP does not flow where datagrams do not, nor by IPv6, even for root of the host', shared, async () => {
    for (const name of ['open', 'deny'] as const) assert.equal(await fromOutside(name, PING), 'reached');
    assert.notEqual(await fromOutside('allow', PING), 'reached');
    const links = 'print(open("/proc/net/if_inet6").read().count("eth0"))';
    for (const name of SANDBOXES) assert.equal(await fromOutside(name, links), '0');
  });

  it('a QUIC connection does not begin in fragments that are cut within its header either', shared, async () => {
    for (const name of ['open', 'deny'] as const) await fromOutside(name, CUT_QUIC.replace('NAME', name));
    const { quic } = await world.internet.seen();
    assert.ok(quic.includes('tag-open-cut'));
    assert.ok(!quic.includes('tag-deny-cut'));
  });

  const CUT_QUIC = `
import socket, struct
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); probe.connect(("ADDRESS", 7000)); own = probe.getsockname()[0]
packet = (bytes.fromhex("c3000000010831323334353637380020") + b"tag-NAME-cut ").ljust(1200, b"\\0")
datagram = struct.pack("!4H", 4000, 7000, 8 + len(packet), 0) + packet
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
# The header of UDP alone, then the rest.
for offset, part, more in [(0, datagram[:8], 0x2000), (1, datagram[8:], 0)]:
    header = struct.pack("!2B3H2BH4s4s", 0x45, 0, 20 + len(part), 77, more | offset, 64, 17, 0, socket.inet_aton(own), socket.inet_aton("ADDRESS"))
    raw.sendto(header + part, ("ADDRESS", 0))
import time; time.sleep(0.3)`;

  const PING = `
import os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); s.settimeout(1)
body = struct.pack("!2H", os.getpid() & 0xffff, 1)
total = 0x0800 + sum(struct.unpack("!2H", body)); check = ~(total + (total >> 16)) & 0xffff
s.sendto(struct.pack("!2BH", 8, 0, check) + body, ("ADDRESS", 0))
try: print("reached" if s.recv(100)[20] == 0 else "refused")
except OSError as error: print(type(error).__name__)`;
});

it('a server without a trusted certificate is not reached', () => {
  expect({ 'a server without a trusted certificate': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED } });
});

/** Returns whether the host was asked for a path with this prefix. */
function wasAsked(host: string, path: string): boolean {
  return seen.requests.some((request) => request.includes(` ${host} /${path}`));
}

/** Runs Python as root of the host in the network namespace of a sandbox, without any other restriction. */
async function fromOutside(name: SandboxName, code: string): Promise<string> {
  const { service, ids } = world;
  const { hostdDir } = dataPaths(service.dataDir);
  const record = join(hostdDir, 'instances', service.instanceKey(ids[name]), 'instance.json');
  const { pid } = JSON.parse(readFileSync(record, 'utf8')).init;
  const script = code.replaceAll('ADDRESS', world.internet.address);
  return (await execa('nsenter', ['-t', String(pid), '-n', 'python3', '-c', script])).stdout.trim();
}
