// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of Dockerfiles
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DockerfileError } from './dockerfile-error.ts';
import type { RunStep } from './plan.ts';
import { type ReadOptions, readDockerfile } from './read-dockerfile.ts';

const read = (lines: readonly string[], options: ReadOptions = {}) => readDockerfile(lines.join('\n'), options);
/** Returns the steps after `FROM base`, without their lines. */
const steps = (...lines: string[]) => read(['FROM base', ...lines]).steps.map(({ line: _, ...step }) => step);
/** Returns the shell lines of all `RUN` instructions. */
const shellLines = (...lines: string[]) =>
  (steps(...lines) as RunStep[]).filter(({ kind }) => kind === 'run').map(({ argv }) => argv.at(-1));

function refusal(lines: readonly string[], options?: ReadOptions): string {
  try {
    read(lines, options);
  } catch (error) {
    assert.ok(error instanceof DockerfileError, String(error));
    assert.ok(error.message.startsWith(`line ${error.line}: `));
    return error.message;
  }
  assert.fail(`accepted: ${lines.join('\n')}`);
}

describe('readDockerfile', () => {
  it('readDockerfile keeps the order of the steps, with the user, directory and build arguments of each', () => {
    const plan = read(
      [
        '# syntax=docker/dockerfile:1',
        'ARG BASE=python-node',
        'FROM ${BASE} AS only',
        'ARG VERSION=1',
        'ENV HOST=example.com PORT="80 80"',
        'RUN first',
        'WORKDIR /srv/$HOST',
        'USER app:staff',
        'ENV VERSION=3',
        'RUN ["second", "a b", "c\\"d"]',
        'WORKDIR inner',
        'COPY . .',
      ],
      { buildArgs: { VERSION: '2' } },
    );
    assert.deepEqual(plan.from, { line: 3, name: 'python-node' });
    assert.deepEqual(plan.warnings, []);
    assert.deepEqual(plan.steps, [
      { kind: 'env', line: 5, env: { HOST: 'example.com', PORT: '80 80' } },
      { kind: 'run', line: 6, argv: ['/bin/sh', '-c', 'first'], user: 'root', cwd: '/', args: { VERSION: '2' } },
      { kind: 'workdir', line: 7, path: '/srv/example.com' },
      { kind: 'env', line: 9, env: { VERSION: '3' } },
      { kind: 'run', line: 10, argv: ['second', 'a b', 'c"d'], user: 'app:staff', cwd: '/srv/example.com', args: {} },
      { kind: 'workdir', line: 11, path: '/srv/example.com/inner' },
      {
        kind: 'copy',
        line: 12,
        keyword: 'COPY',
        sources: ['.'],
        inline: [],
        to: '/srv/example.com/inner/',
        owner: undefined,
        mode: undefined,
      },
    ]);
  });

  it('readDockerfile joins continuation lines without the comments and empty lines between them', () => {
    assert.deepEqual(shellLines('RUN a  "x   y" \\', ' && b \\  ', '  # comment \\', '', ' && c # stays'), [
      'a  "x   y"  && b  && c # stays',
    ]);
    assert.deepEqual(shellLines('# no directive', 'RUN a \\', ' b').length, 1);
    assert.deepEqual(
      read(['# escape=`', 'FROM base', 'RUN a `', ' \\b']).steps.map((step) => (step as RunStep).argv[2]),
      ['a  \\b'],
    );
    assert.deepEqual(shellLines('RUN a\r', 'RUN b \\\r', ' c'), ['a', 'b  c']);
  });

  it('readDockerfile runs here-documents by the shell, or by the program that their first line names', () => {
    assert.deepEqual(shellLines('RUN <<EOT', 'set -e', '# comment', '', 'echo $HOME', 'EOT'), [
      'set -e\n# comment\n\necho $HOME\n',
    ]);
    assert.deepEqual(shellLines("RUN <<-'A' cat > /f && cat <<B", '\tone $X', 'A', 'two', 'B'), [
      "<<-'A' cat > /f && cat <<B\none $X\nA\ntwo\nB",
    ]);
    const [line = ''] = shellLines('RUN <<EOT', '#!/usr/bin/env python3', 'print("$x")', 'EOT');
    assert.match(line, /<<'EOT'.*\n#!\/usr\/bin\/env python3\nprint\("\$x"\)\nEOT$/s);
    assert.deepEqual(shellLines('RUN echo $((1<<3)) "a << b" <<<x', 'RUN next'), [
      'echo $((1<<3)) "a << b" <<<x',
      'next',
    ]);
  });

  it('readDockerfile runs the shell that SHELL names, and not the list of a JSON form', () => {
    const [run, list] = steps('SHELL ["/bin/bash", "-eo", "pipefail", "-c"]', 'RUN a | b', 'RUN ["x"]') as RunStep[];
    assert.deepEqual(run?.argv, ['/bin/bash', '-eo', 'pipefail', '-c', 'a | b']);
    assert.deepEqual(list?.argv, ['x']);
    assert.deepEqual(shellLines('RUN [ -e /x ] && y'), ['[ -e /x ] && y']);
  });

  it('readDockerfile reads sources, owner and mode of COPY and ADD, also in JSON and from here-documents', () => {
    const none = { inline: [], owner: undefined, mode: undefined };
    assert.deepEqual(
      steps(
        'WORKDIR /app',
        'ENV D=dist',
        'COPY --chown=app:1000 --chmod=755 --link a $D/*.js to/',
        'ADD ["a b", "/x y"]',
      ).slice(2),
      [
        {
          kind: 'copy',
          keyword: 'COPY',
          sources: ['a', 'dist/*.js'],
          inline: [],
          to: '/app/to/',
          owner: 'app:1000',
          mode: 0o755,
        },
        { kind: 'copy', keyword: 'ADD', ...none, sources: ['a b'], to: '/x y' },
      ],
    );
    const [, copy] = steps('ENV A=1', 'COPY <<EOF <<"RAW" /etc/', '"$A" \\$A', 'EOF', '$A', 'RAW');
    assert.deepEqual(copy, {
      kind: 'copy',
      keyword: 'COPY',
      sources: [],
      inline: [
        { name: 'EOF', content: '"1" $A\n' },
        { name: 'RAW', content: '$A\n' },
      ],
      to: '/etc/',
      owner: undefined,
      mode: undefined,
    });
    for (const [target, to] of Object.entries({ '.': '/', '/': '/', 'x/..': '/', x: '/x', './x/': '/x/' }))
      assert.deepEqual((steps(`COPY a ${target}`)[0] as { to: string }).to, to, target);
  });

  it('expands variables of the base, and of ENV before those of ARG', () => {
    const { steps: all } = read(['FROM base', 'ENV PATH=/app/bin:$PATH', 'ENV A=$PATH B=${NONE:-x}', 'ENV B=y C=$B'], {
      baseEnv: { PATH: '/usr/bin' },
    });
    assert.deepEqual(
      all.map((step) => step.kind === 'env' && step.env),
      [{ PATH: '/app/bin:/usr/bin' }, { A: '/app/bin:/usr/bin', B: 'x' }, { B: 'y', C: 'x' }],
    );
  });

  it('readDockerfile passes arguments before FROM to it, and to an ARG of the same name', () => {
    const lines = ['ARG TAG=a', 'FROM base-$TAG', 'ENV X=$TAG', 'ARG TAG', 'ENV Y=$TAG', 'RUN z'];
    const plan = read(lines, { buildArgs: { TAG: 'b', HTTP_PROXY: 'p', TYPO: '1' } });
    assert.equal(plan.from.name, 'base-b');
    assert.deepEqual(plan.steps[0], { kind: 'env', line: 3, env: { X: '' } });
    assert.deepEqual(plan.steps[1], { kind: 'env', line: 5, env: { Y: 'b' } });
    assert.deepEqual((plan.steps[2] as RunStep).args, { HTTP_PROXY: 'p', TAG: 'b' });
    assert.deepEqual(plan.warnings, ['the build argument TYPO has no effect: no ARG declares it.']);
  });

  it('warns of instructions about starting a container, and of caches', () => {
    const { warnings, steps: kept } = read([
      'FROM base',
      'CMD ["x"]',
      'EXPOSE 80',
      'LABEL a=b',
      'ENTRYPOINT x',
      'VOLUME /x',
      'HEALTHCHECK CMD x',
      'RUN --mount=type=cache,target=/root/.cache pip install x',
    ]);
    assert.equal(kept.length, 1);
    assert.deepEqual(
      warnings.map((text) => /^line (\d): (\S+)/.exec(text)?.slice(1).join(' ')),
      [
        '2 CMD',
        '3 EXPOSE',
        '4 LABEL',
        '5 ENTRYPOINT',
        '6 VOLUME',
        '7 HEALTHCHECK',
        '8 --mount=type=cache,target=/root/.cache',
      ],
    );
  });

  it('readDockerfile refuses what it cannot build, with the line and what to do', () => {
    const refused: [line: number, message: RegExp, ...lines: string[]][] = [
      [2, /one stage; build this stage as a template/, 'FROM other'],
      [3, /one stage/, '# comment', 'FROM other AS b'],
      [2, /COPY --from is not supported; builds have one stage/, 'COPY --from=builder /a /b'],
      [2, /download it with RUN/, 'ADD https://example.com/x.tar.gz /x'],
      [2, /clone|download it with RUN/, 'ADD git@github.com:a/b.git /x'],
      [2, /outside the context folder/, 'COPY ../secret /x'],
      [2, /outside the context folder/, 'COPY a/../../secret /x'],
      [2, /ends with a slash: \/x\//, 'COPY a b /x'],
      [2, /at least one source/, 'COPY a'],
      [2, /octal/, 'COPY --chmod=u+x a /b'],
      [2, /user:group/, 'COPY --chown=a:b:c a /b'],
      [2, /--frobnicate is not supported/, 'COPY --frobnicate=1 a /b'],
      [2, /use COPY for files/, 'RUN --mount=type=secret,id=x cat /run/secrets/x'],
      [2, /networkPolicy/, 'RUN --network=none x'],
      [2, /ONBUILD is not supported/, 'ONBUILD RUN x'],
      [4, /NOSUCH is not an instruction/, 'RUN x \\', '  y', 'NOSUCH z'],
      [2, /<<EOF does not end/, 'RUN <<EOF', 'x'],
      [2, /RUN needs a command/, 'RUN'],
      [2, /ENV needs NAME=value/, 'ENV'],
      [2, /ENV A needs a value/, 'ENV A'],
      [2, /not a valid name/, 'ENV 1A=x'],
      [2, /not a supported form/, 'ENV A=${B#x}'],
      [2, /A must be set/, 'WORKDIR ${A:?}'],
      [2, /WORKDIR needs a value/, 'WORKDIR $NONE'],
      [2, /USER a b is invalid/, 'USER a b'],
      [2, /SHELL needs a list/, 'SHELL /bin/sh'],
    ];
    for (const [line, message, ...lines] of refused) {
      const text = refusal(['FROM base', ...lines]);
      assert.match(text, message);
      assert.match(text, new RegExp(`^line ${line}: `), text);
    }
    assert.match(refusal([]), /no FROM/);
    assert.match(refusal(['RUN x', 'FROM base']), /^line 1: RUN comes before FROM/);
    assert.match(refusal(['FROM --platform=linux/arm64 base']), /platform of the service/);
    assert.match(refusal(['FROM']), /needs the slug/);
    assert.match(refusal(['FROM base with']), /followed by with/);
  });
});
