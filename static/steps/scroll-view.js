// What a list of steps scrolls in.

/** The pane on wide screens, the page on small ones, where panes are stacked. */
export class View {
  constructor(pane) {
    this.pane = pane;
    this.measure();
  }

  measure() {
    this.stacked = !this.pane || getComputedStyle(this.pane).overflowY === "visible";
  }

  get box() { return this.stacked ? document.scrollingElement : this.pane; }
  get top() { return this.stacked ? 0 : this.pane.getBoundingClientRect().top; }
  get height() { return this.stacked ? innerHeight : this.pane.clientHeight; }
  by(distance) { this.box.scrollTop += distance; }
}
