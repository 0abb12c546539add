"""Pictures that steps refer to: the bytes once a project, and which episodes have them."""

from __future__ import annotations

from django.db import models

from episodes.models.episodes import Episode
from people.models import IdField, Project


class Picture(models.Model):
    """A picture by the digest of its bytes, with a small one for pages. It goes with the last episode that has it."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="pictures", db_index=False)
    sha256 = models.CharField(max_length=64)
    media_type = models.CharField(
        max_length=10, choices=[("image/png", "PNG"), ("image/jpeg", "JPEG"), ("image/webp", "WebP")]
    )
    width = models.IntegerField()
    height = models.IntegerField()
    size = models.IntegerField()
    data = models.BinaryField()
    thumbnail = models.BinaryField()
    """At most 320 px wide and high, as WebP."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "sha256"], name="one_picture_per_digest"),
            models.CheckConstraint(
                condition=models.Q(media_type__in=["image/png", "image/jpeg", "image/webp"]), name="picture_type_known"
            ),
        ]

    def __str__(self) -> str:
        return self.sha256


class PictureUse(models.Model):
    """A picture that was uploaded for an episode, or that came to a branch with its parent's steps."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="picture_uses", db_index=False)
    picture = models.ForeignKey(Picture, on_delete=models.CASCADE, related_name="uses")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["episode", "picture"], name="one_use_per_episode")]

    def __str__(self) -> str:
        return f"{self.picture_id} of {self.episode_id}"
