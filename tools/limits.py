"""What ends, and what is bounded: sentences with the constant that decides, as docs/limits.md prints them.

`printed.py` writes the page. Settings are in docs/configuration.md, and limits of bodies in docs/protocol.md.
"""

from __future__ import annotations

LIMITS: dict[str, list[tuple[str, str]]] = {
    "Asks and answers": [
        ("A claim of an ask ends, unless it is renewed, after", "experts.rules.routing.LEASE_S"),
        ("An expert counts as online after their last request for", "experts.rules.routing.PRESENT_FOR"),
        ("A person counts as viewing an ask after the last request of its page for", "experts.record.desk.LOOKING_S"),
        ("A standing answer ends at the latest after", "experts.record.standing_answers.LONGEST"),
        ("Standing answers of a project that can still decide, at most", "experts.record.standing_answers.ACTIVE_MAX"),
        ("An approval needs at most this many people", "awmclient.nouns.typed.QUORUM_MOST"),
        ("Rules of a project about people per approval, at most", "experts.rules.quorum.RULES_MAX"),
        ("A deadline of an ask is at most", "awmclient.nouns.values.MAX_DEADLINE_S"),
        ("Open asks of an episode, at most", "experts.record.opening.OPEN_MAX"),
        ("Files of a question or an answer, at most", "experts.rules.file_types.MOST_FILES"),
        ("A file of a question or an answer has at most", "experts.rules.file_types.MOST_BYTES"),
        ("A model's draft counts as failed after", "experts.record.desk.DRAFT_ALIVE"),
        ("A cancelled ask of MCP is opened again by the same question for", "experts.mcp.sessions.JOINED_FOR"),
        ("A poll for an answer waits at most", "experts.api.WAIT_MAX_S"),
    ],
    "Episodes and the wheel": [
        ("A picture of a step has at most", "awmclient.nouns.pictures.PICTURE_BYTES"),
        ("Pictures of a message or question, at most", "awmclient.nouns.pictures.STEP_PICTURES"),
        ("Pixels of a picture, at most", "episodes.stored.decode_picture.PIXELS"),
        ("A thumbnail has at most", "episodes.stored.decode_picture.THUMBNAIL_BYTES"),
        ("Pictures of an episode, at most", "episodes.record.pictures.MOST_PICTURES"),
        ("Pictures of an episode together have at most", "episodes.record.pictures.MOST_BYTES"),
        ("Reading a picture takes at most", "episodes.stored.decoding.CHILD_S"),
        ("Reading a picture takes a memory of at most", "episodes.stored.decode_picture.MEMORY_BYTES"),
        ("The wheel is handed back, unless it is renewed, after", "episodes.record.steering.LEASE_S"),
        ("The wheel is handed back without an order after", "episodes.record.steering.IDLE_S"),
        ("The wheel is handed back in any case after", "episodes.record.steering.LONGEST_S"),
        ("An order at the wheel can be held for at most", "awmclient.nouns.wheel.HOLD_MAX_S"),
        (
            "Lost workers in a row without a step, after which an episode fails",
            "episodes.record.recording.IDLE_ATTEMPTS",
        ),
        ("An episode is stalled without a step for", "episodes.show.wall.STALLED_S"),
        ("An episode in which a person acts as the agent ends without a turn after", "runs.play.person.FORGOTTEN"),
    ],
    "Reviews and comments": [
        ("A claim of a review ends, unless its queue says otherwise, after", "reviews.models.queues.LEASE_S"),
        ("Who wrote below a comment is notified of further ones for", "reviews.notifications.LISTENS_FOR"),
    ],
    "Runs and forks": [
        ("Branches of an episode, at most", "runs.play.forking.BRANCHES_MAX"),
        ("The world of a fork is restored within", "runs.play.forking.RESTORE_S"),
        ("Episodes of a campaign, at most", "runs.play.campaigning.ROOTS_MAX"),
        ("A snapshot of a world goes after its last use by", "awmenv.server.session.snapshots.KEPT_S"),
    ],
    "Imports and traces": [
        ("An upload has at most", "imports.record.importing.UPLOAD_MAX"),
        (
            "An upload is deleted when its import ends. One without an import goes after",
            "imports.record.importing.LEFT_S",
        ),
        ("Refused rows that an import lists, at most", "imports.record.importing.REFUSALS_KEPT"),
        ("A trace is stored after its root by", "imports.record.collecting.SETTLES"),
        ("A trace without a root is stored after a silence of", "imports.record.collecting.SILENT"),
        ("Spans of a trace, at most", "imports.record.collecting.SPANS_MAX"),
        ("A request with spans has at most", "imports.otlp_http.BODY_MAX"),
        ("Reading a trace takes at most", "imports.trace_process.MOST_S"),
    ],
    "Exports": [
        ("Exports and pushes of a project that are not done, at most", "exports.jobs.turns.WAITING_MAX"),
        ("A retention rule keeps at most this many days", "awmweb.retention.rules.DAYS_MAX"),
    ],
    "Sockets and calls": [
        ("A page hears that its socket is alive every", "episodes.events.BEAT_S"),
        ("A page replaces a socket that was silent, if a request fails, after", "episodes.events.SILENT_S"),
        ("A page replaces a socket that was silent, in any case, after", "episodes.events.DEAF_S"),
        ("Sockets of someone whose rights have ended are closed after", "episodes.live.consumers.RIGHT_S"),
        ("A revoked token is refused at the latest after", "people.known_tokens.KNOWN_S"),
        ("The answer to a call with a key is kept for", "people.record.keyed_writes.KEPT"),
        ("A body can pause for", "people.requests.bodies.SILENCE_S"),
        ("Bodies of known senders use in one web process at most", "people.requests.bodies.ROOM_BYTES"),
        ("Reads of full steps of one sender at the same time, at most", "people.requests.turns.READS_PER_SENDER"),
        ("A statement of a web process ends after", "awmweb.asgi.STATEMENT_S"),
    ],
    "People": [
        ("A sign-in link expires after", "people.record.members.LINK_LIFE"),
        ("A sign-in waits for its second factor for", "people.pages.second_factor.WAIT_S"),
    ],
    "Notifications": [
        ("Channels of one person in one project, at most", "notices.record.subscriptions.CHANNELS_MAX"),
        ("A code for a channel is invalid after this many wrong ones", "notices.record.subscriptions.TRIES_MAX"),
        ("A notification is tried at most this often", "notices.record.deliveries.ATTEMPTS_MAX"),
        ("A notification stays in the log for", "notices.record.deliveries.KEPT"),
        ("Slack channels of one project, at most", "notices.record.channels.CHANNELS_MAX"),
        ("A process has a message of a Slack channel to draw for at most", "notices.record.channels.TAKEN_FOR"),
        ("A message of a Slack channel is drawn again for", "notices.record.channels.KEPT"),
        ("A sweep compares this many messages of Slack channels, at most", "notices.record.channels.LOOKED_AT"),
        ("An answer that can be withdrawn is looked at for a Slack channel for", "experts.notifications.WITHDRAWN_FOR"),
        ("A push that no device fetches expires after", "notices.sending.PUSH_LIFE_S"),
    ],
    "Processes": [
        ("A process that a signal has stopped is ended after", "awmweb.embedded.supervisor.STOPPED_S"),
        ("A process without a report counts as ended after", "people.measures.SILENT_S"),
    ],
}
"""Sentences by subject, each with the dotted name of its constant."""
