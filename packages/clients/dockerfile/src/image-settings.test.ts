/** What the lines after `FROM` begin with, by the settings of the image, as Docker's reference of Dockerfiles says. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ReadOptions, readDockerfile, readFrom } from './read-dockerfile.ts';
import { runLine } from './step-lines.ts';

/** Returns the steps of a Dockerfile that has these lines after its `FROM`, as they run. */
function steps(base: ReadOptions, ...lines: string[]): object[] {
  return readDockerfile(['FROM image:1', ...lines].join('\n'), base).steps.map((step) => {
    if (step.kind === 'run') return { ...runLine(step), cwd: step.cwd };
    if (step.kind === 'copy') return { sources: step.sources, to: step.to };
    return step.kind === 'env' ? { env: step.env } : { workdir: step.path };
  });
}

describe('the settings of the image of FROM', () => {
  const GO = { PATH: '/usr/local/go/bin:/bin', GOPATH: '/go', APP_USER: 'app' };
  const shell = (line: string, cwd: string, as = 'root') => ({ as, run: `exec /bin/sh -c ${line}`, cwd });
  const cases: Record<string, [base: ReadOptions, lines: string[], expected: object[]]> = {
    'WORKDIR is where RUN runs': [{ baseWorkdir: '/srv' }, ['RUN make'], [shell('make', '/srv')]],
    'WORKDIR is what a relative WORKDIR is below': [{ baseWorkdir: '/srv' }, ['WORKDIR a'], [{ workdir: '/srv/a' }]],
    'WORKDIR is what a relative target of COPY is below': [
      { baseWorkdir: '/srv' },
      ['COPY a .', 'COPY a b'],
      [
        { sources: ['a'], to: '/srv/' },
        { sources: ['a'], to: '/srv/b' },
      ],
    ],
    'no WORKDIR is the root': [{}, ['RUN make'], [shell('make', '/')]],
    'USER runs RUN, until the next USER': [
      { baseUser: '1000' },
      ['RUN a', 'USER root', 'RUN b'],
      [shell('a', '/', 'user'), shell('b', '/')],
    ],
    'USER by name is an account of the image': [
      { baseUser: 'nginx' },
      ['RUN a'],
      [{ as: 'root', run: `exec su -s /bin/sh -c 'exec /bin/sh -c a' nginx`, cwd: '/' }],
    ],
    'USER with a group has this group': [
      { baseUser: '101:0' },
      ['RUN ["id"]'],
      [{ as: 'root', run: 'exec setpriv --reuid=101 --regid=0 --clear-groups id', cwd: '/' }],
    ],
    'ENV is replaced in ENV, WORKDIR, USER and COPY': [
      { baseEnv: GO },
      ['ENV PATH=/app/bin:$PATH', 'WORKDIR $GOPATH/src', 'COPY . $GOPATH/x/', 'USER $APP_USER'],
      [{ env: { PATH: '/app/bin:/usr/local/go/bin:/bin' } }, { workdir: '/go/src' }, { sources: ['.'], to: '/go/x/' }],
    ],
    'ENV of the image hides an ARG of the same name, as ENV of the file does': [
      { baseEnv: GO, buildArgs: { GOPATH: '/arg' } },
      ['ARG GOPATH', 'WORKDIR $GOPATH', 'ENV GOPATH=/file', 'WORKDIR $GOPATH'],
      [{ workdir: '/go' }, { env: { GOPATH: '/file' } }, { workdir: '/file' }],
    ],
    'SHELL runs lines, and not lists': [
      { baseShell: ['/bin/bash', '-eo', 'pipefail', '-c'] },
      ['RUN a | b', 'RUN ["c"]'],
      [
        { as: 'root', run: `exec /bin/bash -eo pipefail -c 'a | b'`, cwd: '/' },
        { as: 'root', run: 'exec c', cwd: '/' },
      ],
    ],
    'SHELL of the file replaces that of the image': [
      { baseShell: ['/bin/ash', '-c'] },
      ['SHELL ["/bin/bash", "-c"]', 'RUN a'],
      [{ as: 'root', run: 'exec /bin/bash -c a', cwd: '/' }],
    ],
    'ONBUILD runs before the lines of the file, in order': [
      { baseTriggers: ['COPY package.json /app/', 'RUN npm install', 'USER 1000'], baseWorkdir: '/app' },
      ['RUN last'],
      [{ sources: ['package.json'], to: '/app/' }, shell("'npm install'", '/app'), shell('last', '/app', 'user')],
    ],
    'ONBUILD uses ARG and variables of the image': [
      {
        baseTriggers: ['ARG NODE_ENV=production', 'ENV NODE_ENV=$NODE_ENV', 'WORKDIR $HOME_OF'],
        baseEnv: { HOME_OF: '/h' },
      },
      [],
      [{ env: { NODE_ENV: 'production' } }, { workdir: '/h' }],
    ],
  };
  for (const [title, [base, lines, expected]] of Object.entries(cases))
    it(title, () => assert.deepEqual(steps(base, ...lines), expected));

  it('an ONBUILD that Docker would refuse, or that has no effect here, is said at the line of FROM', () => {
    const read = (baseTriggers: string[]) => readDockerfile('# comment\nFROM image:1\n', { baseTriggers });
    for (const trigger of [
      'FROM other',
      'ONBUILD RUN a',
      'MAINTAINER me',
      'RUN a\nRUN b',
      '',
      `RUN ${'x'.repeat(70_000)}`,
    ])
      assert.throws(() => read([trigger]), /^DockerfileError: line 2: the image has an invalid ONBUILD/, trigger);
    assert.throws(() => read(['COPY --from=other a b']), /^DockerfileError: line 2: COPY --from is not supported/);
    assert.deepEqual(
      read(['CMD ["a"]', 'RUN a']).warnings.map((warning) => warning.split(':')[0]),
      ['line 2'],
    );
  });

  it('the settings of the image of FROM are asked for by the name of FROM, which is found although later lines need them', () => {
    const source = 'ARG TAG=1\nFROM --platform=x image:$TAG\nWORKDIR $OF_THE_IMAGE\n';
    assert.throws(() => readFrom(source), /FROM --platform is not supported/);
    assert.deepEqual(readFrom(source.replace('--platform=x ', ''), { buildArgs: { TAG: '2' } }), {
      line: 2,
      name: 'image:2',
    });
    assert.throws(() => readFrom('ARG A\n'), /the file has no FROM/);
  });
});
