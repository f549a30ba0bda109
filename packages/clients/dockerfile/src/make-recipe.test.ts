import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, describe, it } from 'node:test';
import { BuildContext } from './build-context.ts';
import { makeRecipe } from './make-recipe.ts';
import { readDockerfile } from './read-dockerfile.ts';
import { runLine, unpackLine } from './step-lines.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-recipe-test-'));
after(() => rmSync(folder, { recursive: true }));
mkdirSync(join(folder, 'src'));
writeFileSync(join(folder, 'src/a.txt'), 'a');

async function make(...lines: string[]) {
  const uploads: { title: string; bytes: number }[] = [];
  const made = await makeRecipe(readDockerfile(lines.join('\n'), { baseWorkdir: '/workspace' }), {
    context: new BuildContext(folder, join(folder, 'Dockerfile')),
    upload: async (archive, title) => {
      uploads.push({ title, bytes: (await buffer(archive)).length });
      return 'art_1';
    },
  });
  return { ...made, uploads };
}

describe('makeRecipe', () => {
  it('makeRecipe gives each RUN the variables, directory and user that it has in the file', async () => {
    const { recipe, titles, lines } = await make(
      'FROM base',
      'ARG V=1',
      'ENV A=one',
      'RUN first',
      'WORKDIR /a',
      'WORKDIR b',
      'ENV A=two',
      'USER 1000',
      "RUN echo 'it'\\''s'",
      'WORKDIR /end',
    );
    assert.deepEqual(recipe, {
      from: 'base',
      env: { A: 'two' },
      setup: [
        { as: 'root', run: 'exec /bin/sh -c first', cwd: '/workspace', env: { A: 'one', V: '1' } },
        { as: 'root', run: 'mkdir -p -- /a && mkdir -p -- /a/b', cwd: '/' },
        {
          as: 'user',
          run: `exec /bin/sh -c 'echo '\\''it'\\''\\'\\'''\\''s'\\'''`,
          cwd: '/a/b',
          env: { A: 'two', V: '1' },
        },
        { as: 'root', run: 'mkdir -p -- /end', cwd: '/' },
      ],
    });
    assert.deepEqual(titles, ['RUN first', 'WORKDIR /a/b', "RUN echo 'it'\\''s'", 'WORKDIR /end']);
    assert.deepEqual(lines, [4, 6, 9, 10]);
  });

  it('makeRecipe puts small files into the recipe, and uploads what is too large for it', async () => {
    const { recipe, uploads } = await make('FROM base', 'COPY src /app/');
    const [copy, unpack] = recipe.setup;
    assert.ok(copy && 'files' in copy && unpack && 'run' in unpack);
    const [file] = copy.files;
    const list = execFileSync('tar', ['-tzf', '-'], {
      input: Buffer.from(file?.content ?? '', 'base64'),
      encoding: 'utf8',
    });
    assert.equal(list, 'app/\napp/a.txt\n');
    assert.ok(unpack.run.includes(file?.path ?? '-'));
    assert.deepEqual(uploads, []);

    writeFileSync(join(folder, 'large'), Buffer.alloc(3_000_000, 'x'));
    const large = await make('FROM base', 'COPY large /');
    assert.deepEqual((large.recipe.setup[0] as { files: unknown[] }).files, [
      { path: '/tmp/.cloche-copy-1.tar.gz', mode: '0600', artifactId: 'art_1' },
    ]);
    assert.deepEqual(
      large.uploads.map(({ title }) => title),
      ['COPY large /'],
    );
  });

  it('starts from the template or the image that FROM names', async () => {
    for (const name of ['node', 'python:3.12-slim', `registry.example:5000/a/b@sha256:${'0'.repeat(64)}`]) {
      assert.equal((await make(`FROM ${name}`)).recipe.from, name);
    }
  });

  it('makeRecipe refuses what is neither a template nor an image, and more steps than a recipe may have', async () => {
    for (const name of ['Python', 'a//b', 'https://registry.example/a', 'a:b:c'])
      await assert.rejects(
        make(`FROM ${name}`),
        /^DockerfileError: line 1: FROM \S+ is neither a template nor an image/,
      );
    await assert.rejects(make('FROM scratch'), /line 1: FROM scratch is not supported/);
    await assert.rejects(make('FROM base', ...Array(101).fill('RUN x')), /more than 100 steps/);
  });
});

describe('the line of a step', () => {
  it('the line of a step passes the arguments of a RUN to the program as they are', () => {
    const words = ['a b', "it's", '$HOME', '"', '\\', '', '\n', '*', 'plain', '-n', '~'];
    const { run } = runLine({ argv: ['printf', '<%s>', ...words], user: 'root' });
    assert.equal(execFileSync('bash', ['-c', run], { encoding: 'utf8' }), words.map((word) => `<${word}>`).join(''));
  });

  it('the line of a step runs as the user that USER names', () => {
    const argv = ['id'];
    assert.deepEqual(
      ['0', 'root', 'root:root'].map((user) => runLine({ argv, user }).as),
      ['root', 'root', 'root'],
    );
    assert.deepEqual(
      ['user', '1000:1000'].map((user) => runLine({ argv, user }).as),
      ['user', 'user'],
    );
    assert.equal(runLine({ argv, user: 'app' }).run, "exec su -s /bin/sh -c 'exec id' app");
    assert.match(
      runLine({ argv, user: '42' }).run,
      /^exec setpriv --reuid=42 --regid=\$\(id -g 42 2>\/dev\/null \|\| echo 0\) .* id$/,
    );
    assert.match(runLine({ argv, user: 'app:staff' }).run, /--reuid=app --regid=staff/);
  });

  it('the line of a step gives copied files their owner, with the login group of a name', () => {
    const line = (owner: string) => unpackLine({ owner }, '/tmp/x.tar.gz', ['/app', '/app/a']);
    assert.match(line('app'), /chown -Rh app: /);
    assert.match(line('7'), /chown -Rh 7:7 /);
    assert.match(line('app:staff'), /chown -Rh app:staff /);
    assert.match(line('app'), /tar -cf \S+ -C \S+ \.\/app;/);
  });
});
