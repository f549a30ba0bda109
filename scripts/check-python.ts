/**
 * The stage `python` of `npm test`: lint, format, types and unit tests of the Python. Each Python test counts as one.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { CACHE_DIR } from '../packages/guest/agent/testing/test-cache.ts';
import { WebhookSecrets } from '../packages/service/server/src/features/webhooks/webhook-secrets.ts';
import { generatePythonSdk, SDK_PYTHON } from './python-sdk.ts';
import { describePythonTests, runPythonTests } from './python-tests.ts';
import { ensurePythonTools, kernelPackages, lacksPip, PYTHON } from './python-tools.ts';

const ROOT = join(import.meta.dirname, '..');
const KERNEL_PYTHON = join(ROOT, 'packages/guest/kernel-python');

const skip = lacksPip(CACHE_DIR) ?? false;
const ofKernel = kernelPackages(CACHE_DIR);
const env = {
  PATH: process.env.PATH,
  HOME: '/nonexistent',
  PYTHONPATH: 'folder' in ofKernel ? `${KERNEL_PYTHON}:${ofKernel.folder}` : KERNEL_PYTHON,
  PYTHONDONTWRITEBYTECODE: '1',
};

const tools = skip ? '' : ensurePythonTools(CACHE_DIR);
const sdkEnv = { ...env, PYTHONPATH: `${tools}:${join(SDK_PYTHON, 'src')}` };

describe('the Python of the project', { skip }, () => {
  const ruff = join(tools, 'bin/ruff');

  it('has no problems that Ruff knows', () => succeeds(ruff, ['check', '--no-cache', '--output-format=concise', '.']));
  it('is formatted', () => succeeds(ruff, ['format', '--no-cache', '--check', '.']));
  it('has types that agree', { skip: 'missing' in ofKernel && ofKernel.missing }, () =>
    succeeds(process.execPath, ['node_modules/pyright/index.js', '--pythonpath', PYTHON], {
      ...env,
      PYTHONPATH: `${env.PYTHONPATH}:${tools}`,
    }),
  );

  for (const adapter of globSync('adapters/*/pyproject.toml', { cwd: ROOT }).map(dirname).sort())
    it(`has ${adapter} with types that agree with those of its host`, () => {
      const host = ensurePythonTools(CACHE_DIR, join(ROOT, adapter, 'requirements-test.txt'));
      succeeds(process.execPath, ['node_modules/pyright/index.js', '--project', adapter, '--pythonpath', PYTHON], {
        ...env,
        PYTHONPATH: `${join(SDK_PYTHON, 'src')}:${host}`,
      });
    });

  it('has an SDK whose generated parts are those of the contract and of its asynchronous client', () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-python-sdk-'));
    try {
      generatePythonSdk(PYTHON, sdkEnv, folder);
      for (const file of globSync('**/*.py', { cwd: folder })) {
        const committed = readFileSync(join(SDK_PYTHON, 'src/cloche', file), 'utf8');
        const remedy = `${file} is not current: run \`node_modules/.bin/node scripts/python-sdk.ts\``;
        assert.equal(committed, readFileSync(join(folder, file), 'utf8'), remedy);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

const VERIFIERS = {
  'the library of the Standard Webhooks specification for Python':
    'from standardwebhooks import Webhook; given = json.load(sys.stdin); ' +
    'assert Webhook(given["secret"]).verify(given["body"], given["headers"])["type"] == "sandbox.ready"',
  'the SDK for Python, given a message of a webhook,':
    'from cloche import verify_webhook; given = json.load(sys.stdin); ' +
    'assert verify_webhook(given["body"], given["headers"], given["secret"])["type"] == "webhook.test"',
};

for (const [name, verifier] of Object.entries(VERIFIERS))
  describe(name, { skip }, () => {
    const secrets = new WebhookSecrets(randomBytes(32));
    const type = /"type"\] == "(.+)"/.exec(verifier)?.[1];
    const body = JSON.stringify({ type, data: 'ünïcode ☃' });
    const secret = secrets.make();
    const webhook = { id: 'whk_1', secret: secrets.seal(secret, 'whk_1'), previousSecret: undefined } as const;
    const verify = (message: object) => {
      // Signed when it is verified: an installation of the tools takes longer than a signature is valid.
      const headers = secrets.sign({ ...webhook, previousSecretUntil: undefined }, { id: 'evt_1', body }, Date.now());
      return spawnSync(PYTHON, ['-c', `import json, sys; ${verifier}`], {
        env: sdkEnv,
        encoding: 'utf8',
        input: JSON.stringify({ secret, headers, body, ...message }),
      });
    };

    it('verifies what the server signs', () => assert.equal(verify({}).stderr, ''));
    it('refuses another secret', () =>
      assert.match(verify({ secret: secrets.make() }).stderr, /WebhookVerificationError: No (matching )?signature/));
  });

if ('missing' in ofKernel) it('the kernel', { skip: ofKernel.missing }, () => {});
else describePythonTests('the kernel', await runPythonTests(join(KERNEL_PYTHON, 'tests'), env));
if (!skip) describePythonTests('the SDK', await runPythonTests(join(SDK_PYTHON, 'tests/unit'), sdkEnv));

function succeeds(command: string, args: readonly string[], environment: NodeJS.ProcessEnv = env): void {
  const options = { cwd: ROOT, env: environment, encoding: 'utf8' } as const;
  const { status, stdout, stderr, error } = spawnSync(command, args, options);
  assert.equal(status, 0, error?.message ?? `${stdout}${stderr}`);
}
