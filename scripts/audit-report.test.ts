import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { describeAudit } from './audit-report.ts';

describe('npm run audit', () => {
  it('npm run audit names what is vulnerable, and fails', () => {
    const advisory = { title: 'Prototype pollution', url: 'https://example.com/1' };
    const vulnerabilities = {
      parser: { severity: 'high', range: '<2.0.0', via: [advisory] },
      server: { severity: 'high', range: '*', via: ['parser'] },
    };
    const { text, failed } = describeAudit(JSON.stringify({ auditReportVersion: 2, vulnerabilities }));
    assert.equal(failed, true);
    assert.equal(
      text,
      'high: parser <2.0.0\n  Prototype pollution https://example.com/1\nhigh: server *\n  through parser',
    );
  });

  it('npm run audit passes when nothing is known', () => {
    const answer = JSON.stringify({ auditReportVersion: 2, vulnerabilities: {} });
    assert.deepEqual(describeAudit(answer), {
      text: 'No known vulnerabilities in production dependencies.',
      failed: false,
    });
  });

  it('npm run audit says why it could not ask, and fails nothing', () => {
    const offline = JSON.stringify({ error: { code: 'ENOTFOUND', summary: 'getaddrinfo ENOTFOUND' } });
    const refused = JSON.stringify({ message: '405 Method Not Allowed', error: { summary: '', detail: '' } });
    for (const [answer, why] of [
      [offline, /could not be asked \(getaddrinfo ENOTFOUND\)/],
      [refused, /could not be asked \(405 Method Not Allowed\)/],
      ['', /could not be asked \(no answer\)/],
    ] as const) {
      const { text, failed } = describeAudit(answer);
      assert.match(text, why);
      assert.equal(failed, false);
    }
  });
});
