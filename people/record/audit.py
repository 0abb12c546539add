"""The one write of the audit trail, and which writes have no line there. Leaves reading it to `audit_trail.py`. Called
by every write to be answered for."""

from __future__ import annotations

from people.access import Actor
from people.models import AuditEntry

UNRECORDED = {
    "The ask's page lists each change with name, time and reason": """
        experts.record.advising.answer experts.record.advising.answer_group experts.record.advising.edit
        experts.record.advising.withdraw experts.record.attaching.attach experts.record.attaching.remove
        experts.record.closing.cancel experts.record.closing.close_if_due
        experts.record.batch.decide experts.record.batch.decide_equal
        experts.record.links.answer experts.record.links.withdraw experts.record.closing.consume
        experts.record.queue.claim experts.record.queue.decline experts.record.queue.decline_unclaimed
        experts.record.queue.escalate experts.record.queue.release experts.record.queue.renew
        experts.record.queue.set_priority experts.record.queue.transfer""",
    "The episode's page lists each step and event with name and time": """
        episodes.record.recording.append_steps episodes.record.ending.finish episodes.record.recording.heartbeat
        episodes.record.pictures.upload episodes.record.recording.park_now episodes.record.recording.start_episode
        episodes.record.steering.hand_back episodes.record.steering.order episodes.record.steering.renew
        episodes.record.steering.take episodes.record.steering.undo episodes.record.whole.record_whole
        runs.play.person.say experts.record.opening.open_ask experts.record.pausing.pause
        imports.record.collecting.take""",
    "The run's page says who created it, and lists its training steps": """
        episodes.record.recording.start_run curriculum.record.training.report""",
    "The review and the episode show each with name and time; a change leaves the earlier one": """
        experts.record.tagging.annotate_ask notices.record.channels.hears
        experts.record.tagging.keep_unsent experts.record.tagging.tag reviews.record.annotating.annotate
        reviews.record.annotating.annotate_all reviews.record.annotating.reword reviews.record.annotating.undo
        reviews.record.annotating.undo_all reviews.record.assigning.as_if_given reviews.record.assigning.claim
        reviews.record.assigning.decline reviews.record.assigning.leave reviews.record.assigning.pull
        reviews.record.assigning.release reviews.record.assigning.renew reviews.record.correcting.correct
        reviews.record.correcting.withdraw reviews.record.deciding.change reviews.record.deciding.decide
        reviews.record.deciding.explain reviews.record.preferring.prefer reviews.record.preferring.undo""",
    "Drafts, quick replies and one's own settings: they give no one a right": """
        experts.record.desk.drop_reply experts.record.desk.keep_refused experts.record.desk.keep_reply
        experts.record.desk.keep_text experts.record.desk.save_draft experts.record.desk.seen
        experts.record.desk.want_draft notices.record.subscriptions.set_quiet_hours
        notices.record.subscriptions.set_rules notices.record.subscriptions.test reviews.record.mentions.see""",
    "A part of a sign-in, which has a line once it is complete": """
        people.record.factors.check_code people.record.factors.check_passkey people.record.following.keep_ticket
        people.record.members.create_account people.record.members.redeem_login_link""",
    "The last use of a token, which *API tokens* lists": """
        people.record.members.token_of""",
    "The key of a call, which changes nothing but its answer: the call itself has its line": """
        people.record.keyed_writes.once""",
    "What a model's server said of its slots, which *Models* shows": """
        runs.launch.slots.note""",
}
"""Writes without a line, by the reason. `tests/test_audited.py` finds every write behind a page or a call, and
compares the reasons with `docs/team.md`."""


def record(actor: Actor, verb: str, target: str = "", reason: str = "") -> None:
    """Write one line of the audit trail, in the transaction of the act."""
    by = signed(actor.name, actor.token.name) if actor.person and actor.token else actor.name
    AuditEntry.objects.create(project=actor.project, actor=by, verb=verb, target=target[:200], reason=reason)


def signed(name: str, token: str) -> str:
    """Return how the trail names a person who acted by a token of their own."""
    return f"{name[:80]} (token {token[:70]})"
