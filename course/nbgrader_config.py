"""nbgrader's settings for this course; `make course-release` and `make course-grade` use them."""

from pathlib import Path

from labkit.grading.nbgrader_plugin import AUTOGRADE

here = Path(__file__).parent

c = get_config()  # noqa: F821 - given by traitlets
c.CourseDirectory.course_id = "labkit"
c.CourseDirectory.root = str(here)
# No cell of a submission runs in a kernel: the sandbox judges its source.
c.Autograde.autograde_preprocessors = AUTOGRADE
c.SandboxExecute.source = str(here / "source")
c.SandboxExecute.kept = str(here / ".labkit-grades")
secret = here / "course.secret"
c.SandboxExecute.secret_file = str(secret) if secret.exists() else ""
