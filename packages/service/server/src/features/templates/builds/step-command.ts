import { DEFAULT_CWD } from '@cloche/contract';
import type { StartCommand } from '@cloche/protocol';
import { shellLine } from '@cloche/runtime/shell-line';
import type { PlannedStep } from '../../template-catalogue/recipe/plan.ts';

export type StepCommand = Pick<StartCommand, 'argv' | 'ownShell' | 'cwd' | 'env' | 'user'>;
export type CommandStep = Exclude<PlannedStep, { kind: 'files' | 'image' }>;

/**
 * Installs packages and removes package lists and downloads, which would otherwise be part of every sandbox of the
 * version.
 */
const APT = `set -e
apt-get -o Acquire::Retries=3 update
apt-get -o Acquire::Retries=3 install -y --no-install-recommends -- "$@"
apt-get clean
rm -rf /var/lib/apt/lists/*`;

const NPM = `set -e
npm install --global --no-audit --no-fund --no-update-notifier --cache /tmp/npm-cache -- "$@"
rm -rf /tmp/npm-cache`;

/**
 * Fails where the packages disagree with others afterwards, which pip only mentions: their imports would fail later.
 * Disagreements that were there before stay.
 */
const PIP = `set -e
pip() { python3 -m pip --disable-pip-version-check --no-input "$@"; }
before=$(pip check 2>/dev/null) || true
pip install --no-cache-dir --root-user-action=ignore -- "$@"
if ! after=$(pip check 2>/dev/null); then
  new=$(printf '%s\\n' "$after" | grep -vxF -e "$before" || true)
  if [ -n "$new" ]; then
    printf 'Packages disagree:\\n%s\\n' "$new" >&2
    exit 1
  fi
fi`;

/** Returns the command of a step. Packages are arguments, never part of a shell line. */
export function stepCommand(step: CommandStep): StepCommand {
  const asRoot = (argv: string[], env = {}): StepCommand => ({ argv, cwd: '/', env, user: 'root' });
  // A PATH of the recipe decides nothing about the shell.
  const inShell = (command: StepCommand) => ({ ...command, ownShell: true });
  switch (step.kind) {
    case 'apt':
      return inShell(asRoot(['bash', '-c', APT, 'apt', ...step.packages], { DEBIAN_FRONTEND: 'noninteractive' }));
    case 'pip':
      return inShell(asRoot(['bash', '-c', PIP, 'pip', ...step.packages]));
    case 'npm':
      return inShell(asRoot(['bash', '-c', NPM, 'npm', ...step.packages]));
    case 'run':
      return { ...shellLine(step.run), cwd: step.cwd ?? DEFAULT_CWD, env: { ...step.env }, user: step.as };
  }
}
