"""What lists and search keep beside the steps, and saved filters."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Q

from episodes.models.episodes import Episode
from episodes.models.steps import Step
from people.models import IdField, Project


class EpisodeFacts(models.Model):
    """What filters ask of an episode and only its steps tell, up to `read_seq`. `done` once it has ended and was read
    to its end. `waiting` are asks that were open when they were read, and are read again. Words of steps up to
    `joined_seq` are in `EpisodeWords` as well."""

    episode = models.OneToOneField(Episode, primary_key=True, on_delete=models.CASCADE, related_name="facts")
    read_seq = models.IntegerField(default=0)
    joined_seq = models.IntegerField(default=0)
    done = models.BooleanField(default=False)
    errors = models.IntegerField(default=0)
    asks = models.IntegerField(default=0)
    tools = ArrayField(models.CharField(max_length=200), default=list, blank=True)
    answered = ArrayField(models.CharField(max_length=20), default=list, blank=True)
    stopped = models.IntegerField(default=0, db_default=0)
    """Turns that the model's server stopped before their end."""
    unread = models.IntegerField(default=0, db_default=0)
    """Turns that look like a call and called nothing."""
    in_text = models.IntegerField(default=0, db_default=0)
    """Turns whose calls were read from the model's words."""
    waiting = ArrayField(models.IntegerField(), default=list, blank=True)

    class Meta:
        indexes = [
            # partial: at any time few episodes are unread
            models.Index(fields=["done"], condition=Q(done=False), name="facts_to_read"),
            models.Index(fields=["episode"], condition=Q(joined_seq__lt=F("read_seq")), name="facts_to_join"),
            GinIndex(fields=["tools"], name="facts_by_tool"),
        ]

    def __str__(self) -> str:
        return f"{self.episode_id} up to {self.read_seq}"


class StepWords(models.Model):
    """The words by which a step is found; never one of the verifier's."""

    step = models.OneToOneField(Step, primary_key=True, on_delete=models.CASCADE, related_name="words")
    # no index of its own: `words_by_episode` begins with the episode
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.IntegerField()
    words = SearchVectorField()

    class Meta:
        indexes = [
            GinIndex(fields=["words"], name="words_of_steps"),
            models.Index(fields=["episode", "seq"], name="words_by_episode"),
        ]

    def __str__(self) -> str:
        return f"words of step {self.seq}"


class EpisodeWords(models.Model):
    """The words of many steps of an episode, without their places: a frequent word has an entry here for each of its
    episodes, and not for each of its steps."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="+")
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="words_of_episodes")]

    def __str__(self) -> str:
        return f"words of {self.episode_id}"


class SearchMark(models.Model):
    """One row: every step that was committed before `read_until` can be found; `swept_at` is the last look at all
    episodes."""

    read_until = models.DateTimeField()
    swept_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.read_until.isoformat()


class SavedView(models.Model):
    """Filters of the list of episodes under a name, for its author or for everyone in the project."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="episode_views")
    author_key = models.CharField(max_length=60)
    author = models.CharField(max_length=160)
    name = models.CharField(max_length=60)
    query = models.TextField()
    shared = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "author_key", "name"], name="one_episode_view_per_name")
        ]

    def __str__(self) -> str:
        return self.name
