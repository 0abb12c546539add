/**
 * What the pages promise the scripts beyond the browser's own types. An element found by a selector is HTML, of the type
 * that the selector's last word names (`form[action] input` is an input), or else of the type that the variable it goes to
 * was given. Pictures in SVG are replaced whole and never asked for their parts.
 */

type Tags = HTMLElementTagNameMap;
type Word<S extends string> = S extends `${infer T}${"[" | "." | ":" | "#"}${string}` ? Word<T> : S;
type Found<S extends string> = S extends `${infer A},${infer B}`
  ? Found<A> | Found<B>
  : S extends `${string} ${infer Rest}`
    ? Found<Rest>
    : Word<S> extends keyof Tags
      ? Tags[Word<S>]
      : HTMLElement;

interface ParentNode {
  querySelector<S extends string, E extends Element = Found<S>>(selectors: S): E | null;
  querySelectorAll<S extends string, E extends Element = Found<S>>(selectors: S): NodeListOf<E>;
}

interface Element {
  closest<S extends string, E extends Element = Found<S>>(selectors: S): E | null;
}

interface Document {
  getElementById<E extends HTMLElement = HTMLElement>(id: string): E | null;
}

/** One frame of our sockets, as the shell hands it to the page; each type has fields of its own. */
type Frame = { type: string; [field: string]: any };

interface DocumentEventMap {
  "awm:frame": CustomEvent<Frame>;
  "awm:row": CustomEvent<{row: HTMLElement | null}>;
  "awm:left": CustomEvent<{ask: string, isSent?: boolean}>;
  "awm:declined": CustomEvent<{ask: string}>;
}
