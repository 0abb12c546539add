/**
 * One request to the dashboard: sent again while that is safe, its refusal as an error.
 *
 * Each call has a key, or changes nothing twice. No redirect is followed, so the token reaches no other host.
 */

import createClient, { type Client } from "openapi-fetch";
import type { paths } from "./api.js";
import { Refused, Unreachable } from "./errors.js";

const FIRST_PAUSE_S = 0.2;
const LONGEST_PAUSE_S = 10;
const READ_S = 30;
/** Codes of requests without effect: a slow body, too many requests, an unavailable database. */
const AGAIN = new Set([408, 429, 503]);
/** A dashboard whose disk is full is waited for: a person has to make room. */
const FULL_S = 3600;
/** A longer timer ends at once. */
export const TIMER_MAX_S = 2 ** 31 / 1000 - 1;
const NO_DASHBOARD = "This address is not an awmweb dashboard.";

export interface Patience {
  /** How long a call is sent again; without it as long as the desk says. */
  retryS?: number;
  /** How long one response is waited for. */
  readS?: number;
  /** Ends the call at once. */
  signal?: AbortSignal;
}

interface Outcome<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

type Call<Data> = (api: Client<paths>, signal: AbortSignal) => Promise<Outcome<Data>>;

interface Reply<Data> {
  data: NonNullable<Data>;
  status: number;
}

interface Envelope {
  error?: { code?: string; message?: string };
}

interface Failure {
  why: string;
  pauseS?: number | undefined;
  isFull?: boolean;
}

export class Wire {
  readonly #calls: Client<paths>;
  readonly #retryS: number;

  constructor(url: string, token: string, retryS: number) {
    const at = new URL(url);
    if (!/^https?:$/.test(at.protocol)) throw new TypeError("The dashboard's URL must start with http:// or https://.");
    if (!/^[\x21-\x7e]+$/.test(token)) throw new TypeError("The token is empty or has invalid characters.");
    const baseUrl = at.origin + at.pathname.replace(/\/+$/, "").replace(/\/api\/v1$/, "");
    const headers = { Authorization: `Bearer ${token}`, Accept: "application/json" };
    this.#calls = createClient<paths>({ baseUrl, headers, redirect: "manual" });
    this.#calls.use({ onResponse: ({ response }) => refuseOther(response) });
    this.#retryS = retryS;
  }

  /** Make a call of the API until there is a response; returns its body and status. */
  async send<Data>(
    call: Call<Data>,
    { retryS, readS = READ_S, signal }: Patience = {},
  ): Promise<Reply<Data>> {
    let giveUp = now() + (retryS ?? this.#retryS);
    let waitsForRoom = retryS === undefined;
    for (let pause = FIRST_PAUSE_S; ; pause = Math.min(pause * 2, LONGEST_PAUSE_S)) {
      signal?.throwIfAborted();
      const limit = AbortSignal.timeout(Math.ceil(readS * 1000));
      const reply = await this.#once(call, signal ? AbortSignal.any([signal, limit]) : limit);
      if ("data" in reply) return reply;
      if (reply.isFull && waitsForRoom) {
        giveUp = now() + FULL_S;
        waitsForRoom = false;
      }
      // With jitter, so that many loops that lost one dashboard do not return together.
      const own = pause * (0.5 + Math.random());
      const askedFor = reply.pauseS ?? 0; // 0 is none: it would send as many requests as fit into a second
      const wait = reply.isFull || !askedFor ? Math.max(own, askedFor) : Math.max(askedFor, FIRST_PAUSE_S);
      if (now() + wait > giveUp) throw new Unreachable(reply.why);
      await sleep(wait, signal);
    }
  }

  async #once<Data>(call: Call<Data>, signal: AbortSignal): Promise<Reply<Data> | Failure> {
    let outcome: Outcome<Data>;
    try {
      outcome = await call(this.#calls, signal);
    } catch (error) {
      // Any other error is one of the connection, which can also break off a body.
      if (error instanceof Refused) throw error;
      return { why: String(error instanceof Error ? (error.cause ?? error) : error) };
    }
    const { data, error, response } = outcome;
    const status = response.status;
    const { code, message } = (error as Envelope | undefined)?.error ?? {};
    if (AGAIN.has(status) || status >= 500) {
      const why = message ?? `The dashboard answered ${status}.`;
      return { why, pauseS: retryAfter(response), isFull: code === "no_space" };
    }
    if (status < 200 || (status >= 300 && status < 400))
      throw new Refused("The dashboard redirects. Use its final URL.", "redirected", status);
    if (status >= 400) throw new Refused(message ?? `The dashboard answered ${status}.`, code ?? "refused", status);
    if (typeof data !== "object" || data === null) throw new Refused(NO_DASHBOARD, "not_a_dashboard", status);
    return { data, status };
  }
}

function refuseOther(response: Response): void {
  const isJson = response.headers.get("Content-Type")?.includes("json");
  if (response.ok && !isJson) throw new Refused(NO_DASHBOARD, "not_a_dashboard", response.status);
}

function retryAfter(response: Response): number | undefined {
  const value = response.headers.get("Retry-After")?.trim();
  if (!value) return undefined;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), TIMER_MAX_S);
}

/** Seconds of a clock that no one sets. */
export const now = (): number => performance.now() / 1000;

export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
