import type { AnyNode, ImportDeclaration, ModuleDeclaration, Program, Statement, VariableDeclaration } from 'acorn';
import MagicString from 'magic-string';
import { importExpression, importedName } from './import-source.ts';
import { parseCell } from './parse-cell.ts';
import { findReferences, type Reference } from './references.ts';
import {
  firstOf,
  forEachChild,
  isFunctionLike,
  isLoopHead,
  isNamedDeclaration,
  lastOf,
  namesOf,
} from './syntax-tree.ts';
import { enumAccumulator, isDecoration } from './transformer-output.ts';

/** The parameter through which a cell's code reaches the kernel; see `CellSupport`. */
export const SUPPORT = '__cloche';

export interface RewrittenCell {
  source: string;
  sourceMap: string;
  /** What the cell declares for later cells. `const` and imports are constant. */
  declared: Map<string, { constant: boolean }>;
}

/**
 * The binding that stands for a cell's variable `name` when `name` is also a global. The character added is one that
 * identifiers may hold and nobody sees, so that error messages and the names of functions read as they should.
 */
export function aliasOf(name: string): string {
  return `${name}\u200c`;
}

export interface RewriteOptions {
  /** Constants that earlier cells declared. */
  constants: ReadonlySet<string>;
  /** Names of globals that earlier cells declared: these cells mean the alias. */
  aliased: ReadonlySet<string>;
  /**
   * Names that are aliased when a cell declares them. Modules see the scope that cells share before they see the
   * global object: without this a cell's `URL` would be every library's `URL`.
   */
  globals: ReadonlySet<string>;
  /** A name that a module does not export is a type perhaps: it is not an error. */
  lenientImports: boolean;
  /** Names that compiling added: they are the cell's own, and no later cell's. */
  isAdded: (name: string) => boolean;
}

/**
 * Turns a cell into an arrow function that assigns to names of a scope shared by all cells. Declarations at its top
 * level become assignments (to names that the caller declares once), so that every kind can be declared again and
 * closures of earlier cells see the new value. Function declarations and imports move to the front, as hoisting would.
 *
 * @throws SyntaxError of acorn, with `pos`
 */
export function rewriteCell(code: string, options: RewriteOptions): RewrittenCell {
  return new CellRewriter(code, options).rewrite();
}

class CellRewriter {
  readonly #code: string;
  readonly #options: RewriteOptions;
  readonly #text: MagicString;
  readonly #program: Program;
  readonly #declared = new Map<string, { constant: boolean }>();
  readonly #functions: AnyNode[] = [];
  readonly #imports: AnyNode[] = [];
  #isAsync = false;

  constructor(code: string, options: RewriteOptions) {
    this.#code = code;
    this.#options = options;
    this.#program = parseCell(code);
    this.#text = new MagicString(code);
  }

  rewrite(): RewrittenCell {
    // Inner edits come first: of two insertions at one place the later one ends up outside.
    this.#rewriteNested(this.#program, undefined, true);
    for (const statement of this.#program.body) this.#declare(statement);
    this.#rewriteReferences();
    for (const statement of this.#program.body) this.#rewriteStatement(statement);
    this.#returnLastExpression();
    for (const node of this.#functions) this.#moveToFront(node);
    for (const node of this.#imports) this.#moveToFront(node);

    if (this.#code.startsWith('#!')) this.#text.prependRight(0, '//');
    this.#text.prepend(
      `(${this.#isAsync ? 'async ' : ''}(${SUPPORT}, babelHelpers) => {${this.#isStrict() ? '"use strict";' : ''}`,
    );
    this.#text.append('\n})');
    return {
      source: this.#text.toString(),
      sourceMap: this.#text.generateMap({ hires: 'boundary', source: 'cell' }).toString(),
      declared: this.#declared,
    };
  }

  /** Whatever may stand at any depth: awaits, `import.meta`, and `var` that belongs to the cell. */
  #rewriteNested(node: AnyNode, parent: AnyNode | undefined, isOutside: boolean): void {
    const areChildrenOutside = isOutside && !isFunctionLike(node);
    forEachChild(node, (child) => this.#rewriteNested(child, node, areChildrenOutside));

    if (isOutside && isAsynchronous(node)) this.#isAsync = true;
    if (node.type === 'AwaitExpression') {
      this.#text.prependRight(node.start, `${SUPPORT}.resumed(`).appendLeft(node.end, ')');
    } else if (node.type === 'ForOfStatement' && node.await && node.body.type === 'BlockStatement') {
      this.#text.appendLeft(node.body.start + 1, `${SUPPORT}.resumed();`);
    } else if (node.type === 'MetaProperty' && node.meta.name === 'import') {
      this.#text.overwrite(node.start, node.end, `${SUPPORT}.meta`);
    } else if (isOutside && node.type === 'VariableDeclaration' && node.kind === 'var' && !this.#isAdded(node)) {
      for (const { id } of node.declarations) for (const name of namesOf(id)) this.#declareName(name, false);
      if (parent && isLoopHead(parent, node)) this.#text.remove(node.start, firstOf(node).start);
      else this.#assignInsteadOfDeclaring(node);
    }
  }

  #declare(statement: Statement | ModuleDeclaration): void {
    switch (statement.type) {
      case 'VariableDeclaration':
        if (!isPersistentLexical(statement) || this.#isAdded(statement)) return;
        for (const { id } of statement.declarations) {
          for (const name of namesOf(id)) this.#declareName(name, statement.kind === 'const');
        }
        return;
      case 'FunctionDeclaration':
      case 'ClassDeclaration':
        this.#declareName(statement.id.name, false);
        return;
      case 'ImportDeclaration':
        for (const specifier of statement.specifiers) this.#declareName(specifier.local.name, true);
        return;
      case 'ExportNamedDeclaration':
        if (statement.declaration) this.#declare(statement.declaration);
        return;
      case 'ExportDefaultDeclaration':
        if (isNamedDeclaration(statement.declaration)) this.#declareName(statement.declaration.id.name, false);
    }
  }

  #declareName(name: string, constant: boolean): void {
    this.#declared.set(name, { constant });
  }

  #rewriteStatement(statement: Statement | ModuleDeclaration, exportStart = statement.start): void {
    switch (statement.type) {
      case 'VariableDeclaration':
        if (isPersistentLexical(statement) && !this.#isAdded(statement)) this.#assignInsteadOfDeclaring(statement);
        return;
      case 'FunctionDeclaration':
      case 'ClassDeclaration':
        this.#text
          .prependRight(statement.start, `${this.#bindingOf(statement.id.name)} = `)
          .appendLeft(statement.end, ';');
        if (statement.type === 'FunctionDeclaration') {
          // A part that was removed before it moves along.
          this.#functions.push({ ...statement, start: exportStart });
        }
        return;
      case 'ImportDeclaration':
        this.#replaceByImport(statement, this.#import(statement));
        return;
      case 'ExportAllDeclaration':
        this.#replaceByImport(statement, `await import(${statement.source.raw});`);
        return;
      case 'ExportNamedDeclaration':
        if (statement.declaration) {
          this.#text.remove(statement.start, statement.declaration.start);
          this.#rewriteStatement(statement.declaration, statement.start);
        } else if (statement.source) {
          this.#replaceByImport(statement, `await import(${statement.source.raw});`);
        } else {
          this.#text.overwrite(statement.start, statement.end, ';');
        }
        return;
      case 'ExportDefaultDeclaration': {
        const { declaration } = statement;
        if (isNamedDeclaration(declaration)) {
          this.#text.remove(statement.start, declaration.start);
          this.#rewriteStatement(declaration, statement.start);
        } else {
          this.#text.overwrite(statement.start, declaration.start, 'void (').appendLeft(declaration.end, ');');
        }
      }
    }
  }

  /** `let a = 1, b` → `void (a = 1, b = void 0);`. A `var` without a value keeps the one it has. */
  #assignInsteadOfDeclaring(declaration: VariableDeclaration): void {
    for (const { id, init } of declaration.declarations) {
      if (!init && declaration.kind !== 'var') this.#text.appendLeft(id.end, ' = void 0');
      const accumulator = init && declaration.kind === 'var' ? enumAccumulator(init, id) : undefined;
      if (accumulator) this.#text.overwrite(accumulator.start, accumulator.end, '{}');
    }
    this.#text.overwrite(declaration.start, firstOf(declaration).start, 'void (');
    this.#text.appendLeft(lastOf(declaration).end, this.#code[declaration.end - 1] === ';' ? ')' : ');');
  }

  #replaceByImport(statement: AnyNode, source: string): void {
    this.#isAsync = true;
    this.#text.overwrite(statement.start, statement.end, source);
    this.#imports.push(statement);
  }

  #import(declaration: ImportDeclaration): string {
    const module = importExpression(declaration);
    if (declaration.specifiers.length === 0) return `${module};`;
    const locals = declaration.specifiers.map((specifier) => this.#bindingOf(specifier.local.name));
    const exported = JSON.stringify(declaration.specifiers.map(importedName));
    const from = this.#options.lenientImports ? '' : `, ${declaration.source.raw}`;
    return `[${locals.join(', ')}] = ${SUPPORT}.imported(${module}, ${exported}${from});`;
  }

  /** `update` and not `overwrite`: what was inserted around an awaited name stays. */
  #rewriteReferences(): void {
    const { isAdded } = this.#options;
    const constants = new Set(this.#options.constants);
    for (const [name, { constant }] of this.#declared) {
      if (constant) constants.add(name);
      else constants.delete(name);
    }
    const aliased = [...this.#options.aliased, ...this.#declared.keys()].filter((name) => this.#isAliased(name));
    const names = new Set([...constants, ...aliased].filter((name) => !isAdded(name)));
    const written = this.#program.body.filter((statement) => !this.#isHelper(statement));
    for (const reference of findReferences({ ...this.#program, body: written }, names)) {
      const { node, assignment, isShorthand } = reference;
      if (assignment && constants.has(node.name)) this.#rejectAssignment(reference);
      else if (this.#isAliased(node.name)) {
        this.#text.update(node.start, node.end, `${isShorthand ? `${node.name}: ` : ''}${aliasOf(node.name)}`);
      }
    }
  }

  /** Throws where the assignment would have been made, after its value is known, as the language has it. */
  #rejectAssignment({ node, assignment, isShorthand }: Reference): void {
    const rejection = `${SUPPORT}.constant(${JSON.stringify(node.name)}`;
    if (assignment === 'target') {
      this.#text.update(node.start, node.end, `${isShorthand ? `${node.name}: ` : ''}${rejection}).value`);
    } else if (assignment?.type === 'UpdateExpression') {
      this.#text.update(assignment.start, assignment.end, `${rejection})`);
    } else if (assignment?.type === 'AssignmentExpression') {
      const operatorEnd = this.#code.indexOf(assignment.operator, node.end) + assignment.operator.length;
      this.#text.update(assignment.start, operatorEnd, `${rejection},`).appendLeft(assignment.end, ')');
    }
  }

  #isAliased(name: string): boolean {
    return this.#options.aliased.has(name) || (this.#declared.has(name) && this.#options.globals.has(name));
  }

  #bindingOf(name: string): string {
    return this.#isAliased(name) ? aliasOf(name) : name;
  }

  #returnLastExpression(): void {
    const last = this.#program.body.findLast((statement) => statement.type !== 'EmptyStatement');
    if (last?.type !== 'ExpressionStatement' || last.directive === 'use strict') return;
    if (isDecoration(last.expression, this.#options.isAdded)) return;
    const end = this.#code[last.end - 1] === ';' ? last.end - 1 : last.end;
    this.#text.prependRight(last.start, 'return (').appendLeft(end, ')');
  }

  #isAdded({ declarations }: VariableDeclaration): boolean {
    return declarations.flatMap(({ id }) => namesOf(id)).every(this.#options.isAdded);
  }

  /** Code that compiling put first means the globals as they are, whatever cells declared. */
  #isHelper(statement: AnyNode): boolean {
    return statement.type === 'VariableDeclaration' && statement.kind === 'var' && this.#isAdded(statement);
  }

  #moveToFront({ start, end }: AnyNode): void {
    if (start > 0) this.#text.move(start, end, 0);
  }

  #isStrict(): boolean {
    return this.#program.body.some(
      (statement) => statement.type === 'ExpressionStatement' && statement.directive === 'use strict',
    );
  }
}

function isAsynchronous(node: AnyNode): boolean {
  return (
    node.type === 'AwaitExpression' ||
    (node.type === 'ForOfStatement' && node.await) ||
    (node.type === 'VariableDeclaration' && node.kind === 'await using')
  );
}

/** `using` is not: its value is disposed of when the cell ends. `var` may also stand deeper and is handled there. */
function isPersistentLexical({ kind }: VariableDeclaration): boolean {
  return kind === 'let' || kind === 'const';
}
