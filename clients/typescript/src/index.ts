export type { components, paths } from "./api.js";
export { Desk, type AloneFields, type EpisodeFields } from "./desk.js";
export { Episode, type Advice, type ApproveFields, type AskFields, type ProposedCall, type Verdict } from "./episode.js";
export { DeskError, Refused, Unreachable } from "./errors.js";
export type { Step } from "./outbox.js";
export { Pauses, type Pause, type Decision } from "./pauses.js";
