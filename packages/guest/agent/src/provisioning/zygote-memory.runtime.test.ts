import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const KERNEL_PYTHON = fileURLToPath(new URL('../../../kernel-python', import.meta.url));

/** Runs a program that can import the zygote's modules. Returns its output. */
function python(program: string): string {
  const env = { PYTHONPATH: KERNEL_PYTHON, PYTHONDONTWRITEBYTECODE: '1' };
  return execFileSync('/usr/bin/python3', ['-c', program], { env, encoding: 'utf8' }).trim();
}

const FUNCTIONS = `
from cloche_zygote.code_layout import group_called_code

def source(n):
    return f'''
def outer{n}(step={n}):
    base = {n}
    def inner(x):
        return x + base + step
    return sum(inner(x) for x in range(3)), (lambda *, y=1: y + base)(), outer{n}.__doc__
'''

names = {}
for n in range(2000):
    exec(compile(source(n), f'<{n}>', 'exec'), names)
used = [names[f'outer{n}'] for n in range(0, 2000, 20)]
pages = lambda: len({id(each.__code__) >> 12 for each in used})
run = lambda: [each() for each in used]
`;

/** A program that allocates a little of each size from partially filled pools. It prints how many pages that takes. */
const POOLS = `
import sys
from cloche_zygote.allocator_pools import fill_partial_pools

kept = [bytes(n % 480) for n in range(200_000)]
del kept[::7]
if FILL: fill_partial_pools()
few = [bytes(size - 33) for size in range(48, 513, 16) for _ in range(8)]
print(len({id(each) >> 12 for each in few}))
`;

describe('the memory of a zygote', () => {
  test('the memory of a zygote holds the code that is run in few pages, and it does what it did', () => {
    const [before, after, ...same] = python(`${FUNCTIONS}
expected, before = run(), pages()
group_called_code(run)
print(before, pages(), run() == expected, used[3].__code__.co_filename, names['outer1']()[0])`).split(' ');
    assert.deepEqual(same, ['True', '<60>', '9']);
    assert.ok(Number(after) * 3 < Number(before), `${after} pages instead of ${before}`);
  });

  test('the memory of a zygote has no free places that the objects of a fork would be scattered to', () => {
    const [strewn, together] = ['False', 'True'].map((fill) => Number(python(POOLS.replace('FILL', fill))));
    assert.ok(Number(together) * 2 < Number(strewn), `${together} pages instead of ${strewn}`);
  });

  test('the memory of a zygote hides modules after a trial import, ready to be imported again', () => {
    const said = python(`
import sys
from cloche_zygote.preloaded_modules import PreloadedModules, remember_files

shown = []
modules = PreloadedModules(shown.extend)
modules.load_group(('calendar', 'wave'), lambda name: None)
loaded = sys.modules['calendar']
remember_files()
modules.hide()
finders = sys.meta_path[:]
for _ in range(2):
    with modules.trial():
        import calendar
        print(calendar is loaded, end=' ')
print('calendar' in sys.modules, sys.meta_path == finders, end=' ')
modules.install()
import calendar
print(calendar is loaded, *shown)`);
    assert.equal(said, 'True True False True True calendar calendar calendar');
  });
});
