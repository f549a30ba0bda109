/** Finds titles of tests that are no sentence without the title of their group. */

/** Words that begin a predicate, and never a subject. */
const AUXILIARIES = 'is are was were has have had does do did can cannot could may might must will would never';
/** Words that begin an attribute of a subject that stands elsewhere. */
const ATTRIBUTES = 'that whose of and also but not';
/** Words that begin an adjunct, which a subject may follow behind a comma: "on PostgreSQL, a deletion waits". */
const ADJUNCTS = 'with without by to in on at from for when while if after before';
/** Verbs of today's titles. As nouns, some of them begin a subject: "runs of one context end in order". */
const VERBS = `
  accepts adopts allows announces answers applies asks awaits becomes begins belongs blocks bounds breaks builds calls
  cancels carries catches changes charges checks closes comes compiles continues copies costs counts covers creates cuts
  decides delays deletes destroys draws drops encrypts ends enforces exists expires explains exports fails filters finds
  finishes fits flows follows forgets forwards gains gets gives goes hands has heeds hides holds ignores imports joins
  keeps kills knows lasts launches leads learns leaves lets limits lists lives loads looks loses makes matches measures
  moves names needs notes notices opens outlives parses pays prefers prints protects publishes puts raises reaches reads
  receives refreshes refuses rejects releases remains remembers removes renders renews repeats replaces reports requests
  restarts restores resumes returns revokes rotates runs says sees sends serves sets shares shows signs skips sleeps
  slows speaks splits stands starts stays stops stores streams succeeds suggests survives sweeps takes tells throws
  treats turns undoes unpacks uses verifies waits warns works writes yields
  agree belong become carry come count cover end follow give go hide keep leave lose name need reach refuse run say send
  show share stay take tell wait`;
const NOUN_CONTEXT = /^(?:of|that|whose|which|between|from|in|with|and|are|were|have|do|can|cannot|may|must)$/;

const words = (text: string) => new Set(text.trim().split(/\s+/));
const NEVER_FIRST = words(`${AUXILIARIES} ${ATTRIBUTES}`);
const UNLESS_COMMA = words(ADJUNCTS);
const PREDICATES = words(VERBS);

/** Whether a title begins with its predicate and names its subject only in the title of its group. */
export function lacksSubject(title: string): boolean {
  const [first = '', second = ''] = title.split(' ');
  if (NEVER_FIRST.has(first)) return true;
  if (UNLESS_COMMA.has(first)) return !title.includes(', ');
  return PREDICATES.has(first.replace(/,$/, '')) && (first.endsWith(',') || !NOUN_CONTEXT.test(second));
}

/** Returns the titles of tests in a formatted source that lack their subject, each with its line. */
export function titlesWithoutSubject(source: string): string[] {
  const titles = source.matchAll(/^ *(?:await )?(?:it|test)(?:\.\w+)?\(\s*(['"`])((?:\\.|(?!\1).)*)\1/gm);
  return [...titles]
    .filter(([, , title = '']) => lacksSubject(title))
    .map(({ index, 2: title }) => `${source.slice(0, index).split('\n').length}: ${title}`);
}
