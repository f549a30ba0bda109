import type { AnyNode, ImportDeclaration, ModuleDeclaration, Program, Statement, VariableDeclaration } from 'acorn';
import MagicString from 'magic-string';
import { aliasOf } from '../messages.ts';
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

/** Name of the parameter through which a cell's code calls the kernel; see `CellSupport`. */
export const SUPPORT = '__cloche';

export interface RewrittenCell {
  source: string;
  sourceMap: string;
  /** Names that the cell declares for later cells. `const` and imports are constant. */
  declared: Map<string, { constant: boolean }>;
}

export interface RewriteOptions {
  /** Constants that earlier cells declared. */
  constants: ReadonlySet<string>;
  /** Global names that earlier cells declared. In cells these names mean the alias. */
  aliased: ReadonlySet<string>;
  /**
   * Names that get an alias when a cell declares them. Modules look names up in the cells' shared scope before the
   * global object. Without an alias a cell's `URL` would also become every library's `URL`.
   */
  globals: ReadonlySet<string>;
  /** Whether a missing export is allowed, because it may be a type. */
  lenientImports: boolean;
  /** Returns whether compiling added a name. Such a name is not visible to later cells. */
  isAdded: (name: string) => boolean;
}

/**
 * Rewrites a cell to an arrow function that assigns to names in a scope shared by all cells. Top-level declarations
 * become assignments to names that the caller declares once. So a name can be declared again as another kind, and
 * closures of earlier cells see the new value. Function declarations and imports move to the front, as hoisting would.
 * Our own code, because Node's REPL does not export its rewriting, and there a `const` cannot be declared again.
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
    // Inner edits come first, because of two insertions at one position the later one ends up outside.
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

  /** Rewrites constructs that can occur at any depth: awaits, `import.meta`, and a `var` that belongs to the cell. */
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
          // Includes a removed `export`, so that it moves with the function.
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

  /** Rewrites `let a = 1, b` to `void (a = 1, b = void 0);`. A `var` without an initial value keeps its value. */
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

  /**
   * Renames aliased names and rejects assignments to constants. `update` keeps insertions that `overwrite` would drop.
   */
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

  /** Replaces an assignment to a constant by a throw, after the value has been evaluated, as the language requires. */
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
    const last = this.#program.body.findLast((statement) => !isEmpty(statement));
    if (last?.type !== 'ExpressionStatement' || last.directive === 'use strict') return;
    if (isDecoration(last.expression, this.#options.isAdded)) return;
    const end = this.#code[last.end - 1] === ';' ? last.end - 1 : last.end;
    this.#text.prependRight(last.start, 'return (').appendLeft(end, ')');
  }

  #isAdded({ declarations }: VariableDeclaration): boolean {
    return declarations.flatMap(({ id }) => namesOf(id)).every(this.#options.isAdded);
  }

  /** Returns whether compiling added a statement. In such code a name always means the global. */
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

/** Returns whether a statement does nothing, as the `export {}` that removing the types of a module leaves at its end. */
function isEmpty(statement: Statement | ModuleDeclaration): boolean {
  if (statement.type !== 'ExportNamedDeclaration') return statement.type === 'EmptyStatement';
  return !statement.declaration && !statement.source && statement.specifiers.length === 0;
}

function isAsynchronous(node: AnyNode): boolean {
  return (
    node.type === 'AwaitExpression' ||
    (node.type === 'ForOfStatement' && node.await) ||
    (node.type === 'VariableDeclaration' && node.kind === 'await using')
  );
}

/** Returns whether a declaration lasts beyond its cell. `using` does not. `var` is handled at any depth instead. */
function isPersistentLexical({ kind }: VariableDeclaration): boolean {
  return kind === 'let' || kind === 'const';
}
