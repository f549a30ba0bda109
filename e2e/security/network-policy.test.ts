import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { execa } from 'execa';
import { eventually } from '../support/eventually.ts';
import { type TestService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';
import type { Seen } from '../support/test-internet-host.ts';
import { asUser, attempts, type Outcomes, outcomesOf } from './support/attackers.ts';

/** `open` is the control: what it reaches is there, and would be reached without a policy. */
const SANDBOXES = ['open', 'allow', 'deny'] as const;
type Name = (typeof SANDBOXES)[number];

let internet: TestInternet;
let service: TestService;
let seen: Seen;
const ids = {} as Record<Name, string>;
const outcomes = {} as Record<Name, Outcomes>;

before(async () => {
  internet = await testInternet();
  const { address, otherAddress, authority } = internet;
  service = await testService({ CLOCHE_DNS_UPSTREAM: `${address}:53`, CLOCHE_EGRESS_EXTRA_CA: authority.rootFile });
  const allowed = ['allowed.test', '*.wild.test', 'private.test', 'changing.test', 'untrusted.test'];
  const policies = {
    open: { mode: 'unrestricted' },
    allow: { mode: 'allowlist', hosts: allowed },
    deny: { mode: 'denylist', hosts: ['denied.test', '*.denied.test', otherAddress] },
  };
  for (const name of SANDBOXES) {
    ids[name] = (await service.api.readySandbox({ networkPolicy: policies[name] })).id;
    outcomes[name] = await attack(name);
  }
  seen = await internet.seen();
});
after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
});

async function attack(name: Name, only?: readonly string[]): Promise<Outcomes> {
  const { address, otherAddress: other, privateAddress, authority } = internet;
  const trust = name === 'open' ? { root: authority.root } : {};
  const given = { address, other, private: privateAddress, tag: `tag-${name}`, ...trust, ...(only && { only }) };
  return outcomesOf(await asUser(service, ids[name], attempts('network', given)));
}

/** Every attempt that is expected in one place. */
function expect(expected: Readonly<Record<string, Readonly<Record<Name, RegExp>>>>): void {
  for (const [attempt, words] of Object.entries(expected)) {
    for (const name of SANDBOXES)
      assert.match(outcomes[name][attempt] ?? 'not tried', words[name], `${name}: ${attempt}`);
  }
}

const REACHED = /^reached/;
const DENIED = /^denied$/;
/** Without a word about the policy. */
const CLOSED =
  /^(ConnectionResetError|ConnectionRefusedError|SSLError|SSLEOFError|SSLZeroReturnError|nothing|RemoteDisconnected)$/;
const NOT_REACHED = /^(?!reached)/;

describe('a host that is permitted', () => {
  it('is reached by every program, over HTTP and over HTTPS', () => {
    for (const scheme of ['http', 'https']) {
      for (const program of ['urllib', 'requests', 'curl', 'fetch of Node']) {
        expect({ [`${scheme} to an allowed host by ${program}`]: { open: REACHED, allow: REACHED, deny: REACHED } });
      }
    }
  });

  it('is reached by pip, git and npm, which trust the gateway as well', () => {
    for (const name of SANDBOXES) {
      for (const program of ['pip', 'git', 'npm']) {
        assert.ok(wasAsked('allowed.test', `tag-${name}-${program}`), `${program} of ${name}`);
      }
    }
  });

  it('is reached at any port, by a WebSocket, and however its name is written', () => {
    const always = { open: REACHED, allow: REACHED, deny: REACHED };
    expect({
      'another port': always,
      'a WebSocket to an allowed host': always,
      'CONNECT to an allowed host': always,
      'Host ALLOWED.TEST': always,
      'Host allowed.test.': always,
    });
  });

  it('is whatever a pattern covers, which the name itself is not', () => {
    const always = { open: REACHED, allow: REACHED, deny: REACHED };
    expect({
      'http to a.wild.test': always,
      'http to deep.a.wild.test': always,
      'http to wild.test': { open: REACHED, allow: NOT_REACHED, deny: REACHED },
      'http to a.denied.test': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
    });
  });

  it('is looked up by the gateway, and not where the sandbox says', () => {
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
  it('is refused to every program, over HTTP and over HTTPS', () => {
    for (const scheme of ['http', 'https']) {
      for (const program of ['urllib', 'requests', 'curl', 'fetch of Node']) {
        expect({
          [`${scheme} to a denied host by ${program}`]: { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED },
        });
      }
    }
    for (const program of ['pip', 'git', 'npm']) {
      assert.ok(wasAsked('denied.test', `tag-open-${program}`), program);
      for (const name of ['allow', 'deny']) assert.ok(!wasAsked('denied.test', `tag-${name}-${program}`), program);
    }
  });

  it('is told apart in a request that names it, whatever else the request says', () => {
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

  it('is told apart in capitals, with a trailing dot and with a port', () => {
    for (const name of ['DENIED.TEST', 'denied.test.', 'Denied.test.:80']) {
      expect({ [`Host ${name}`]: { open: REACHED, allow: DENIED, deny: DENIED } });
    }
  });

  it('is not reached by a request in or behind another one', () => {
    assert.ok(wasAsked('denied.test', 'tag-open-pipelined'));
    for (const name of ['allow', 'deny']) {
      for (const way of ['pipelined', 'smuggled', 'odd'])
        assert.ok(!wasAsked('denied.test', `tag-${name}-${way}`), way);
    }
  });

  it('is refused by its address in every notation', () => {
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
  it('of private addresses lead nowhere, even those that led elsewhere before', async () => {
    assert.match(await (await fetch(`http://${internet.privateAddress}:80/`)).text(), REACHED);
    expect({ 'a name of a private address': { open: NOT_REACHED, allow: NOT_REACHED, deny: NOT_REACHED } });
    for (const name of ['allow', 'deny'] as const) {
      assert.equal(outcomes[name]['a name that changes to a private address'], 'never private');
    }
  });

  it('that are not permitted reach no resolver, so they carry nothing out', () => {
    for (const way of ['system', 'datagram', 'stream']) {
      assert.ok(seen.questions.includes(`tag-open-${way}.data.test`), way);
      assert.ok(seen.questions.includes(`tag-open-${way}.denied.test`), way);
      assert.ok(!seen.questions.includes(`tag-allow-${way}.data.test`), way);
      for (const name of ['allow', 'deny']) assert.ok(!seen.questions.includes(`tag-${name}-${way}.denied.test`), way);
    }
  });

  it('are answered at once when they are not', () => {
    for (const way of ['to another resolver', 'to another resolver by TCP']) {
      expect({
        [`data in a denied name, ${way}`]: { open: /^answered$/, allow: /^no such name$/, deny: /^no such name$/ },
      });
    }
  });
});

describe('traffic that is no HTTP', () => {
  it('flows by TCP where hosts are denied, and nowhere else', () => {
    expect({
      'raw TCP to an allowed address': { open: REACHED, allow: CLOSED, deny: REACHED },
      'raw TCP to a denied address': { open: REACHED, allow: CLOSED, deny: CLOSED },
    });
  });

  it('does not flow by UDP, which could carry HTTP past the gateway', () => {
    for (const kind of ['an allowed', 'a denied']) {
      expect({ [`UDP to ${kind} address`]: { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED } });
    }
  });

  it('does not flow by ICMP or IPv6, even for root of the host within the network of the sandbox', async () => {
    assert.equal(await fromOutside('open', PING), 'reached');
    for (const name of ['allow', 'deny'] as const) assert.notEqual(await fromOutside(name, PING), 'reached');
    const links = 'print(open("/proc/net/if_inet6").read().count("eth0"))';
    for (const name of SANDBOXES) assert.equal(await fromOutside(name, links), '0');
  });

  const PING = `
import os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); s.settimeout(1)
body = struct.pack("!2H", os.getpid() & 0xffff, 1)
total = 0x0800 + sum(struct.unpack("!2H", body)); check = ~(total + (total >> 16)) & 0xffff
s.sendto(struct.pack("!2BH", 8, 0, check) + body, ("ADDRESS", 0))
try: print("reached" if s.recv(100)[20] == 0 else "refused")
except OSError as error: print(type(error).__name__)`;
});

it('a server that nobody vouches for is not reached', () => {
  expect({ 'a server that nobody vouches for': { open: REACHED, allow: NOT_REACHED, deny: NOT_REACHED } });
});

describe('when the gateway is killed', () => {
  const ways = [
    'http to an allowed host by urllib',
    'https to an allowed host by urllib',
    'raw TCP to an allowed address',
    'data in a unlisted name, to another resolver',
    'UDP to an allowed address',
  ];

  it('gated sandboxes have no network, and have it again when it is back', async () => {
    await service.kill('egress');
    const open = await attack('open', ['raw TCP to an allowed address', 'UDP to an allowed address']);
    assert.deepEqual(Object.values(open), ['reached', 'reached']);
    for (const name of ['allow', 'deny'] as const) {
      for (const [way, word] of Object.entries(await attack(name, ways)))
        assert.match(word, /^(?!reached|answered)/, way);
    }

    await service.restart('egress');
    for (const name of ['allow', 'deny'] as const) {
      await eventually(async () => (await attack(name, ways.slice(0, 1)))[ways[0] ?? ''] === 'reached');
      assert.equal((await attack(name, ways))['https to an allowed host by urllib'], 'reached');
    }
    const denied = 'http to a denied host by urllib';
    for (const name of ['allow', 'deny'] as const)
      assert.match((await attack(name, [denied]))[denied] ?? '', NOT_REACHED);
  });

  it('a gated sandbox cannot be created meanwhile: it is failed, and never unrestricted', async () => {
    await service.kill('egress');
    const networkPolicy = { mode: 'allowlist', hosts: ['allowed.test'] };
    const { body } = await service.api.post('/v1/sandboxes', { networkPolicy });
    const ended = await service.api.get(`/v1/sandboxes/${body.sandbox.id}?waitFor=ready&waitMs=20000`);
    assert.equal(ended.body.sandbox.status, 'failed');
    assert.match(ended.body.sandbox.failureReason, /network/);
    await service.restart('egress');
    await service.api.readySandbox({ networkPolicy });
  });
});

/** Whether that host was asked for a path that begins so. */
function wasAsked(host: string, path: string): boolean {
  return seen.requests.some((request) => request.includes(` ${host} /${path}`));
}

/** Runs Python as root of the host in the network of a sandbox, past every other bound. */
async function fromOutside(name: Name, code: string): Promise<string> {
  const record = join(service.dataDir, 'hostd', 'instances', `${ids[name]}-1`, 'instance.json');
  const { pid } = JSON.parse(readFileSync(record, 'utf8')).init;
  const script = code.replace('ADDRESS', internet.address);
  return (await execa('nsenter', ['-t', String(pid), '-n', 'python3', '-c', script])).stdout.trim();
}
