/** What goes wrong, by `code`: the codes of docs/errors.md. */

export class DeskError extends Error {
  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/** The dashboard did not answer in time. What was not sent is kept and goes first in the next call. */
export class Unreachable extends DeskError {
  constructor(message: string) {
    super(message, "unreachable");
  }
}

/** The dashboard refused the call: the same call again is refused again. */
export class Refused extends DeskError {
  constructor(
    message: string,
    code: string,
    readonly status: number,
  ) {
    super(message, code);
  }
}
